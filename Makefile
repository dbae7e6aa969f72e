# Each target sets up what it needs in .venv and then runs; nothing has to be installed first but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin
KERNELS := $(shell find src -name '*.py' '(' -path '*/kernels/*' -o -path '*/compiled/*' ')')

.PHONY: demo test test-long test-cases test-lowest mutants torture attack attack-inputs attack-documents attack-numbers attack-explore lint bench bench-nation bench-gpu bench-explore docs paper browser clean

demo: .venv/.base
	$(BIN)/fairpost demo

test: .venv/.test .venv/.kernels  # bytecode is kept for the run: the tests start hundreds of processes
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 8 -m "not long"

test-long: .venv/.test .venv/.kernels  # what `make test` leaves out (tests/support/long_tests.py says what and why); CI runs both
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n 2 --dist loadfile --no-loadscope-reorder --durations 8 -m long

test-cases: .venv/.test .venv/.kernels  # the whole table of cases, every engine; python tests/support/known.py writes its lists anew
	$(BIN)/python -m pytest -n 2 tests/engines

mutants: .venv/.test  # careless changes drawn blind, one at a time: make mutants ARGS="--seed 3 --count 20 src/fairpost/noise"
	$(BIN)/python tools/mutants.py $(ARGS)

test-lowest: .venv-lowest/.test  # the oldest releases that pyproject.toml allows
	.venv-lowest/bin/python -m pytest -n 2 --dist loadfile

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	MYPYPATH=src $(BIN)/mypy --config-file= --ignore-missing-imports --disable-error-code misc --disable-error-code arg-type benchmarks

docs: .venv/.docs
	$(BIN)/mkdocs build --strict

paper: .venv/.paper
	$(BIN)/fairpost paper --force

browser: .venv/.test  # the report's tests open it in a real browser and are skipped by name where there is none
	@command -v chromium || command -v chromium-browser || command -v google-chrome || \
	{ command -v apt-get && apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } || \
	$(BIN)/playwright install chromium

bench: .venv/.bench
	$(BIN)/python benchmarks/run.py

attack: attack-inputs attack-numbers  # both, with what both take: make attack ARGS="--seconds 600 --seed 3"

attack-inputs: .venv/.test  # seeded nonsense in files, options, checkpoints, signals: make attack-inputs ARGS="--full --seed 3"
	$(BIN)/python tools/attack.py $(ARGS)

attack-documents: .venv/.test  # mutated laws, maps, statements and plans alone: make attack-documents ARGS="--cases 20000 --seed 3"
	$(BIN)/python tools/attack.py --only laws maps statements plans $(ARGS)

attack-numbers: .venv/.test  # the exact engine against an independent simulation: make attack-numbers ARGS="--cases 600 --seed 3"
	$(BIN)/python tools/attack_numbers.py $(ARGS)

torture: .venv/.test  # processes killed at random, full disks, edited ledgers: some ten minutes, and a table
	$(BIN)/python tools/torture.py

bench-nation: .venv/.bench  # 8.1 million blocks: some minutes, 2 GB
	$(BIN)/python benchmarks/bench_nation.py

bench-gpu: .venv/.gpu  # noise, Table 2 and a nation on a CUDA device; says so where there is none
	$(BIN)/python benchmarks/bench_gpu.py agree

bench-explore: .venv/.test  # the live page in a real browser, on SAIPE where FAIRPOST_DATA has it: some three minutes
	$(BIN)/python benchmarks/bench_explore.py $(ARGS)

attack-explore: .venv/.test  # 1,000 random requests to every route of the live page
	FAIRPOST_FUZZ=1000 $(BIN)/python -m pytest tests/fuzz/test_requests.py --timeout 3600

clean:
	rm -rf .venv .venv-lowest build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.base: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/.test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

.venv/.kernels: .venv/.test $(KERNELS)  # tests that compiled on their way would wait for each other
	$(BIN)/fairpost compile
	touch $@

.venv/.lint: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $@

.venv/.docs: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[docs]'
	touch $@

.venv/.paper: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[paper]'
	touch $@

.venv/.gpu: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[gpu]'
	touch $@

.venv/.bench: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test,bench]'
	touch $@

.venv-lowest/.test: pyproject.toml tools/lowest.py
	$(PYTHON) -m venv .venv-lowest
	.venv-lowest/bin/python -m pip install --quiet --upgrade pip
	.venv-lowest/bin/python tools/lowest.py test > .venv-lowest/constraints.txt
	.venv-lowest/bin/python -m pip install --quiet --constraint .venv-lowest/constraints.txt --editable '.[test]'
	touch $@
