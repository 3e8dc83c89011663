#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What bash completes of tcc-train and tcc-opt, and that the programs take all that it offers: completion.sh SCRIPT BIN
set -u
PATH=$2:$PATH
# shellcheck source=/dev/null
source "$1"
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$scratch" || exit 1
mkdir -p runs/a/checkpoints
: | tee mine.yaml text.txt graph.tir runs/a/checkpoints/step-000100.safetensors >/dev/null
failed=0

# offered LINE: what is offered, one a line
offered() {
    COMP_LINE=$1 COMP_POINT=${#1}
    COMPREPLY=()
    _tcc_complete
    printf '%s\n' "${COMPREPLY[@]}"
}
# expect LINE WORD...: these and no others, in any order
expect() {
    local line=$1 said wanted
    said=$(offered "$line" | sort | paste -sd' ')
    shift
    wanted=$(printf '%s\n' "$@" | sort | paste -sd' ')
    [ "$said" = "$wanted" ] || { echo "\"$line\": offered \"$said\", not \"$wanted\""; failed=1; }
}
# among LINE WORD...: at least these
among() {
    local line=$1 word
    shift
    for word in "$@"; do
        offered "$line" | grep -qxF -- "$word" || { echo "\"$line\": $word is not offered"; failed=1; }
    done
}

expect 'tcc-train ' cache data eval export generate predict report tokenize mine.yaml runs/
expect 'tcc-train mi' mine.yaml
expect 'tcc-train ru' runs/
expect 'tcc-train cache ' stat list why export import clear
expect 'tcc-train cache import te' text.txt
expect 'tcc-train --em' --emit
expect 'tcc-train --emit ' tir llvm asm ptx
expect 'tcc-train --emit=l' llvm
expect 'tcc-train --device cu' cuda cuda:0
expect 'tcc-train --device cuda:' 0
expect 'tcc-train --run-dir ' runs
expect 'tcc-train mine.yaml training.compile_m' training.compile_mode=
expect 'tcc-train mine.yaml training.compile_mode=' default reduce-overhead max-autotune
expect 'tcc-train mine.yaml training.compile_mode=max' max-autotune
expect 'tcc-train mine.yaml --quiet data.shuffle=' true false
expect 'tcc-train mine.yaml data.path=te' text.txt
expect 'tcc-train mine.yaml data.batch_size=' auto
expect 'tcc-train mine.yaml --device cpu training.compile=f' false
expect 'tcc-train --plan mine.yaml optimizer.lr=' auto
expect 'tcc-train eval ' runs runs/
expect 'tcc-train eval runs/a data.val_p' data.val_path=
expect 'tcc-train predict runs/a te' text.txt
expect 'tcc-train report ru' runs
expect 'tcc-train report runs/a -o te' text.txt
expect 'tcc-train tokenize --tokenizer w' wordpiece
expect 'tcc-train tokenize --token-bytes ' 2 4
expect 'tcc-opt gr' graph.tir
expect 'tcc-opt --opt' --optimizer
expect 'tcc-opt --optimizer=ada' adam adamw adafactor adagrad
expect 'tcc-opt --passes=simplify,aut' simplify,autodiff
expect 'tcc-train --device cpu nothing-like-it' ''
among 'tcc-train --' --run-dir --lr-find --help --version
among 'tcc-opt --print=' tir locs dot memory memory-svg none
# A folder and a key wait for more; without = among the breaks of words the whole word is replaced.
COMP_WORDBREAKS=$' \t\n'
expect 'tcc-train mine.yaml data.shuffle=t' data.shuffle=true

# What is offered is taken, and what the manual has is offered.
for word in $(tcc-train --complete '' | grep -v '^:'); do
    tcc-train "$word" 2>&1 | grep -q 'cannot read the recipe' && { echo "$word is no command"; failed=1; }
done
echo 'graph @g {
  %0 = input {name="x"} : f32[4]
  output "y" %0
}' >graph.tir
for form in $(tcc-opt --complete --print=); do
    tcc-opt --passes=fuse,order,plan-memory "$form" graph.tir >/dev/null || { echo "$form"; failed=1; }
done
for option in $(tcc-opt --complete --optimizer= --complete --amp= | sort -u); do
    tcc-opt --pipeline --train "$option" --print=none graph.tir 2>&1 | grep -E "must be|no such|unknown" && failed=1
done
for program in tcc-train tcc-opt; do
    "$program" --help >help
    for option in $("$program" --complete -); do
        [ "$option" = -h ] || grep -qE -- "(^|[ ,])$option([^a-z-]|\$)" help ||
            { echo "$program --help lacks $option"; failed=1; }
    done
done
[ $failed -eq 0 ] && echo "completion is as said"
exit $failed
