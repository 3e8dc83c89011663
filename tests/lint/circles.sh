#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# No circle among the library's files: circles.sh LIST_OF_OBJECTS
# One file points to another if it uses a symbol that the other defines. What variants share lies below them, and what
# chooses among them above.
set -u
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT

# Symbols that files define and use, then the arrows. An object's name ends in its source's:
# CMakeFiles/TARGET.dir/ir/parse.c.o
tr ' ;' '\n\n' <"$1" | grep '\.o$' | grep -v '/empty\.c\.o$' | xargs nm -g -A 2>/dev/null | awk '
    { file = $1; sub(/\.o:.*/, "", file); sub(/^.*\.dir\/(\.\/)?/, "", file); files[file]
      kind = $(NF - 1); symbol = $NF
      if (kind == "U") used[file " " symbol]
      else if (kind ~ /^[TDBRCV]$/) home[symbol] = file }
    END { for (use in used) {
              split(use, part, " "); to = home[part[2]]
              if (to != "" && to != part[1]) print part[1], to, part[2]
          }
          for (file in files) print file >"/dev/stderr" }' >"$scratch/arrows" 2>"$scratch/files"
count=$(wc -l <"$scratch/files")
[ "$count" -gt 200 ] || { echo "lint: symbols of $count files only, so nothing is shown by them"; exit 1; }

cut -d' ' -f1,2 "$scratch/arrows" | sort -u | tsort 2>"$scratch/loops" >/dev/null
if [ -s "$scratch/loops" ]; then
    echo "lint: files that call in circles, with a symbol of each arrow:"
    sed -n 's/^tsort: \(.*\.c\)$/\1/p' "$scratch/loops" | sort -u >"$scratch/in"
    sort -u -k1,2 "$scratch/arrows" | awk '
        NR == FNR { in_loop[$1]; next }
        ($1 in in_loop) && ($2 in in_loop) { print "    " $1 " -> " $2 ": " $3 }' "$scratch/in" -
    exit 1
fi
echo "$count files, $(wc -l <"$scratch/arrows") arrows, no circle"
