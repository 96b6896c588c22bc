#!/bin/sh
# Tests an installed wheel away from the tree: sh scripts/test_wheel.sh VENV
set -eu
venv=$1
tree=$(pwd)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
cp -r tests "$away/tests"
cp pyproject.toml "$away/"
cd "$away"
"$venv/bin/python" - "$tree" <<'PY'
import sys
import shardwise
assert not shardwise.__file__.startswith(sys.argv[1] + "/src"), shardwise.__file__
PY
"$venv/bin/shardwise" --help >/dev/null
"$venv/bin/python" -m pytest tests -m 'not clients and not tree and not slow and not e2e' -n auto --maxprocesses 8
