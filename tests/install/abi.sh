#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# The libraries' ABI beside that of the last release, tests/install/abi.list: exported functions with their types, sizes
# of structs, offsets of members, values of enums. What is new is said and allowed: functions, values, and members
# behind the last one of a struct that begins with its size. Anything else breaks programs that are built.
#   abi.sh HEADERS LIBRARY...            compares
#   abi.sh --update HEADERS LIBRARY...   writes the list
set -eu
update=''
[ "$1" != --update ] || { update=1; shift; }
headers=$1
shift
list=$(cd "$(dirname "$0")" && pwd)/abi.list
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

for header in "$headers"/traincc/*.h; do echo "#include <traincc/$(basename "$header")>"; done >"$scratch/all.c"
gcc -std=gnu17 -I"$headers" -g -fno-eliminate-unused-debug-types -aux-info "$scratch/prototypes" \
    -c "$scratch/all.c" -o "$scratch/all.o"
{
    for library in "$@"; do
        name=$(basename "$library")
        name=${name%%.*}
        nm -D --defined-only "$library" | awk -v library="$name" '$NF ~ /^tcc_/ { print "function", $NF, library }'
        objdump -p "$library" | awk -v library="$name" '$1 == "SONAME" { print "soname", library, $2 }'
    done
    sed -nE 's|^/\*.*\*/ extern (.*[ *])(tcc_[a-z0-9_]+) (\(.*\));.*|prototype \2 \1\3|p' "$scratch/prototypes"
    # Types by their place in the dump: structs and their members, enumerators.
    readelf --debug-dump=info "$scratch/all.o" | awk '
        function out() {
            if (tag == "structure" && name ~ /^tcc_/) { owner = name; if (size != "") print "struct", name, size }
            if (tag == "structure" && name !~ /^tcc_/) owner = ""
            if (tag == "member" && owner != "" && at != "") print "member", owner "." name, at
            if (tag == "enumerator" && name ~ /^TCC_/) print "value", name, value
            if (tag != "structure" && tag != "member") owner = ""
            tag = name = size = at = value = ""
        }
        /DW_TAG_/ { out(); tag = $NF; gsub(/\(DW_TAG_|_type|\)/, "", tag) }
        /DW_AT_name/ { name = $NF }
        /DW_AT_byte_size/ { size = $NF }
        /DW_AT_data_member_location/ { at = $NF }
        /DW_AT_const_value/ { value = $NF }
        END { out() }'
} | LC_ALL=C sort -u >"$scratch/now"
for kind in function prototype struct member value soname; do
    grep -q "^$kind " "$scratch/now" || { echo "abi: no $kind was found"; exit 1; }
done
if [ -n "$update" ]; then
    cp "$scratch/now" "$list"
    echo "$(wc -l <"$list") lines in $list"
    exit 0
fi

# compare LIST: says what differs; false where something breaks
compare() {
    awk '
        { name = $2 ($1 == "function" || $1 == "soname" ? " " $3 : ""); $1 = $1 }
        FNR == NR { was[$1 " " name] = $0; next }
        { now[$1 " " name] = $0 }
        /^member .*\.size 0$/ { sub(/\.size$/, "", $2); sized[$2] = 1 }
        END {
            for (key in was) {
                if (now[key] == was[key]) continue
                split(was[key], w); split(now[key], n)
                grows = key ~ /^struct / && sized[w[2]] || key ~ /^value .*_COUNT$/
                if (grows && n[3] + 0 > w[3] + 0) { new++; continue }
                print "abi: was: " was[key] "\n     now: " (now[key] == "" ? "gone" : now[key])
                broken++
            }
            for (key in now) if (!(key in was)) { print "new: " now[key]; new++ }
            if (broken) print "abi: programs that were built break. Members go behind the last of a struct; what is " \
                "released stays. To break it: raise the version in CMakeLists.txt, and with it the soname, " \
                "and write the list anew:"
            else print new + 0 " additions" (new ? "; with the release write them down:" : "")
            exit broken ? 1 : 0
        }' "$1" "$scratch/now"
}

compare "$list" || { echo "    cmake --build build --target abi-update"; exit 1; }

# What breaks is found, and what does not is let through.
# expect VERDICT SED_SCRIPT TEXT: with a list that says otherwise
expect() {
    sed "$2" "$scratch/now" >"$scratch/planted"
    local verdict=breaks said
    ! said=$(compare "$scratch/planted") || verdict=passes
    [ "$verdict" = "$1" ] && grep -qF "$3" <<<"$said" || { echo "abi: $2 $verdict; said: $said"; exit 1; }
}
expect breaks '1i function tcc_gone libtraincc' 'gone'
expect breaks 's/^\(prototype tcc_relu_at tcc_tensor (\)/\1int, /' 'prototype tcc_relu_at'
expect breaks 's/^\(member tcc_array.data\) .*/\1 8/' 'member tcc_array.data'
expect breaks 's/^struct tcc_array .*/struct tcc_array 8/' 'struct tcc_array'
expect breaks 's/^value TCC_ENOMEM .*/value TCC_ENOMEM 3/' 'value TCC_ENOMEM'
expect passes 's/^struct tcc_linear_options .*/struct tcc_linear_options 8/; /^member tcc_linear_options.bias_init/d' \
    'new: member tcc_linear_options.bias_init'
expect passes '/^function tcc_relu_at /d' 'new: function tcc_relu_at'
