#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Every external symbol of the library has a user in the product or is declared in a public header: unused.sh SOURCE_DIR
# INCLUDE_DIR LIST_OF_OBJECTS
# A function that only its own file calls is static, unless a test calls it too. What only tests call is no part of the
# library; the exceptions say "Test hook" where they are declared.
set -u
source=$1 include=$2 objects=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
cd "$source" || exit 1

# Functions that no other object uses.
tr ' ;' '\n\n' <"$objects" | grep '\.o$' | xargs nm -g 2>/dev/null | awk '
    NF > 1 && $(NF - 1) == "U" { used[$NF] }
    NF > 1 && $(NF - 1) == "T" { defined[$NF] }
    END { for (symbol in defined) if (!(symbol in used)) print symbol; print length(defined) >"/dev/stderr" }' \
    2>"$scratch/count" | grep '^tcc_' | sort >"$scratch/alone"
[ "$(cat "$scratch/count")" -gt 1000 ] || { echo "lint: functions of too few objects, so nothing is shown"; exit 1; }

# word_counts FILE...: how often each of those stands there
word_counts() {
    cat "$@" | grep -oE '\btcc_[A-Za-z0-9_]+' | grep -xFf "$scratch/alone" | sort | uniq -c | awk '{ print $2, $1 }'
}
word_counts "$include"/traincc/*.h >"$scratch/public"
find -L frontend ir passes codegen runtime tools -name '*.c' -o -name '*.def' | xargs cat >"$scratch/all"
word_counts "$scratch/all" >"$scratch/product"
find -L tests -name '*.c' -o -name '*.h' -o -name CMakeLists.txt | xargs cat >"$scratch/all"
word_counts "$scratch/all" >"$scratch/tests"
find -L frontend ir passes codegen runtime -name '*.h' | xargs cat | awk '
    /\/\*/ { hook = 0 }
    /Test hook/ { hook = 1 }
    hook { print }
    /^[^ \/].*;/ { hook = 0 }' >"$scratch/hooks"
failed=0
while read -r symbol; do
    grep -q "^$symbol " "$scratch/public" && continue
    times=$(awk -v s="$symbol" '$1 == s { print $2 }' "$scratch/product")
    case ${times:-0} in
        0) continue ;; # its name is pasted together from a table's row
        1) grep -q "\b$symbol(" "$scratch/hooks" && continue
           echo "lint: nobody in the product calls $symbol" ;;
        *) grep -q "^$symbol " "$scratch/tests" && continue
           echo "lint: only its own file calls $symbol, which is not static" ;;
    esac
    failed=1
done <"$scratch/alone"
[ $failed -eq 0 ] && echo "$(cat "$scratch/count") functions, each with a user"
exit $failed
