#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# From a fresh clone to a trained model: tools/quickstart.sh [key.path=value ...]
# Installs the Debian packages that it needs, builds release, and trains a small character-level GPT on the King James
# Bible (package bible-kjv-text) for at most about two minutes. Ends with the validation loss and a sample of what the
# model writes. Arguments are overrides for tcc-train, as in training.max_steps=500. What is there is used again: run it
# as often as you like.
set -eu
cd "$(dirname "$0")/.."
./tools/deps.sh bible-kjv

echo "quickstart: building"
cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DBUILD_TESTING=OFF >/dev/null
cmake --build build -- --quiet

# All verses in order, one a line, without their numbers.
text=build/quickstart/kjv.txt
if [ ! -s "$text" ]; then
    mkdir -p build/quickstart
    bible -f gen1:1-rev22:21 </dev/null | sed 's/^[^ ]* //' >"$text.part"
    mv "$text.part" "$text"
fi
echo "quickstart: $(wc -c <"$text") characters of text in $text"

run=build/quickstart/run
rm -rf "$run"
build/bin/tcc-train --run-dir "$run" tools/recipes/char-gpt.yaml data.path="$text" training.max_steps=2000 "$@"
echo "quickstart: the run is in $run; for a text of your own:"
echo "  build/bin/tcc-train tools/recipes/char-gpt.yaml data.path=FILE training.max_steps=2000"
