#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Asks the compiler for a header of each other room, with each room's own include path: layers.sh CC SOURCE_DIR
# DIR_OF_INCLUDE_PATHS What may be included is there, what may not be is a file that does not exist.
set -u
cc=$1 source=$2 paths=$3
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
failed=0

# A header of each room, and what each room may include beside its own: the arrows of ARCHITECTURE.md.
declare -A header=(
    [support]=ir/support/diag.h [ir]=ir/ir.h [gradient]=passes/gradient/gradients.h
    [passes]=passes/pass.h [fuse]=passes/fuse/fuse.h [simplify]=passes/simplify/simplify.h
    [memory]=passes/memory/plan.h [remat]=passes/remat/remat.h [pipeline]=passes/pipeline/dump.h
    [program]=codegen/program.h [options]=codegen/options.h
    [emit]=codegen/emit/emitter.h [body]=codegen/body/body.h [schedule]=codegen/schedule/lowering.h
    [library]=codegen/library/call.h
    [contract]=codegen/contract/contract.h
    [attention]=codegen/attention/attention.h [verify]=codegen/verify/verify.h
    [codegen]=codegen/build.h
    [files]=runtime/files/file.h [data]=runtime/data/data.h [runtime]=runtime/exec.h [cpu]=runtime/cpu/pool.h
    [cuda]=runtime/cuda/driver.h [public]=traincc/array.h [frontend]=frontend/trace.h
    [run]=frontend/run/model.h [models]=frontend/models/blocks.h [tokenize]=runtime/data/tokenize/tokenizer.h
    [pictures]=runtime/data/pictures/picture.h [comm]=runtime/comm/comm.h [cache]=runtime/cache/cache.h
    [making]=frontend/compile/compile.h [compile_cache]=frontend/cache/cache.h [compile_tune]=frontend/tune/tune.h
    [compile_verify]=frontend/verify/verify.h
)
below='support ir passes program options' # what each room of codegen may include beside those under it
everything='support ir gradient passes simplify fuse memory remat pipeline program options'
everything+=' emit body schedule library contract attention verify codegen'
everything+=' files tokenize pictures data comm runtime cpu cuda cache public run frontend making'
declare -A arrows=(
    [support]='' [program]='support' [ir]='support' [gradient]='support ir' [passes]='support ir gradient'
    [simplify]='support ir passes' [fuse]='support ir passes' [memory]='support ir passes'
    [remat]='support ir passes fuse memory' [pipeline]='support ir passes fuse memory remat'
    [emit]="$below" [body]="$below emit" [schedule]="$below emit body" [library]="$below emit body schedule"
    [contract]="$below emit body schedule library" [attention]="$below emit body schedule library contract"
    [verify]="$below fuse emit body schedule"
    [codegen]="$below emit body schedule library contract attention verify"
    [files]='support public' [data]='support public files tokenize pictures' [runtime]='support program public files'
    [cpu]='support program public runtime' [cuda]='support program public runtime'
    [tokenize]='support public files' [pictures]='support files' [comm]='support public'
    [run]='support program public files tokenize pictures data comm runtime cpu cuda'
    [frontend]='support ir gradient public run' [models]='public'
    [cache]='support files' [compile_cache]="$everything" [compile_tune]="$everything compile_cache"
    [compile_verify]="$everything" [compile]="$everything compile_cache compile_tune"
)
for name in "${header[@]}"; do
    [ -e "$source/$name" ] || [ -e "$source/frontend/include/$name" ] ||
        { echo "lint: $name does not exist, so nothing is shown by it"; failed=1; }
done
for room in "${!arrows[@]}"; do
    for other in "${!header[@]}"; do
        name=${header[$other]} not='!' expected=may
        [ "$room" = "$other" ] || [[ " ${arrows[$room]} " = *" $other "* ]] || not='' expected='may not'
        printf '#if %s__has_include("%s")\n#error lint: %s %s include %s\n#endif\n' \
            "$not" "$name" "$room" "$expected" "$name"
    done >"$scratch/probe.c"
    # shellcheck disable=SC2046
    "$cc" $(cat "$paths/$room.includes") -fsyntax-only "$scratch/probe.c" 2>"$scratch/log" && continue
    grep -o 'lint: .*' "$scratch/log" || cat "$scratch/log"
    failed=1
done
[ $failed -eq 0 ] && echo "each of ${#arrows[@]} rooms sees what it may include and nothing else"
exit $failed
