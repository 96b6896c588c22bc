#!/bin/sh
# Tests an installed wheel away from the tree: sh scripts/test_wheel.sh VENV
# Its files are compared with the tree's, so that what `make test` found holds of it too; run again is what
# asks for more than the files: the command, the data beside the code, other processes.
set -eu
venv=$1
tree=$(pwd)
away=$(mktemp -d)
trap 'rm -rf "$away"' EXIT
cp -r tests "$away/tests"
cp pyproject.toml "$away/"
cd "$away"
"$venv/bin/python" "$tree/scripts/installed.py" "$tree"
"$venv/bin/shardwise" --help >/dev/null
"$venv/bin/python" -m pip install --quiet pytest pytest-xdist hypothesis
again="catalogue_models cli cli_ways constants engine explain hardware_catalogue help_is_light launch_folder listed
  plan schema topology_sources"
"$venv/bin/python" -m pytest $(for name in $again; do echo "tests/test_$name.py"; done) \
  -m 'not tree and not slow' -n auto --maxprocesses 8
