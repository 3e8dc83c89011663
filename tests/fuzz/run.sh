#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Fuzzes one target for a bounded time: run.sh TARGET CORPUS SECONDS. New inputs go to a scratch folder, never into the
# corpus; the input that breaks the target is left in the working folder and named by libFuzzer's last lines.
set -eu
target=$1 corpus=$2 seconds=$3
name=$(basename "$target")
found=$(mktemp -d)
trap 'rm -rf "$found"' EXIT
options=(-max_total_time="$seconds" -timeout="$((10 * ${TCC_TEST_PATIENCE:-1}))" -rss_limit_mb=2048 -max_len=65536
    -verbosity=0 -print_final_stats=1 -artifact_prefix="$PWD/$name.")
dictionary=$(dirname "$corpus")/../$name.dict
[ ! -e "$dictionary" ] || options+=(-dict="$dictionary")
[ -d "$corpus" ] || { echo "$corpus is missing: a fuzzer begins from some inputs"; exit 1; }
"$target" "${options[@]}" "$found" "$corpus"
