#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Resident memory and time of training steps, TrainCC beside PyTorch's ways of saving memory.

    tests/bench/peer_memory.py --python /tmp/peers/bin/python [--models gpt_10m:32,resnet50:64] [--json FILE]

Each figure comes from a fresh process, and `--through CMD` runs each of them through a command, as a lock that keeps
others quiet. A model is a name out of configs.py and a batch size. The ways:

    eager           PyTorch, every operation by itself
    checkpoint      the same with torch.utils.checkpoint on each block
    compile         torch.compile
    compile@B       torch.compile with torch._functorch.config.activation_memory_budget B
    traincc         tcc-bench
    traincc@B       tcc-bench with TCC_BENCH_MEMORY_BUDGET=B, as 1.5GiB or 50%

`added` is what a process had resident at the most beyond what it had after a step of a tiny model; `later` the same,
without the first step, in which compilers work: what training takes. `planned` is what TrainCC says before it runs.
The step time is the median of `--steps` after as many for warming up. A first run of torch.compile leaves its kernels
in TORCHINDUCTOR_CACHE_DIR, so that a second need not compile. """
import argparse
import json
import os
import shlex
import statistics
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
MODELS = "gpt_10m:32,resnet18_cifar:128,resnet50:64,gpt2_1024:2"
BUDGETS = (0.75, 0.5, 0.35, 0.25)
WAYS = ["traincc", *(f"traincc@{100 * b:.0f}%" for b in BUDGETS), "eager", "checkpoint", "compile",
        *(f"compile@{b}" for b in BUDGETS)]


def resident(line):
    """MB: VmRSS, what is resident now; VmHWM, what was at the most."""
    with open("/proc/self/status") as f:
        return next(int(text.split()[1]) for text in f if text.startswith(line)) / 1024


def take_peak():
    """What was resident at the most since the last call, in MB; it is counted anew from now on."""
    most = resident("VmHWM")
    with open("/proc/self/clear_refs", "w") as f:
        f.write("5")
    return most


def measure_torch(way, name, steps):
    """In a process of its own: prints the figures as a line of JSON, with the names that tcc-bench gives them."""
    import torch
    import models_torch

    torch.set_num_threads(int(os.environ.get("TCC_NUM_THREADS", len(os.sched_getaffinity(0)))))
    kind, _, budget = way.partition("@")
    if budget:
        import torch._functorch.config
        torch._functorch.config.activation_memory_budget = float(budget)
    mode = "default" if kind == "compile" else None
    models_torch.tiny_step(mode)
    start = resident("VmRSS")
    take_peak()
    step, times, loss = models_torch.trainer(name, mode, checkpointed=kind == "checkpoint"), [], 0.0
    for i in range(2 * steps):
        begin = time.perf_counter()
        loss = step()
        times.append(time.perf_counter() - begin)
        if i == 0:
            first = take_peak()
    later = take_peak()
    print(json.dumps(dict(
        version=torch.__version__,
        step_ms=round(1e3 * statistics.median(times[steps:]), 3),
        compile_s=round(times[0], 3),
        added_rss_mb=round(max(first, later) - start, 1),
        later_rss_mb=round(later - start, 1),
        final_loss=round(loss, 5),
    )))


def arguments():
    root = os.path.dirname(os.path.dirname(HERE))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="the interpreter that has torch")
    p.add_argument("--tcc-bench", default=os.path.join(root, "build", "bin", "tcc-bench"), help="our program")
    p.add_argument("--models", default=MODELS, help="comma-separated NAME:BATCH; default: %(default)s")
    p.add_argument("--ways", default=",".join(WAYS), help="comma-separated; default: %(default)s")
    p.add_argument("--steps", type=int, default=2, help="timed steps a process")
    p.add_argument("--through", default="", help="a command that runs each process, with its arguments")
    p.add_argument("--timeout", type=float, default=900, help="seconds a process may take")
    p.add_argument("--json", help="figures are added to those in this file, and replace older ones of their kind")
    p.add_argument("--one", nargs=2, metavar=("WAY", "MODEL"), help="measure PyTorch in this process")
    return p.parse_args()


def run(a, way, model):
    name, _, batch = model.partition(":")
    kind, _, budget = way.partition("@")
    environment = {**os.environ, "TCC_BENCH_MEMORY": "1"}
    if batch:
        environment["TCC_BENCH_BATCH"] = batch
    if kind == "traincc":
        command = [a.tcc_bench, name, str(a.steps)]
        if budget:
            environment["TCC_BENCH_MEMORY_BUDGET"] = budget
    else:
        command = [a.python, os.path.abspath(__file__), "--one", way, name, "--steps", str(a.steps)]
    try:
        done = subprocess.run([*shlex.split(a.through), *command], env=environment, capture_output=True, text=True,
                              timeout=a.timeout)
    except subprocess.TimeoutExpired:
        return None, f"longer than {a.timeout:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode or not lines:
        return None, f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    return {**json.loads(lines[-1]), "model": model, "way": way}, None


def table(results):
    lines = [
        "| model | way | planned MB | added MB | later MB | step ms | first step s |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    for r in results:
        planned = f"{r['peak_device_mb']:.0f}" if "peak_device_mb" in r else ""
        lines.append(f"| {r['model']} | {r['way']} | {planned} | {r['added_rss_mb']:.0f} | {r['later_rss_mb']:.0f} | "
                     f"{r['step_ms']:.0f} | {r['compile_s']:.1f} |")
    return "\n".join(lines)


def main():
    a = arguments()
    if a.one:
        return measure_torch(*a.one, a.steps)
    results, problems = [], 0
    if a.json and os.path.exists(a.json):
        with open(a.json) as f:
            results = json.load(f)
    for model in a.models.split(","):
        for way in a.ways.split(","):
            figures, problem = run(a, way, model)
            if problem:
                problems += 1
                print(f"peer_memory.py: {way} on {model}: {problem}", file=sys.stderr)
                continue
            results = [r for r in results if (r["model"], r["way"]) != (model, way)] + [figures]
            print(table([figures]).splitlines()[-1], file=sys.stderr)
            if a.json:
                with open(a.json, "w") as f:
                    json.dump(results, f, indent=1)
                    f.write("\n")
    print(table(results))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
