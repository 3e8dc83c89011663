#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Verifies the first step of each recipe at several batch sizes and seeds, which must raise no alarm:
#   tests/bench/verify_recipes.sh BUILD TEXT_FILE IDX_FOLDER CIFAR_FOLDER [RECIPE...]
# BATCHES and SEEDS may say which ones, `own` being the recipe's; RUN what to run each by. The recipe imdb-classifier
# needs REVIEWS, its data, and VOCAB, the file of its words. A line a run: the worst kernel and the worst result, of
# what rounding explains; the samples that were compared; seconds. Ends with status 1 if any run found a fault.
set -u
build=$(cd "$1" && pwd) text=$2 idx=$3 cifar=$4
shift 4
recipes=$(cd "$(dirname "$0")/../../tools/recipes" && pwd)
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0
export TCC_CACHE_DISABLE=1

# A table of numbers with a class that two of them decide.
awk 'BEGIN {
    srand(1)
    print "a,b,c,d,e,label"
    for (i = 0; i < 600; i++) {
        line = ""
        for (k = 0; k < 5; k++) {
            v[k] = rand() * 2 - 1
            line = line sprintf("%.4f,", v[k])
        }
        print line (v[0] + v[1] > 0) + (v[2] > 0.5)
    }
}' >"$scratch/table.csv"

declare -A data=([char-gpt]=$text [mnist-cnn]=$idx [cifar-resnet18]=$cifar [csv-mlp]=$scratch/table.csv
    [imdb-classifier]=${REVIEWS:-})
printf '%-16s %6s %5s %8s %8s %8s %8s\n' recipe batch seed kernel result samples seconds
for recipe in ${*:-csv-mlp mnist-cnn char-gpt cifar-resnet18}; do
    for batch in ${BATCHES:-1 2 4 8 16}; do
        for seed in ${SEEDS:-1 2 3 4}; do
            start=$(date +%s%N)
            more=()
            [ "$batch" = own ] || more+=("data.batch_size=$batch")
            [ "$recipe" != imdb-classifier ] || more+=("data.vocab_file=${VOCAB:?}")
            out=$(cd "$scratch" && ${RUN:-} "$build/bin/tcc-train" "$recipes/$recipe.yaml" \
                "data.path=${data[$recipe]}" "${more[@]}" "training.seed=$seed" --verify --dry-run 2>&1)
            status=$?
            ms=$((($(date +%s%N) - start) / 1000000))
            if [ $status -ne 0 ]; then
                printf '%-16s %6s %5s failed after %d ms:\n%s\n' "$recipe" "$batch" "$seed" $ms "$out"
                failed=1
                continue
            fi
            kernel=$(sed -n 's/^verify: .* gets: at most \([0-9.]*\) of.*/\1/p' <<<"$out")
            result=$(sed -n 's/^verify: loss.* at most \([0-9.]*\) of.*/\1/p' <<<"$out")
            samples=$(sed -n 's/^verify: .* the first \([0-9]*\) of [0-9]* samples.*/\1/p' <<<"$out" | head -1)
            printf '%-16s %6s %5s %8s %8s %8s %8s\n' "$recipe" "$batch" "$seed" "$kernel" "$result" \
                "${samples:-$batch}" "$((ms / 1000)).$((ms % 1000 / 100))"
        done
    done
done
exit $failed
