#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# A name is one thing: each tag of a struct, union or enum of the library is defined in one header:
# tags.sh SOURCE_DIR
set -u
cd "$1" || exit 1
tags=$(find frontend ir passes codegen runtime -name '*.h' -print0 | xargs -0 grep -hoE \
    '^(typedef )?(struct|union|enum)( TCC_[A-Z]+)? tcc_[a-z0-9_]+ \{' | grep -oE 'tcc_[a-z0-9_]+' | sort)
twice=$(printf '%s\n' "$tags" | uniq -d)
if [ -n "$twice" ]; then
    for tag in $twice; do
        echo "lint: $tag is defined in more than one header:"
        grep -rnE --include='*.h' "^(typedef )?(struct|union|enum) $tag \{" frontend ir passes codegen runtime
    done
    exit 1
fi
count=$(printf '%s\n' "$tags" | wc -l)
[ "$count" -gt 300 ] || { echo "lint: $count tags only, so nothing is shown by them"; exit 1; }
echo "$count tags, each defined in one header"
