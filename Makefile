# Two targets a newcomer needs: run (a demonstration) and test (all that CI runs).
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Two processes; a file stays in one of them, because its tests share what they compute.
PYTEST := $(BIN)/pytest --numprocesses 2 --dist loadfile

.PHONY: run test test-nightly lint bench bench-check bench-ranges bench-plots clean

$(VENV)/.ready: pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[dev]'
	touch $@

# ADDRESS=HOST:PORT is where the daemon of the demonstration listens.
run: $(VENV)/.ready
	$(BIN)/ykactor demo$(if $(ADDRESS), --ws $(ADDRESS))

lint: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/mypy

test:
	@echo "Style, types and all tests: about four minutes on two cores."
	$(MAKE) --no-print-directory lint
	$(PYTEST)

test-nightly: $(VENV)/.ready
	@echo "All tests with four times as many random histories: about thirteen minutes on two cores."
	YKACTOR_SEEDS=4 $(PYTEST)

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

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis
