# One command starts the server, one tests it. Works with GNU make and with the make of macOS. The rest is in scripts/.

PYTHON_IN_VENV = .venv/bin/python
PYTEST = $(PYTHON_IN_VENV) -m pytest
# A small machine has two processors, and more than half of the time tests wait for something. A file stays with one
# worker: each server and browser of a file is started once.
PYTEST_JOBS = 5 --dist loadscope --no-loadscope-reorder

.PHONY: help run screenshots test test-all test-postgresql chaos bench audit lint style types imports checked packages \
        slow-packages environments constraints docs docs-versions wheel image release structure

help:
	@echo "make run          install what is needed and start the server (NNIWEB_PORT, NNIWEB_DATA, NNIWEB_DEMO=0)"
	@echo "make test         install what the tests need, then run the linters and the tests"
	@echo "make test-all     run the linters and all tests, the slow ones and PostgreSQL too; for a change that is finished"
	@echo "make test-postgresql  run the tests of the server on PostgreSQL instead of SQLite"
	@echo "make chaos        run each row of the kill table five times and write the table into docs/reliability.md (50 min)"
	@echo "make bench        run all benchmarks and compare them with their targets (half an hour; on an idle machine)"
	@echo "make audit        look up known vulnerabilities of the Python packages (asks the Python Package Index)"
	@echo "make docs         build the documentation site (docs-site), which the server has at /docs/"
	@echo "make docs-versions  add the documentation of this version to those in docs-versions, for a public host"
	@echo "make wheel        build the package (dist/*.whl) for pip, with the browser libraries and the documentation"
	@echo "make release      check that this commit is a release, and put all that is published of it into dist"
	@echo "make image        build the package, and an image with it for containers (needs podman or docker)"
	@echo "make structure    print files per folder, import cycles, and imports between folders"
	@echo "make lint         run only the linters: ruff, mypy, import-linter"
	@echo "make screenshots  take the pictures in docs/screenshots from a running demo (needs chromium)"
	@echo "make constraints  write requirements/constraints.txt from the packages in .venv"

run:
	@python=$$(scripts/find-python.sh) && exec "$$python" scripts/prepare.py server

packages:
	@python=$$(scripts/find-python.sh --install) && exec "$$python" scripts/prepare.py tests

structure: packages
	PYTHONPATH=scripts $(PYTHON_IN_VENV) -m structure

lint: style types imports

style: packages
	$(PYTHON_IN_VENV) -m ruff check .

types: packages
	$(PYTHON_IN_VENV) -m mypy nniweb trainingservice trialkeeper scripts

imports: packages
	.venv/bin/lint-imports --no-cache

# Only what has changed is built again; a link that leads nowhere fails.
docs: packages
	PYTHONPATH=scripts $(PYTHON_IN_VENV) -m docs_site

# DOCS_VERSIONS: the folder that a public host serves, with the versions that were added before.
DOCS_VERSIONS = docs-versions
docs-versions: packages
	PYTHONPATH=scripts $(PYTHON_IN_VENV) -m docs_site.versions $(DOCS_VERSIONS)

# Of tests that need packages which cannot be installed beside the others.
environments: packages
	$(PYTHON_IN_VENV) -m tests.fakes.environments_of_fast_tests

# Two at a time: each of these uses one processor.
checked:
	@$(MAKE) -j 2 lint docs environments

test: checked
	$(PYTEST) -n $(PYTEST_JOBS) -m "not slow" tests

# Schedulers and databases that only slow tests start.
slow-packages:
	@python=$$(scripts/find-python.sh --install) && exec "$$python" scripts/prepare.py slow-tests

test-all: slow-packages checked
	HYPOTHESIS_PROFILE=thorough $(PYTEST) -n $(PYTEST_JOBS) tests
	$(MAKE) test-postgresql

# All that touches the database once more, on a PostgreSQL server that is started for it.
test-postgresql: packages
	$(PYTEST) -n $(PYTEST_JOBS) -m "not slow" -p tests.on_postgresql tests/nniweb

chaos: packages
	$(PYTEST) -n 3 --dist worksteal -m kill_table --kill-table-seeds 5 --kill-table-report docs/reliability.md tests

bench: packages
	$(PYTHON_IN_VENV) -m benchmarks

audit: packages
	$(PYTHON_IN_VENV) scripts/audit.py

constraints:
	@python=$$(scripts/find-python.sh) && exec "$$python" scripts/prepare.py constraints

wheel: docs
	rm -rf dist
	$(PYTHON_IN_VENV) -m build --no-isolation --outdir dist

# docs/releasing.md has the steps before and after.
release: docs
	@$(PYTHON_IN_VENV) scripts/prepare.py release
	PYTHONPATH=scripts $(PYTHON_IN_VENV) -m release

# IMAGE=name:tag and BUILD="--build-arg EXTRAS=scale,s3" may be given.
IMAGE = nniweb:latest
image: wheel
	$$(command -v podman || echo docker) build $(BUILD) --file docs/deploy/containers/Containerfile --tag $(IMAGE) .

screenshots: packages
	$(PYTHON_IN_VENV) scripts/screenshots.py
