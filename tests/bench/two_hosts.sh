#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Ranks on two hosts, which are two network namespaces of this machine with an Ethernet between them: needs root, ip,
# and the build of tcc-train.
#   two_hosts.sh BUILD_DIR [DELAY_MS [LOSS_PERCENT]]
# On each host runs one rank (torchrun's variables), then two of each MPI library. Each run must leave the parameters
# of one process that takes as many micro-batches, bit for bit. Then a rank is killed, one is stopped, and the link goes
# down: both hosts have to end with an error within the time limit. Delay and loss are netem's, of the kernel; where it
# has none, that is said and the link stays as it is.
set -eu
build=$(realpath "$1") delay=${2:-0} loss=${3:-0}
root=$(realpath "$(dirname "$0")/../..")
work=$(mktemp -d)
hosts=(tcc-host-a tcc-host-b) addresses=(10.77.3.1 10.77.3.2)
failures=0
export TCC_CACHE_DISABLE=1

clean() {
    local pids
    for h in "${hosts[@]}"; do
        pids=$(ip netns pids "$h" 2>/dev/null || true)
        [ -z "$pids" ] || kill -9 $pids 2>/dev/null || true
        ip netns del "$h" 2>/dev/null || true
    done
    rm -rf "$work"
}
trap clean EXIT

for i in 0 1; do
    ip netns add "${hosts[i]}"
    ip -n "${hosts[i]}" link set lo up
done
ip link add tcc-a netns "${hosts[0]}" type veth peer name tcc-b netns "${hosts[1]}"
links=(tcc-a tcc-b)
for i in 0 1; do
    ip -n "${hosts[i]}" addr add "${addresses[i]}/24" dev "${links[i]}"
    ip -n "${hosts[i]}" link set "${links[i]}" up
    if [ "$delay$loss" != 00 ] && ! tc -n "${hosts[i]}" qdisc add dev "${links[i]}" root netem delay "${delay}ms" \
        loss "$loss%" 2>"$work/netem"; then
        echo "no delay and no loss: $(head -1 "$work/netem")"
        delay=0 loss=0
    fi
done

# on HOST COMMAND...
on() {
    local host=${hosts[$1]}
    shift
    ip netns exec "$host" "$@"
}

# The recipe, with a run folder of its own, and what more is given.
train() {
    local run=$1
    shift
    "$build/bin/tcc-train" --quiet --device cpu --comm-timeout 5 "$work/recipe.yaml" --run-dir "$work/$run" "$@"
}
export -f train
export build work

python3 - "$work/rows.csv" <<'P'
import random, sys
random.seed(3)
with open(sys.argv[1], "w") as f:
    print("a,b,c,d,label", file=f)
    for _ in range(800):
        x = [random.gauss(0, 1) for _ in range(4)]
        print(",".join(f"{v:.4f}" for v in x) + f",{int(x[0] * x[1] > 0) + int(x[2] > x[3])}", file=f)
P
cat >"$work/recipe.yaml" <<Y
model: {name: mlp, hidden: [64, 64]}
data: {kind: csv, path: $work/rows.csv, batch_size: 16, val_split: 0.1}
optimizer: {name: adamw, lr: 0.01}
training: {max_steps: 60, eval_every: 30, save_every: 20, seed: 5, clip_grad_norm: 1}
Y

# expect WHAT CONDITION...: counts what fails
expect() {
    local what=$1
    shift
    if "$@"; then echo "ok: $what"; else
        echo "FAILED: $what"
        failures=$((failures + 1))
    fi
}

same() { cmp "$work/$1/checkpoints/step-000060.safetensors" "$work/$2/checkpoints/step-000060.safetensors"; }

# By torchrun's variables, one rank on each host; $1: the run, the rest overrides.
start_by_environment() {
    for i in 0 1; do
        RANK=$i WORLD_SIZE=2 MASTER_ADDR=${addresses[0]} MASTER_PORT=29571 on $i bash -c 'train "$@"' _ "$@" \
            2>"$work/$1.err.$i" &
        ranks[i]=$!
    done
}

# exit status of both in `codes`
finish() {
    for i in 0 1; do
        codes[i]=0
        wait "${ranks[i]}" || codes[i]=$?
    done
}

train one2 training.batch_accumulate=2
train one4 training.batch_accumulate=4

begin=$(date +%s%N)
start_by_environment env
finish
echo "60 steps on two hosts: $((($(date +%s%N) - begin) / 1000000)) ms with their start"
expect "environment: both end with 0 (${codes[*]})" [ "${codes[*]}" = "0 0" ]
expect "environment: the bits of one process" same env one2

cat >"$work/agent" <<'A'
#!/usr/bin/env bash
# In the place of ssh: agent [OPTIONS] ADDRESS COMMAND...
while [ "${1#-}" != "$1" ]; do shift; done
case $1 in 10.77.3.1) host=tcc-host-a ;; *) host=tcc-host-b ;; esac
shift
exec ip netns exec "$host" bash -c "$*"
A
chmod +x "$work/agent"
export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
if command -v mpirun.openmpi >/dev/null; then
    on 0 mpirun.openmpi --quiet -np 4 --host "${addresses[0]}:2,${addresses[1]}:2" --mca plm_rsh_agent "$work/agent" \
        --mca btl tcp,self --mca btl_tcp_if_include 10.77.3.0/24 --mca oob_tcp_if_include 10.77.3.0/24 --bind-to none \
        -x TCC_CACHE_DISABLE bash -c "$(declare -f train); build=$build work=$work train openmpi" \
        2>"$work/openmpi.err" || cat "$work/openmpi.err"
    expect "Open MPI: the bits of one process" same openmpi one4
fi
if command -v mpirun.mpich >/dev/null; then
    on 0 mpirun.mpich -np 4 -hosts "${addresses[0]}:2,${addresses[1]}:2" -launcher ssh -launcher-exec "$work/agent" \
        bash -c "$(declare -f train); build=$build work=$work train mpich" 2>"$work/mpich.err" || cat "$work/mpich.err"
    expect "MPICH: the bits of one process" same mpich one4
fi

# A run that goes on until something ends it: FAULT is a command. Both must end within 30 s, with 1.
fault() {
    local name=$1 begin
    shift
    start_by_environment "$name" training.max_steps=1000000 training.save_every=50
    for _ in $(seq 200); do
        ls "$work/$name"/checkpoints/step-000050.safetensors >/dev/null 2>&1 && break
        sleep 0.1
    done
    "$@"
    begin=$SECONDS
    finish
    expect "$name: ends within 30 s ($((SECONDS - begin)) s)" [ $((SECONDS - begin)) -le 30 ]
    echo "    exit status ${codes[*]}; $(grep -h "rank" "$work/$name.err.0" "$work/$name/rank-1.log" 2>/dev/null)"
}
link_down() { ip -n "${hosts[1]}" link set tcc-b down; }
kill_rank_1() { kill -9 $(ip netns pids "${hosts[1]}"); }
stop_rank_1() { kill -STOP $(ip netns pids "${hosts[1]}"); (sleep 15; kill -9 $(ip netns pids "${hosts[1]}")) & }

fault killed kill_rank_1
expect "killed: rank 0 names rank 1" grep -q "rank 1" "$work/killed.err.0"
fault stopped stop_rank_1
expect "stopped: rank 0 names rank 1" grep -q "rank 1" "$work/stopped.err.0"
fault unplugged link_down
expect "unplugged: rank 0 names rank 1" grep -q "rank 1 did not answer" "$work/unplugged.err.0"
expect "unplugged: rank 1 names rank 0" grep -q "rank 0 did not answer" "$work/unplugged/rank-1.log"
ip -n "${hosts[1]}" link set tcc-b up
last=$(ls "$work/unplugged/checkpoints" | sed -n 's/^step-0*\([0-9]*\)\.safetensors$/\1/p' | sort -n | tail -1)
start_by_environment unplugged --resume training.max_steps=$((last + 10))
finish
expect "unplugged: both go on from step $last (${codes[*]})" [ "${codes[*]}" = "0 0" ]
[ $failures = 0 ] || { echo "$failures failed"; exit 1; }
echo "all as expected"
