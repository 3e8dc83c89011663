#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Makes the manual, OUT/html and OUT/man, with Doxygen and Python: make.sh HEADERS OUT VERSION
set -eu
here=$(cd "$(dirname "$0")" && pwd)
headers=$1 out=$2 version=$3
rm -rf "$out/html" "$out/man" "$out/pages"
mkdir -p "$out"
PYTHONDONTWRITEBYTECODE=1 python3 "$here/pages.py" "$headers" "$here" "$out/pages" "$version"
sed "s|@manual_folder@|$out|; s|@source_folder@|$here|; s|@version@|$version|" "$here/Doxyfile.in" >"$out/Doxyfile"
doxygen "$out/Doxyfile"
# Doxygen leaves backslashes of code to troff, and lines that begin with a quote, which troff takes for requests.
sed -i -E "s/^'/\\\\\\&'/; /^\.nf/,/^\.fi/ s/\\\\([^\\&])/\\\\e\\1/g" "$out"/man/man3/*.3

# Pages of other names lead to these.
while read -r name page; do
    case $name in '#' | '') continue ;; esac
    [ -f "$out/man/man3/$page.3" ] || { echo "aliases.txt: $name leads to $page, which has no page" >&2; exit 1; }
    [ ! -f "$out/man/man3/$name.3" ] || { echo "aliases.txt: $name has a page of its own" >&2; exit 1; }
    echo ".so man3/$page.3" >"$out/man/man3/$name.3"
done <"$here/aliases.txt"
