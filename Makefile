# make demo, make test, make check, make test-clients, make test-e2e: each makes what it needs from nothing.
PYTHON ?= python3
VENV := .venv
CLIENTS := .venv-clients
E2E := .venv-e2e
WHEEL := .venv-wheel

.PHONY: demo test check test-clients test-e2e wheel-test clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --editable .
	touch $@

$(VENV)/dev: $(VENV)/installed
	$(VENV)/bin/python -m pip install --quiet --editable '.[dev]'
	touch $@

demo: $(VENV)/installed
	$(VENV)/bin/shardwise plan llama-3.1-8b --cluster dgx-h100 --nodes 2 --global-batch-size 128 \
	  --sequence-length 8192 --emit fsdp -o demo --force
	@ls -1 demo

test: $(VENV)/dev
	$(VENV)/bin/python -m pytest tests -m 'not clients and not e2e'
	$(VENV)/bin/python -m pytest --doctest-modules --pyargs $(addprefix shardwise.,calibration cli costs hardware inputs launch models plans runs solver) shardwise

check: $(VENV)/dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet --site-dir build/site
	$(MAKE) wheel-test

# The built wheel and sdist, tested in a clean environment away from the tree.
wheel-test: $(VENV)/dev
	rm -rf build dist $(WHEEL)
	$(VENV)/bin/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python -m pip install --quiet dist/*.whl pytest hypothesis
	sh scripts/test_wheel.sh $(CURDIR)/$(WHEEL)

$(CLIENTS)/installed: pyproject.toml
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python -m pip install --quiet torch==2.13.0
	DS_BUILD_OPS=0 $(CLIENTS)/bin/python -m pip install --quiet --editable '.[clients]'
	touch $@

test-clients: $(CLIENTS)/installed
	$(CLIENTS)/bin/python -m pytest tests/clients -m clients -W default

$(E2E)/installed: pyproject.toml
	$(PYTHON) -m venv $(E2E)
	$(E2E)/bin/python -m pip install --quiet torch==2.13.0
	$(E2E)/bin/python -m pip install --quiet --editable '.[e2e]'
	touch $@

# Debian's Slurm on this machine (apt install slurm-wlm munge; root), torchtitan and Megatron Core on a CPU, and
# Megatron-LM where MEGATRON_LM names a checkout of it; what is missing is skipped and said.
test-e2e: $(E2E)/installed
	PATH="$(CURDIR)/$(E2E)/bin:$$PATH" $(E2E)/bin/python -m pytest tests/e2e -m e2e -W default -rs --durations=5

clean:
	rm -rf $(VENV) $(CLIENTS) $(E2E) $(WHEEL) build dist demo
