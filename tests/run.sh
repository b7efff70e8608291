#!/usr/bin/env bash
# Installs what the tests need, and runs them all: unit, integration, compile-fail, doc and example tests.
set -euo pipefail
cd "$(dirname "$0")/.."

if ! command -v redis-server >/dev/null; then
    if ! command -v apt-get >/dev/null; then
        echo "the tests need redis-server 7 or newer on the PATH" >&2
        exit 1
    fi
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends redis-server
fi

cargo test --workspace --all-features "$@"
