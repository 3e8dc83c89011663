#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No line of a text is longer than 120 columns, no function longer than 80 lines, and every C source is as .clang-format
# says: format.sh SOURCE_DIR [SEEN]
# SEEN is a file that keeps which sources were seen to be so: those that are still the same are not looked at again.
# Tables are left alone: .def files, rows of Markdown, C between "clang-format off" and "clang-format on". Versions of
# clang-format differ, so only 19 is asked.
set -u
seen=${2:-/dev/null}
cd "$1" || exit 1
failed=0
folders=(frontend ir passes codegen runtime tools tests)
mapfile -t sources < <(find "${folders[@]}" -name '*.[ch]' | sort)
mapfile -t texts < <(find ./*.md CMakeLists.txt "${folders[@]}" \( -name '*.md' -o -name '*.sh' -o -name '*.py' \
    -o -name '*.cmake' -o -name CMakeLists.txt -o -name '*.[1-8]' -o -name '*.yaml' \) | sort)

long=$(awk 'FNR == 1 { table = 0 } /clang-format off/ { table = 1 } /clang-format on/ { table = 0 }
            table || FILENAME ~ /\.md$/ && /^\|/ { next }
            length > 120 { print FILENAME ":" FNR ": " length " columns" }' "${sources[@]}" "${texts[@]}")
if [ -n "$long" ]; then
    printf 'lint: lines of more than 120 columns:\n%s\n' "$long"
    failed=1
fi

# As it is formatted, a function begins at a line's begin and ends with a brace alone on its line.
large=$(awk 'FNR == 1 || /^#/ { start = body = 0 }
             /^[A-Za-z_]/ && !start { start = FNR; name = $0 }
             /{$/ { body = 1 }
             /^}/ {
                 if (/^}$/ && start && FNR - start >= 80) print FILENAME ":" start ": " FNR - start + 1 " lines: " name
                 start = body = 0
             }
             /;$/ && !body { start = 0 }' "${sources[@]}")
if [ -n "$large" ]; then
    printf 'lint: functions of more than 80 lines:\n%s\n' "$large"
    failed=1
fi

tool=''
for candidate in clang-format-19 clang-format; do
    command -v "$candidate" >/dev/null && "$candidate" --version | grep -q 'version 19\.' && tool=$candidate && break
done
# A line each: its hash, that of what says how it has to be, and its name.
[ -e "$seen" ] || touch "$seen"
rule=$(cat .clang-format tests/lint/format.sh | sha256sum | cut -c1-64)
mapfile -t new < <(sha256sum "${sources[@]}" | sed "s/ / $rule /" | sort - "$seen" "$seen" | uniq -u)
if [ -z "$tool" ]; then
    echo "skipped: no clang-format 19 here; line lengths were measured without it"
elif [ ${#new[@]} -eq 0 ]; then
    :
elif ! "$tool" --dry-run -Werror "${new[@]##* }" 2>"${TMPDIR:-/tmp}/format.$$"; then
    grep 'error:' "${TMPDIR:-/tmp}/format.$$" | head -n 20
    echo "lint: not as .clang-format says; $tool -i FILE makes it so"
    failed=1
elif [ -f "$seen" ]; then
    printf '%s\n' "${new[@]}" >>"$seen"
fi
rm -f "${TMPDIR:-/tmp}/format.$$"
[ $failed -eq 0 ] && echo "${#sources[@]} sources are formatted, and lines are short in ${#texts[@]} texts"
exit $failed
