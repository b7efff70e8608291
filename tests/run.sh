#!/usr/bin/env bash
# Runs all tests of the workspace. Programs that are missing are listed, or installed with --install
# (Debian). All other arguments are passed to cargo test.
set -euo pipefail
cd "$(dirname "$0")/.."

install=
if [[ ${1-} == --install ]]; then
    install=yes
    shift
fi

missing=() packages=()
needs() { # program, and the Debian packages that contain it
    command -v "$1" >/dev/null || { missing+=("$1") packages+=("${@:2}"); }
}
needs redis-server redis-server
needs redis-cli redis-tools
needs faketime faketime
needs ip iproute2
needs openssl openssl
needs python3 python3 python3-pip
needs npm nodejs npm
PATH="$PATH:$(printf '%s:' /usr/lib/postgresql/*/bin)" needs initdb postgresql

if [[ ${#missing[@]} != 0 && ! $install ]]; then
    echo "missing programs: ${missing[*]} (Debian packages: ${packages[*]})"
    echo "bash tests/run.sh --install installs them"
    exit 1
elif [[ ${#missing[@]} != 0 ]]; then
    if ! command -v apt-get >/dev/null; then
        echo "--install needs apt-get; missing programs: ${missing[*]}"
        exit 1
    fi
    sudo=$([ "$(id -u)" = 0 ] || echo sudo)
    # Without a first cluster, PostgreSQL does not start as a service of the system.
    clusters=/etc/postgresql-common/createcluster.conf
    if [[ " ${packages[*]} " == *" postgresql "* && ! -e $clusters ]]; then
        $sudo mkdir -p /etc/postgresql-common
        echo "create_main_cluster = false" | $sudo tee $clusters >/dev/null
    fi
    $sudo apt-get update -q
    $sudo env DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends "${packages[@]}"
fi >&2

# Most tests wait more than they compute.
export RUST_TEST_THREADS=${RUST_TEST_THREADS:-$((2 * $(getconf _NPROCESSORS_ONLN)))}
cargo test --workspace --all-features "$@"
