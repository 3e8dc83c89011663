#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs the text tests of one folder: run.sh TCC_OPT FILECHECK FOLDER [NAME...]
#
# A file FOLDER/*.tir (NAME: only these, without .tir) has one or more lines `// RUN: command`; a line that ends in a
# backslash goes on in the next RUN line. The command is a line of bash with pipefail in which %s is the file, %S its
# folder, %t a scratch file's name, and the words `tcc-opt`, `FileCheck` and `not` (succeeds when its command fails with
# an error of ours, not by a signal) mean what one expects. A file fails when one of its commands fails; its output is
# shown then. TCC_TEST_EMULATOR: a command that runs a program of another CPU, with its options.
set -u
tcc_opt=$1 filecheck=$2 folder=$3
shift 3
[ -x "$filecheck" ] || { echo "skipped: no FileCheck (Debian: llvm-19-tools)"; exit 77; }
[ -x "$tcc_opt" ] || { echo "$tcc_opt is missing"; exit 1; }

scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
tcc-opt() { $TCC_TEST_EMULATOR "$tcc_opt" "$@"; } # words: the emulator and its options
FileCheck() { "$filecheck" "$@"; }
not() {
    "$@"
    local status=$?
    [ $status -gt 0 ] && [ $status -lt 126 ]
}
export TCC_TEST_EMULATOR=${TCC_TEST_EMULATOR-} tcc_opt filecheck
export -f tcc-opt FileCheck not

files=("$folder"/*.tir)
[ $# -eq 0 ] || files=("${@/#/$folder/}") files=("${files[@]/%/.tir}")
failed=0
for file in "${files[@]}"; do
    commands=$(sed -n 's|^.*// RUN: *||p' "$file" | sed -e ':join' -e '/\\$/{N;s/\\\n/ /;b join' -e '}')
    if [ -z "$commands" ]; then
        echo "FAILED $file: it has no RUN line"
        failed=$((failed + 1))
        continue
    fi
    while IFS= read -r command; do
        line=${command//%s/$file}
        line=${line//%S/$folder}
        line=${line//%t/$scratch/$(basename "$file" .tir)}
        if ! output=$(bash -o pipefail -c "$line" 2>&1); then
            printf 'FAILED %s\n  %s\n%s\n' "$file" "$line" "$output"
            failed=$((failed + 1))
            break
        fi
    done <<<"$commands"
done
echo "${#files[@]} files, $failed failed"
[ $failed -eq 0 ]
