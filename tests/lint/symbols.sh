#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# What the libraries export begins with tcc_ and is none of the names that TinyCC's library has; what the public headers
# declare is in the first library: symbols.sh INCLUDE_DIR LIBRARY...
set -u
include=$1
shift
tinycc='tcc_(new|delete|run|compile_string|add_file|get_symbol|set_options|relocate|add_library|set_output_type|'
tinycc+='output_file|set_lib_path|add_include_path|add_sysinclude_path|define_symbol|undefine_symbol|'
tinycc+='add_symbol|add_library_path|set_error_func|list_symbols)'
failed=0
for library in "$@"; do
    case $library in
        *.a) symbols=$(nm -g --defined-only "$library" 2>/dev/null | awk 'NF == 3 {print $3}') ;;
        *) symbols=$(nm -D --defined-only "$library" | awk '{print $NF}') ;;
    esac
    # Sanitizer builds add symbols of the compiler's own.
    foreign=$(printf '%s\n' "$symbols" |
        grep -vE '^(tcc_|_end$|_edata$|__bss_start$|__(odr_)?asan|__start___sanc|__stop___sanc|$)' | sort -u)
    taken=$(printf '%s\n' "$symbols" | grep -xE "$tinycc" | sort -u)
    if [ -n "$foreign" ]; then
        printf 'lint: %s defines names without tcc_:\n%s\n' "$library" "$foreign"
        failed=1
    fi
    if [ -n "$taken" ]; then
        printf 'lint: %s defines names of libtcc:\n%s\n' "$library" "$taken"
        failed=1
    fi
    echo "$(basename "$library"): $(printf '%s\n' "$symbols" | grep -c '^tcc_') symbols"
done
declared=$(cat "$include"/traincc/*.h | grep -oE '^TCC_API .*' |
    sed -nE 's/^[^(]*[ *](tcc_[a-z0-9_]+)\(.*/\1/p' | sort -u)
defined=$(nm -D --defined-only "$1" | awk '{print $NF}' | sort -u)
absent=$(comm -23 <(printf '%s\n' "$declared") <(printf '%s\n' "$defined"))
if [ -n "$absent" ]; then
    printf 'lint: declared in a public header, but not in %s:\n%s\n' "$1" "$absent"
    failed=1
fi
echo "$(printf '%s\n' "$declared" | grep -c .) functions declared"
exit $failed
