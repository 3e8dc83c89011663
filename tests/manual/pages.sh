#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Each public function has a comment and an example, and one that lacks them is found: pages.sh MANUAL HEADERS
set -eu
manual=$1 headers=$2
command -v python3 >/dev/null || { echo "skipped: no python3 here"; exit 77; }
export PYTHONDONTWRITEBYTECODE=1
python3 "$manual/pages.py" "$headers" "$manual"

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cp -rL "$headers" "$scratch/headers"
mkdir "$scratch/examples"
cp "$manual"/*.c "$scratch/examples"
# expect TEXT: the check fails and says so
expect() {
    if said=$(python3 "$manual/pages.py" "$scratch/headers" "$scratch/examples") || ! grep -qF "$1" <<<"$said"; then
        printf 'not found: %s\nsaid: %s\n' "$1" "$said"
        exit 1
    fi
}
sed -i 's/^TRACED(tcc_relu) {/TRACED(tcc_relu_at) {/' "$scratch/examples/tensor.c"
expect 'tensor.h: tcc_relu has no example. Add to tools/manual/tensor.c: TRACED(tcc_relu) {'
expect 'the example of tcc_relu_at goes under tcc_relu'
cp "$manual/tensor.c" "$scratch/examples"
printf 'TCC_API int tcc_unheard_of(int x);\n' >>"$scratch/headers/cache.h"
expect 'cache.h: tcc_unheard_of has no comment'
expect 'EXAMPLE(tcc_unheard_of) {'
sed -i '$d' "$scratch/headers/cache.h"
printf 'EXAMPLE(tcc_gone) {\n}\n' >>"$scratch/examples/cache.c"
expect 'tools/manual/cache.c: tcc_gone is declared in no public header'

command -v doxygen >/dev/null || { echo "no doxygen here: the pages were not made"; exit 0; }

# The pages: as many as functions and types, without a warning, and one looked at.
"$manual/make.sh" "$headers" "$scratch/manual" 0.0 >/dev/null
pages=$scratch/manual/man/man3
# shows PAGE TEXT...
shows() {
    local page=$1
    shift
    for text in "$@"; do
        grep -qF -- "$text" <(sed 's/\\&//g' "$pages/$page.3") || { echo "$page lacks: $text"; exit 1; }
    done
}
shows tcc_layer_norm 'tcc_tensor tcc_layer_norm(tcc_tensor x, const char *name, ...);' 'double eps' '0: 1e-5' \
    'Over the last dim' 'Wrong shapes' '"y", tcc_layer_norm(x, "ln"))'
shows tcc_mse '.so man3/tcc_mse_loss.3'
shows tcc_status_name 'printf("%s\en", tcc_status_name(TCC_ESHAPE))'
shows tcc_status 'TCC_ENOMEM' '-1: out of memory'
[ "$(find "$scratch/manual/html" -name 'tcc_*.html' | wc -l)" -gt 300 ] || { echo "too few pages"; exit 1; }
if command -v groff >/dev/null; then
    warnings=$(groff -man -Tutf8 -ww -z "$pages"/tcc_*.3 "$manual"/../man/*.1* 2>&1 | grep -E 'macro|escape' | head)
    [ -z "$warnings" ] || { echo "$warnings"; exit 1; }
fi
echo "$(find "$pages" -name '*.3' | wc -l) man pages"
