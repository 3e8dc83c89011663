#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every C source is as .clang-format says, and no line of one is longer than 120 columns: format.sh SOURCE_DIR
# Tables between "clang-format off" and "clang-format on" are left alone. Versions of clang-format differ, so only 19 is asked.
set -u
cd "$1" || exit 1
failed=0
mapfile -t sources < <(find frontend ir passes codegen runtime tools tests -name '*.[ch]' | sort)

long=$(awk 'FNR == 1 { table = 0 } /clang-format off/ { table = 1 } /clang-format on/ { table = 0 }
            !table && length > 120 { print FILENAME ":" FNR ": " length " columns" }' "${sources[@]}")
if [ -n "$long" ]; then
    printf 'lint: lines of more than 120 columns:\n%s\n' "$long"
    failed=1
fi

tool=''
for candidate in clang-format-19 clang-format; do
    command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 19\.' && tool=$candidate && break
done
if [ -z "$tool" ]; then
    echo "skipped: no clang-format 19 here; line lengths were measured without it"
elif ! "$tool" --dry-run -Werror "${sources[@]}" 2>"${TMPDIR:-/tmp}/format.$$"; then
    grep 'error:' "${TMPDIR:-/tmp}/format.$$" | head -n 20
    echo "lint: not as .clang-format says; $tool -i FILE makes it so"
    failed=1
fi
rm -f "${TMPDIR:-/tmp}/format.$$"
[ $failed -eq 0 ] && echo "${#sources[@]} files are formatted"
exit $failed
