#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps on ranks: one process with two threads, two with one thread each, and PyTorch's the same way, with
DistributedDataParallel over gloo.

    tests/bench/ranks.py --python /tmp/peers/bin/python [--models char_gpt,gpt_10m,resnet18_cifar] [--rounds 3]
        [--steps 30] [--json FILE]

All share one batch of the size in configs.py. The processes take turns for so many rounds; figures are medians over
rounds. `2 x 1 / 1 x 2` is ours beside ours, `/ DDP` beside PyTorch's fastest with two processes. `waits` is how long
rank 0 waits for the other in a step, `sums` what the sums of all gradients take when nothing is computed beside them;
what is not waited for is hidden."""
import argparse
import json
import os
import socket
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
OURS = os.path.join(os.path.dirname(os.path.dirname(HERE)), "build", "bin", "tcc-bench")
KINDS = (("traincc", 1), ("traincc", 2), ("torch-eager", 1), ("torch-eager", 2), ("torch-compile", 2))


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def run(a, peer, ranks, model):
    """Figures of rank 0."""
    command = [OURS, model] if peer == "traincc" else [a.python, os.path.join(HERE, "peer.py"), peer, model]
    threads = str(2 // ranks)
    environment = {**os.environ, "TCC_NUM_THREADS": threads, "OMP_NUM_THREADS": threads, "TCC_CACHE_DISABLE": "1"}
    if ranks > 1:
        environment.update(WORLD_SIZE=str(ranks), MASTER_ADDR="127.0.0.1", MASTER_PORT=str(free_port()))
    started = [
        subprocess.Popen([*command, str(a.steps)], env={**environment, "RANK": str(r)} if ranks > 1 else environment,
                         stdout=subprocess.PIPE, text=True)
        for r in range(ranks)
    ]
    texts = [p.communicate(timeout=900)[0] for p in started]
    if any(p.returncode for p in started):
        sys.exit(f"ranks.py: {peer} {model} with {ranks} ranks ended in {[p.returncode for p in started]}")
    return json.loads(next(line for line in texts[0].splitlines() if line.startswith("{")))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    p.add_argument("--models", default="char_gpt,gpt_10m,resnet18_cifar")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=30)
    p.add_argument("--json", help="write every process's figures here")
    a = p.parse_args()
    rows = []
    print("| model | ours 1 x 2, ms | ours 2 x 1, ms | 2 x 1 / 1 x 2 | PyTorch 1 x 2, ms | DDP, ms | "
          "DDP compiled, ms | ours / DDP | waits, ms | sums, ms |")
    print("| --- |" + " --: |" * 9)
    for model in a.models.split(","):
        for _ in range(a.rounds):
            for peer, ranks in KINDS:
                rows.append({"ranks": ranks, **run(a, peer, ranks, model)})

        def of(peer, ranks, key="step_ms"):
            return statistics.median(
                r[key] for r in rows if (r["model"], r["peer"], r["ranks"]) == (model, peer, ranks))

        one, two, torch, ddp, compiled = (of(*k) for k in KINDS)
        waits, sums = of("traincc", 2, "waited_ms"), of("traincc", 2, "sums_alone_ms")
        print(f"| {model} | {one:.1f} | {two:.1f} | {two / one:.2f} | {torch:.1f} | {ddp:.1f} | {compiled:.1f} | "
              f"{two / min(ddp, compiled):.2f} | {waits:.2f} | {sums:.2f} |", flush=True)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(rows, f, indent=1)


main()
