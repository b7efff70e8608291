#!/usr/bin/env bash
# Negative controls: a suite that cannot fail proves nothing. Each patch in `tests/broken` breaks one
# promise of the lock and names the tests that have to fail: `torture`, or a part of their names. Arguments
# select patches by name.
set -euo pipefail
cd "$(dirname "$0")/.."

target=$(realpath "${CARGO_TARGET_DIR:-target}")
missed=()
for patch in tests/broken/*.patch; do
    name=$(basename "$patch" .patch)
    [[ $# = 0 || " $* " == *" $name "* ]] || continue
    tree=$target/broken/$name
    rm -rf "$tree"
    mkdir -p "$tree"
    git ls-files -z | xargs -0 cp --no-dereference --parents -t "$tree"
    patch --quiet --strip 1 --directory "$tree" <"$patch"
    tests=$(sed -n '1s/seen by: //p' "$patch")
    if [ "$tests" = torture ]; then
        see=(cargo run --release --package torture -- --seconds 60)
    else
        see=(cargo test --package integration "$tests")
    fi
    log=$tree/output.txt
    if (cd "$tree" && CARGO_TARGET_DIR=$target "${see[@]}") >"$log" 2>&1; then
        missed+=("$name")
    elif ! grep -qE "faults, |test result: FAILED" "$log"; then
        cat "$log"
        exit 1 # the build failed
    fi
    echo "$name: $(grep -E "faults, |test result: FAILED" "$log" | tail -1)"
    rm -rf "$tree"
done
if [ "${#missed[@]}" != 0 ]; then
    echo "not seen: ${missed[*]}" >&2
    exit 1
fi
