#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# tests/gpu/check_caches.sh: which caches check.py gives the programs that it times. They are
# stand-ins that say what they were given and count their runs.
set -eu
source=$(dirname "$(readlink -f "$0")")
tree=$PWD/caches
rm -rf "$tree"
mkdir -p "$tree/bin" "$tree/tests/bin" "$tree/tests/gpu" "$tree/tests/bench"
cp "$source/check.py" "$tree/tests/gpu"
cat > "$tree/bin/tcc-bench" <<'PROGRAM'
#!/usr/bin/env bash
runs=$(($(cat "runs.$1" 2>/dev/null || echo 0) + 1))
echo $runs > "runs.$1"
echo "{\"model\": \"$1\", \"peer\": \"traincc\", \"step_ms\": 1, \"compile_s\": $runs, \"off\": $TCC_CACHE_DISABLE," \
    "\"folder\": \"$TCC_CACHE_DIR\"}"
PROGRAM
chmod +x "$tree/bin/tcc-bench"
echo 'import json, os, sys
off = int(os.environ["TORCHINDUCTOR_FORCE_DISABLE_CACHES"])
print(json.dumps(dict(model=sys.argv[2], peer=sys.argv[1], step_ms=2, compile_s=1, off=off,
                      folder=os.environ["TORCHINDUCTOR_CACHE_DIR"])))' > "$tree/tests/bench/peer.py"

export TCC_CACHE_DIR=/somebody/else TORCHINDUCTOR_CACHE_DIR=/somebody/else
check() { # OPTION CACHE OFF RUNS
    rm -f "$tree"/runs.*
    python3 "$tree/tests/gpu/check.py" --out "$tree/out" --only steps $1 > "$tree/said"
    python3 - "$tree" "$@" <<'PROGRAM'
import json, sys
tree, cache, off, runs = sys.argv[1], sys.argv[-3], int(sys.argv[-2]), int(sys.argv[-1])
figures = json.load(open(tree + "/out/gpu-check.json"))["parts"]["steps"]["figures"]
assert len(figures) == 25, len(figures)
for f in figures:
    assert f["cache"] == cache and f["off"] == off and f["folder"].startswith(tree + "/out/cache/"), f
    assert f["peer"] != "traincc" or f["compile_s"] == runs, f
PROGRAM
}
check "" cold 1 1
check --warm warm 0 2
