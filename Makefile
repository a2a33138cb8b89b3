# Two targets a newcomer needs: run (a demonstration) and test (all that CI runs).
PYTHON ?= python3
LOWEST_PYTHON ?= python3.11
VENV := .venv
BIN := $(VENV)/bin
# Four processes, because many tests wait; a file stays in one of them, because its tests share what they compute.
LOCKED := requirements/locked.txt
RUNTIME := requirements/runtime.txt
LOWEST := requirements/lowest.txt
COMPILE := $(BIN)/uv pip compile --quiet --universal --custom-compile-command 'make lock'
INSTALL := $(BIN)/pip install --quiet --disable-pip-version-check
PYTEST := $(BIN)/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder
# Pytest compiles the tests anew, with its assertions, where it finds no bytecode of them: once, not in four processes at a time.
COMPILED := .pytest_cache/.compiled
# The tests start hundreds of processes; without bytecode on the disk each of them compiles everything anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run lock test tests browser test-compiled test-lowest test-python coverage test-nightly crash crash-standby test-kube jobs abuse soak lint style types bench bench-check bench-ranges bench-plots release clean

# In words that also an old Python understands.
PYTHON_VERSION = import sys; found = sys.version_info[:2]; \
	sys.exit(found < (3, 11) and "ykactor needs Python 3.11 or newer, found %d.%d: add PYTHON=python3.11" % found)

# All packages have the versions and the hashes of the lock file, also what builds this one; CI comes here too.
$(VENV)/.ready: pyproject.toml $(LOCKED)
	@$(PYTHON) -c '$(PYTHON_VERSION)'
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --requirement $(LOCKED)
	$(INSTALL) --no-deps --no-build-isolation --editable .
	touch $@ $(VENV)/.runs

# The same without what only tests need; .ready has all of it.
$(VENV)/.runs: pyproject.toml $(RUNTIME)
	@$(PYTHON) -c '$(PYTHON_VERSION)'
	@echo "Installing ykactor and its libraries into $(VENV)."
	@$(PYTHON) -m venv $(VENV)
	@$(INSTALL) --requirement $(RUNTIME)
	@$(INSTALL) --no-deps --no-build-isolation --editable .
	@touch $@

# Renews all lists of versions: the newest ones, those of them without which nothing runs, and the lowest ones that pyproject.toml allows.
lock: $(VENV)/.ready
	$(COMPILE) --upgrade --generate-hashes --extra dev --output-file $(LOCKED) pyproject.toml
	$(COMPILE) --upgrade --generate-hashes --group build --constraint $(LOCKED) --output-file $(RUNTIME) pyproject.toml
	$(COMPILE) --upgrade --resolution lowest-direct --extra dev --output-file $(LOWEST) pyproject.toml

# ADDRESS=HOST:PORT and HTTP=HOST:PORT are where the daemon of the demonstration listens. The shell waits for its end after Ctrl-C, which is no error.
run: $(VENV)/.runs
	@trap : INT; $(BIN)/ykactor demo --state-dir state$(if $(ADDRESS), --ws $(ADDRESS))$(if $(HTTP), --http $(HTTP)) || [ $$? -eq 130 ]

lint: style types

style: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.ready
	$(BIN)/mypy

# The types need one core for a while; the tests begin on the other.
test:
	@echo "Style, types and all tests: about six minutes on two cores."
	$(MAKE) --no-print-directory style
	$(MAKE) --no-print-directory --jobs 2 types tests

tests: $(COMPILED)
	$(PYTEST)

# What is wrong with a test is said by the run that follows.
$(COMPILED): $(VENV)/.ready
	@$(BIN)/pytest --collect-only >/dev/null 2>&1 || true
	@mkdir -p $(@D) && touch $@

browser: $(VENV)/.ready
	@echo "The page in a headless Chromium: about a minute. These tests are part of make test too."
	$(BIN)/pytest -rs tests/browser

coverage: $(VENV)/.ready
	@echo "Branches of core/ that its tests take: about five minutes on two cores. Fails below the floor in pyproject.toml."
	$(PYTEST) --cov --cov-report=term tests/unit tests/property tests/actors tests/scenarios

test-nightly: $(COMPILED)
	@echo "All tests with twenty times as many random histories: about twenty minutes on two cores."
	YKACTOR_SEEDS=3 $(PYTEST)

crash: $(VENV)/.ready
	@echo "Kills a daemon 200 times at any moment, or cuts its power, and compares what is left with what was said: about five minutes on two cores."
	PYTHONPATH=tests $(BIN)/python tests/crash 200 $(or $(SEED),0)

crash-standby: $(VENV)/.ready
	@echo "Kills a daemon with a standby, or the standby, or both, 200 times, and a replica, and lets the standby take over: about ten minutes on two cores."
	PYTHONPATH=tests $(BIN)/python tests/crash 200 $(or $(SEED),0) pairs

# JOBS=10000 KILLS=200 for more. As root also those of the accounts daemon and bin under local --system, with quotas and GPUs.
jobs: $(VENV)/.ready
	@echo "Runs 1,000 jobs of this machine, and kills daemon and local resource manager 60 times meanwhile, for one user and for two: six minutes."
	PYTHONPATH=tests $(BIN)/python tests/jobs $(or $(JOBS),1000) $(or $(KILLS),60) $(or $(SEED),0)

# Beside a real API server, and real controllers, if variables name them (tests/kubernetes/README.md).
test-kube: $(VENV)/.ready
	@echo "Plays recorded dialogues, policies and controllers, and kills adapter, daemon, leader and API server 20 times each: half an hour."
	PYTHONPATH=tests $(BIN)/python tests/kubernetes 20 $(or $(SEED),0)

abuse: $(VENV)/.ready
	@echo "A thousand followers, 10,000 connections, floods, a million wrong messages, 100,000 queue files: about fifteen minutes on two cores."
	PYTHONPATH=tests $(BIN)/python tests/abuse $(or $(SEED),0)

# The checkout comes behind the installed package on the path: from it only ``bench`` is imported.
test-compiled:
	@echo "All tests against an installed wheel whose core is compiled: about six minutes on two cores."
	$(PYTHON) -m venv --clear .venv-compiled
	YKACTOR_COMPILE=1 .venv-compiled/bin/pip install --quiet --disable-pip-version-check '.[dev]'
	echo '$(CURDIR)' > "$$(.venv-compiled/bin/python -c 'import sysconfig; print(sysconfig.get_path("purelib"))')/checkout.pth"
	PYTHONSAFEPATH=1 .venv-compiled/bin/ykactor --version | grep compiled
	PYTHONSAFEPATH=1 .venv-compiled/bin/pytest --numprocesses 2 --dist loadfile

# With the lowest Python too. What only checks the source (ruff, mypy) has the versions of the lock file.
test-lowest:
	@echo "All tests with the lowest versions that pyproject.toml allows: about six minutes on two cores."
	$(LOWEST_PYTHON) -m venv --clear .venv-lowest
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --requirement $(LOWEST)
	.venv-lowest/bin/pip install --quiet --disable-pip-version-check --no-deps --editable .
	.venv-lowest/bin/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

# PYTHON=python3.14 is the interpreter; the versions are those of the lock file.
test-python:
	@echo "All tests with another interpreter: about five minutes on two cores."
	$(PYTHON) -m venv --clear .venv-python
	.venv-python/bin/pip install --quiet --disable-pip-version-check --requirement $(LOCKED)
	.venv-python/bin/pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	.venv-python/bin/pytest --numprocesses 4 --dist loadfile --no-loadscope-reorder

bench: $(VENV)/.ready
	$(BIN)/python -m bench

# Fails if a decision costs much more than bench/ranges.yaml says; bench-ranges writes that file.
bench-check: $(VENV)/.ready
	@echo "Ten cases, three times: a few minutes."
	$(BIN)/python -m bench.check

bench-ranges: $(VENV)/.ready
	$(BIN)/python -m bench.check --rewrite

# Renews the plots in bench/README.md.
bench-plots: $(VENV)/.ready
	$(BIN)/python -m bench.sweeps
	$(BIN)/python -m bench.recovering

# Fails if anything grows, or an invariant is violated; renews bench/soak.svg.
soak: $(VENV)/.ready
	@echo "Thirty simulated days of churn: about ten minutes."
	$(BIN)/python -m bench.soak

# VERSION=1.2.3 is what is released; the files are in dist/, and nothing is committed.
release: $(VENV)/.ready
	@test -n "$(VERSION)" || { echo "Say which version: make release VERSION=1.2.3" >&2; exit 2; }
	$(BIN)/python .hatch/release.py $(VERSION)

clean:
	rm -rf $(VENV) .venv-compiled .venv-lowest .venv-python .mypy_cache .ruff_cache .pytest_cache .hypothesis
