#!/usr/bin/env bash
# Installs what the tests need, and runs them all: unit, integration, compile-fail, doc and example tests.
set -euo pipefail
cd "$(dirname "$0")/.."

missing=()
needs() { # program, and the Debian packages that have it
    command -v "$1" >/dev/null || missing+=("${@:2}")
}
needs redis-server redis-server
needs redis-cli redis-tools
needs faketime faketime
needs ip iproute2
needs openssl openssl
needs python3 python3 python3-pip
needs npm nodejs npm
PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)" needs initdb postgresql

if [ "${#missing[@]}" != 0 ]; then
    if ! command -v apt-get >/dev/null; then
        echo "the tests need programs of: ${missing[*]} (names of Debian packages)" >&2
        exit 1
    fi
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    # Without a first cluster, PostgreSQL does not start as a service of the system.
    clusters=/etc/postgresql-common/createcluster.conf
    if [[ " ${missing[*]} " == *" postgresql "* && ! -e $clusters ]]; then
        $sudo mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" | $sudo tee $clusters >/dev/null
    fi
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${missing[@]}"
fi

# Most tests wait more than they compute.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
cargo test --workspace --all-features "$@"
