#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Trains a small classifier under valgrind's memcheck, from a table to checkpoints; an error or a definite leak fails:
#   valgrind.sh VALGRIND TCC_TRAIN
set -eu
valgrind=$1 train=$2
[ -x "$valgrind" ] || { echo "skipped: no valgrind"; exit 77; }
awk -v OFS=, 'BEGIN {
    print "height", "width", "kind"
    for (i = 0; i < 60; i++) print i % 7 - 3, i % 11 - 5, i % 3 ? "large" : "small"
}' >table.csv
cat >recipe.yaml <<'END'
model: {name: mlp, hidden: [16, 16], dropout: 0.1}
data: {kind: csv, path: table.csv, batch_size: 8, val_split: 0.2}
training: {max_steps: 10, log_every: 1, eval_every: 5, save_every: 5, clip_grad_norm: 1}
END
"$valgrind" --quiet --error-exitcode=1 --leak-check=full --show-leak-kinds=definite --errors-for-leak-kinds=definite \
    --suppressions="$(dirname "$0")/valgrind.supp" "$train" --run-dir run recipe.yaml
