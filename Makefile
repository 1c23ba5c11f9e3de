# One command for each thing a person does here. `make help` lists them.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
WORKERS ?= 2
READY := $(VENV)/.ready
SHELL := /bin/sh

.PHONY: help run test check bench cover lock docs agents systemd packages tour clean

help:
	@echo "make run            the daemon on a sample repository, ends by itself (REPO=path: on yours, until Ctrl-C)"
	@echo "make test           the whole test suite"
	@echo "make check          formatting, lint, strict types, import arrows, the documents' commands"
	@echo "make bench          figures, one JSON line each"
	@echo "make cover          branch coverage"
	@echo "make agents         the real agent CLIs, from npm, against a local stand-in of their model APIs (docs/runners.md)"
	@echo "make packages       sdist and wheel through pip, pipx and uv into new environments; needs a registry (docs/packaging.md)"
	@echo "make systemd        the service under a real systemd, in a container: root and systemd-nspawn (ROOT=folder of its system)"
	@echo "make tour           play docs/tour.md and write it anew (needs bash, jq, pgrep and sshd)"
	@echo "make docs           the generated pages"
	@echo "make lock           renew constraints.txt"

# The stamp depends on what is installed, so that a changed lock file installs anew.
$(READY): pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "cueloopd needs Python 3.11 or newer; set PYTHON=")'
	$(PYTHON) -m venv "$(VENV)"
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	"$(BIN)/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch "$(READY)"

run: $(READY)
	@"$(BIN)/python" examples/demo.py $(if $(REPO),--repo "$(REPO)")

# Most tests wait most of the time, for processes and for limits to pass. One after the other: make test WORKERS=0
test: $(READY)
	"$(BIN)/python" -m pytest -n $(WORKERS) --dist worksteal

check: $(READY)
	"$(BIN)/ruff" format --check .
	"$(BIN)/ruff" check .
	"$(BIN)/mypy"
	"$(BIN)/python" -m cueloop_protocol.reference --check docs/protocol.md
	"$(BIN)/python" -m cueloop_daemon.doctor.page --check docs/doctor.md
	"$(BIN)/python" -m pytest -q tests/test_imports.py tests/test_documents.py

bench: $(READY)
	"$(BIN)/python" -m bench

cover: $(READY)
	"$(BIN)/python" -m coverage erase
	"$(BIN)/python" -m coverage run -m pytest -q
	"$(BIN)/python" -m coverage report --skip-covered --show-missing

systemd: $(READY)
	"$(BIN)/python" tests/service/real_systemd.py "$(or $(ROOT),$(CURDIR)/$(VENV)/systemd)"

docs: $(READY)
	"$(BIN)/python" -m cueloop_protocol.reference > docs/protocol.md
	"$(BIN)/python" -m cueloop_daemon.doctor.page > docs/doctor.md

# Without install scripts: the programs are used from their packages, and node comes with them. `npm ci` refuses a lock file that lacks the
# optional packages of platforms that a registry does not have. Versions are exact; digests are locked for what was installed on Linux x64.
agents: $(READY)
	cd tests/agents && npm install --no-save --ignore-scripts --loglevel=error
	CUELOOP_AGENTS=1 "$(BIN)/python" -m pytest -q -n $(WORKERS) tests/agents

tour: $(READY)
	"$(BIN)/python" tests/tour/record.py

packages: $(READY)
	"$(BIN)/python" tests/packaging/try_installers.py

lock: $(READY)
	"$(BIN)/python" -m pip install --quiet pip-tools
	"$(BIN)/python" -m piptools compile -q --extra dev --extra test --generate-hashes --allow-unsafe --no-emit-index-url \
	  --no-emit-trusted-host --no-emit-find-links --strip-extras --no-header --no-annotate -o constraints.txt pyproject.toml
	@printf '# Every package that the project is built and tested with, by version and hash. Renew with: make lock\n\n' | \
	  cat - constraints.txt > constraints.new && mv constraints.new constraints.txt

clean:
	rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .coverage
