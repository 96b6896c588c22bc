# make demo, make test, make check, make test-clients, make test-e2e: each makes what it needs from nothing.
PYTHON ?= python3
VENV := .venv
CLIENTS := .venv-clients
E2E := .venv-e2e
WHEEL := .venv-wheel
MEGATRON := 0.19.0
# A file at a time: its tests share what they solved.
WORKERS := -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder
# Each starts ranks of its own; a file's tests share what its ranks found. Those of most tests go first.
RANKS := -n auto --maxprocesses 4 --dist loadfile
INSTALL := -m pip install --quiet
# What is imported is compiled then: most modules of the clients never are.
LARGE := $(INSTALL) --no-compile

.PHONY: demo test check test-clients test-e2e slurm wheel-test clean

$(VENV)/installed: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(INSTALL) --editable .
	touch $@

$(VENV)/dev: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python $(INSTALL) --editable '.[dev]'
	touch $(VENV)/installed $@

demo: $(VENV)/installed
	$(VENV)/bin/shardwise plan llama-3.1-8b --cluster dgx-h100 --nodes 2 --global-batch-size 128 \
	  --sequence-length 8192 --emit fsdp -o demo --force
	@ls -1 demo

test: $(VENV)/dev
	$(VENV)/bin/python -m pytest tests --ignore tests/test_docs.py -m 'not clients and not e2e' $(WORKERS)
	$(VENV)/bin/python -m pytest --doctest-modules --pyargs $(addprefix shardwise.,calibration cli costs hardware inputs launch models plans runs solver) shardwise

check: $(VENV)/dev
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/mypy
	NO_MKDOCS_2_WARNING=1 $(VENV)/bin/mkdocs build --strict --quiet --site-dir build/site
	$(VENV)/bin/python -m pytest tests/test_docs.py
	$(MAKE) wheel-test

# The wheel that the sdist makes, tested in a clean environment away from the tree.
wheel-test: $(VENV)/dev
	rm -rf build dist $(WHEEL)
	$(VENV)/bin/python -m build --outdir dist . >/dev/null
	$(PYTHON) -m venv $(WHEEL)
	$(WHEEL)/bin/python $(INSTALL) dist/*.whl
	sh scripts/test_wheel.sh $(CURDIR)/$(WHEEL)

$(CLIENTS)/installed: pyproject.toml
	$(PYTHON) -m venv $(CLIENTS)
	$(CLIENTS)/bin/python $(LARGE) torch==2.13.0
	DS_BUILD_OPS=0 $(CLIENTS)/bin/python $(LARGE) --editable '.[clients]'
	touch $@

# By hand, with -m 'clients and slow': DeepSpeed's own Lion, which is compiled for minutes.
test-clients: $(CLIENTS)/installed
	$(CLIENTS)/bin/python -m pytest tests/clients -m 'clients and not slow' -W default $(RANKS)

# Megatron-LM's checks of arguments are in the wheel of a release for Python 3.12, which pip will not install beside
# an older Python: it is unpacked. A MEGATRON_LM of your own names a checkout instead.
$(E2E)/installed: pyproject.toml
	$(PYTHON) -m venv $(E2E)
	$(E2E)/bin/python $(LARGE) torch==2.13.0
	$(E2E)/bin/python $(LARGE) --editable '.[e2e]'
	touch $@

$(E2E)/megatron-lm: $(E2E)/installed
	rm -rf $(E2E)/wheels
	-$(E2E)/bin/python -m pip download --quiet --no-deps --python-version 3.12 --only-binary :all: \
	  --dest $(E2E)/wheels megatron-core==$(MEGATRON) && \
	  $(E2E)/bin/python -m zipfile --extract $(E2E)/wheels/megatron_core-$(MEGATRON)-*.whl $@

# Debian's Slurm where root may install it; what is missing is skipped and said by the tests.
slurm:
	@if command -v sbatch >/dev/null; then :; \
	elif [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
	  { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -qq -y slurm-wlm munge; } >/dev/null 2>&1 \
	  || echo "slurm-wlm and munge could not be installed"; \
	else echo "Slurm is not installed, and only root can"; fi

# A real Slurm on this machine, torchtitan and Megatron Core on a CPU, Megatron-LM's three checks of arguments.
test-e2e: $(E2E)/installed $(E2E)/megatron-lm slurm
	PATH="$(CURDIR)/$(E2E)/bin:$$PATH" MEGATRON_LM="$${MEGATRON_LM-$(CURDIR)/$(E2E)/megatron-lm}" \
	  $(E2E)/bin/python -m pytest tests/e2e -m e2e -W default -rs --durations=5

clean:
	rm -rf $(VENV) $(CLIENTS) $(E2E) $(WHEEL) build dist demo
