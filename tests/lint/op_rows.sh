#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every public operation, layer, loss and function has a row in the table of operations: op_rows.sh SOURCE_DIR
set -u
cd "$1" || exit 1
# No work of their own: the graph, states, constants, views, what only training does, what is between ranks.
none="fail gradient state update stop_gradient
      arange eye full_like iota linspace literal
      expand_dims flatten reshape squeeze
      dropout
      all_gather all_reduce"
headers=(frontend/include/traincc/{tensor,functions,losses,nn}.h)
public=$(grep -ho '^#define tcc_[a-z0-9_]*(' "${headers[@]}" | sed 's/.*tcc_//; s/(//' | sort -u)
[ "$(wc -l <<<"$public")" -gt 150 ] || { echo "lint: too few functions in the headers, so nothing is shown"; exit 1; }
status=0
for name in $public; do
    has=0 exempt=0
    grep -qE "\btcc_$name\(" tests/bench/ops/ops.def tests/bench/ops/op_rows.c && has=1
    [[ " $(tr -s '\n ' ' ' <<<"$none") " == *" $name "* ]] && exempt=1
    [ $((has + exempt)) = 0 ] && status=1 && echo "tcc_$name has no row in tests/bench/ops/ops.def"
    [ $((has + exempt)) = 2 ] && status=1 && echo "tcc_$name has a row: it needs no exception"
done
exit $status
