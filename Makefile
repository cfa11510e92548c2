# A new machine needs only make and Python 3.11 to 3.14. Another interpreter: make test PYTHON=python3.12

PYTHON ?= python3
RUN = .venv/bin/python -m
UV = build/uv/bin/uv
UV_VERSION = 0.13.8

# Each target says first what it does, from its line of help, and last how long it took.
STARTED := $(shell date +%s)
say = @sed -n 's/^$@:.*\#\# \(.*\)/make $@: \1/p' Makefile
took = @echo "make $@: done in $$(($$(date +%s) - $(STARTED))) seconds"

.DEFAULT_GOAL := help

.PHONY: help
help: ## show these lines
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1|\2/p' Makefile | while IFS='|' read -r name text; do \
		printf '%-24s %s\n' "$$name" "$$text"; done

.PHONY: environment
environment: ## build .venv from requirements.lock (two or three minutes); does nothing when it is up to date
	@$(PYTHON) tools/environment.py

.PHONY: demo
demo: environment ## private samples of a real data set, audited, with a report, demo/report.html (about a minute)
	$(say)
	$(RUN) privsample.simulations.demo demo
	$(took)

TESTS = check test test-long test-generations coverage
# Each worker has one core, and threads of BLAS would take it from the others. An empty PYTHONDONTWRITEBYTECODE lets
# Python keep what it has compiled: otherwise each worker, and each process that a test starts, compiles all anew.
$(TESTS) docs: export OPENBLAS_NUM_THREADS = 1
$(TESTS) docs: export OMP_NUM_THREADS = 1
$(TESTS): export PYTHONDONTWRITEBYTECODE =
# Of glibc: keep freed memory, up to 256 MiB, for the next array. By default each large array is new memory from the
# system, which has to clear it page by page: a fifth of the processor time of compositions on grids.
$(TESTS): export MALLOC_MMAP_MAX_ = 0
$(TESTS): export MALLOC_TRIM_THRESHOLD_ = 268435456
TEST = $(RUN) pytest -n auto --dist worksteal

.PHONY: check
check: lint ## for each small step: lint, and the tests that matter most (a minute and a half)
	$(say)
	$(TEST) --lane check
	$(took)

.PHONY: test
test: environment ## what each change must pass: the whole suite, on both generations of PyMC (twenty minutes on two cores)
	$(say)
	$(TEST) --measure privsample/accounting --require-all
	@$(MAKE) --no-print-directory test-generations
	$(took)

.PHONY: test-long
test-long: environment ## each night and before a release: long tests, and fresh seeds for what is random (hours)
	$(say)
	$(TEST) --lane long
	@.venv/bin/python tools/generations.py --whole
	$(took)

.PHONY: coverage
coverage: environment ## which lines of the whole package the test suite runs (as long as make test)
	$(say)
	$(TEST) --measure privsample
	$(took)

.PHONY: test-generations
test-generations: environment ## the tests of the other generation of PyMC and ArviZ, if an interpreter is found
	@.venv/bin/python tools/generations.py

.PHONY: mutants
mutants: environment ## sixty mutants of accounts and mechanisms, each of which a test must kill (five minutes)
	.venv/bin/python tools/mutants.py run

.PHONY: minimal-install
minimal-install: ## a wheel with the required packages alone, on each Python 3.11 to 3.14 that is found, and its size
	@$(PYTHON) tools/minimal_install.py

.PHONY: lint
lint: environment ## style, format, types, the direction of imports, and the sections of docstrings (half a minute)
	$(say)
	$(RUN) ruff check
	$(RUN) ruff format --check
	$(RUN) mypy
	.venv/bin/lint-imports --no-logo
	.venv/bin/python tools/docstrings.py
	$(took)

.PHONY: format
format: environment ## mend style and format where that is safe
	$(say)
	$(RUN) ruff check --fix
	$(RUN) ruff format

.PHONY: bench
bench: environment ## the benchmarks (hours; one of them: .venv/bin/python -m benchmarks draws)
	$(say)
	$(RUN) benchmarks
	$(took)

.PHONY: docs
docs: environment ## the site, build/docs/html/index.html; runs the pages that make test has not just run (two minutes)
	$(say)
	.venv/bin/python tools/docs_site.py
	$(took)

.PHONY: lock
lock: ## resolve the dependencies anew into requirements.lock
	$(say)
	test -x $(UV) || { $(PYTHON) -m venv build/uv && build/uv/bin/pip install --quiet uv==$(UV_VERSION); }
	@mkdir -p build
	$(UV) pip compile pyproject.toml --quiet --upgrade --universal --python-version 3.11 \
		--fork-strategy requires-python --extra all --group dev --group docs --generate-hashes \
		--no-strip-extras --no-annotate --no-header --no-emit-index-url --no-emit-find-links \
		--output-file build/requirements.txt
	@{ echo '# Written by make lock. All extras but spark and all groups, for every supported Python.'; \
		cat build/requirements.txt; } > requirements.lock

.PHONY: clean
clean: ## remove everything that was built
	rm -rf .venv .venv-* .venv*.lock build dist demo \
		.pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
