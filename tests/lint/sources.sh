#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Rules that a search can check: sources.sh SOURCE_DIR
set -u
cd "$1" || exit 1
failed=0

# forbid "why" PATTERN FILE...: reports every line that the extended regular expression matches
forbid() {
    local why=$1 pattern=$2 hits
    shift 2
    [ $# -gt 0 ] || return 0
    if hits=$(grep -nE "$pattern" "$@" /dev/null); then
        printf 'lint: %s\n%s\n' "$why" "$hits"
        failed=1
    fi
}

mapfile -t all < <(find frontend ir passes codegen runtime tools tests -name '*.[ch]' -o -name '*.def' | sort)
mapfile -t library < <(find frontend ir passes codegen runtime -name '*.[ch]' -o -name '*.def' | sort)
mapfile -t allocating < <(printf '%s\n' "${library[@]}" | grep -v '^ir/support/alloc\.c$')
mapfile -t tools < <(find tools -name '*.[ch]' | sort)
mapfile -t no_llvm < <(printf '%s\n' "${all[@]}" | grep -vE '^(codegen|tests)/')

include='^[[:space:]]*#[[:space:]]*include[[:space:]]*'
forbid "an include climbs out of its folder" "$include[\"<][^\">]*\.\./" "${all[@]}"
forbid "a room is included by its path from the project's root" \
    "$include\"(support|cpu|cuda|data|tokenize|pictures|files|emit|body|schedule|contract|attention|library)/" \
    "${all[@]}"
forbid "LLVM belongs to codegen" '#[[:space:]]*include[[:space:]]*[<"]llvm' "${no_llvm[@]}"
forbid "tools include the public headers only" "$include\"(ir|passes|codegen|runtime|frontend)/" "${tools[@]}"
forbid "the library prints, exits or aborts" \
    '(^|[^[:alnum:]_.>])(printf|puts|putchar|perror|abort|exit|_exit|quick_exit|assert)[[:space:]]*\(' \
    "${library[@]}"
allocators='malloc|calloc|realloc|aligned_alloc|posix_memalign|strdup|strndup|asprintf|free'
forbid "heap memory goes through ir/support/alloc.h" \
    "(^|[^[:alnum:]_.>])($allocators)[[:space:]]*\\(" "${allocating[@]}"
mapfile -t threaded < <(printf '%s\n' "${library[@]}" | grep -vE '^ir/support/thread\.[ch]$')
forbid "threads, which block signals, are made by ir/support/thread.h" 'pthread_create' "${threaded[@]}"
mapfile -t no_target < <(printf '%s\n' "${library[@]}" | grep '^codegen/' | grep -vE '^codegen/(emit/|program\.h$)')
forbid "which target code is for is asked of its description or its table of functions" \
    'TCC_TARGET_(HOST|CUDA)|target->kind *[!=]=' "${no_target[@]}"
mapfile -t planners < <(printf '%s\n' "${library[@]}" | grep -E '^(passes|codegen)/')
forbid "what work costs on a target is said in ir/support/costs.c" \
    'static const double [a-z_]*(ns|cycles|flops?|bytes_a)(_[a-z_]+)? = |[A-Z]_(NS|CYCLES|FLOP)(_[A-Z]+)* *=? *[0-9]' \
    "${planners[@]}"
forbid "unfinished" 'TODO|FIXME|(^|[^X])XXX([^X]|$)' "${all[@]}"

# One home a vendor: the header of each is included in exactly one file.
for header in cuda.h cublasLt.h cudnn.h nccl.h mpi.h sqlite3.h utf8proc.h png.h jpeglib.h webp/decode.h zstd.h; do
    homes=$(grep -lE "$include(<(.*/)?|\")$header" "${library[@]}" /dev/null) # not runtime/cuda/$header
    if [ "$(printf '%s' "$homes" | grep -c .)" -gt 1 ]; then
        printf 'lint: %s has more than one home:\n%s\n' "$header" "$homes"
        failed=1
    fi
done

# Each source says its licence in its first line.
licensed=$(awk 'FNR == 1 && /SPDX-License-Identifier: MIT/ { print FILENAME } { nextfile }' "${all[@]}")
if unlicensed=$(printf '%s\n' "${all[@]}" | grep -vxF "$licensed"); then
    printf 'lint: these do not begin with their SPDX line:\n%s\n' "$unlicensed"
    failed=1
fi
[ $failed -eq 0 ] && echo "${#all[@]} files keep the rules"
exit $failed
