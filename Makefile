# Each target sets up what it needs in .venv and then runs; nothing has to be installed first but Python 3.11 or newer.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench clean

demo: .venv/.base
	$(BIN)/fairpost demo

test: .venv/.test
	$(BIN)/python -m pytest -n 2 --dist loadfile --durations 8

lint: .venv/.lint
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/.bench
	$(BIN)/python benchmarks/run.py

clean:
	rm -rf .venv build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis

.venv/bin/python:
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade pip

.venv/.base: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable .
	touch $@

.venv/.test: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test]'
	touch $@

.venv/.lint: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test,lint]'
	touch $@

.venv/.bench: .venv/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable '.[test,bench]'
	touch $@
