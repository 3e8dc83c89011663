#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time per epoch in each mode, as guides to compilers for training compare them: eager, default, reduce-overhead and
max-autotune, each with and without mixed precision, for a character-level GPT, a CNN and ResNet-18.

    tests/bench/modes.py [--device cpu|cuda] [--models char_gpt,mnist_cnn,resnet18_cifar] [--rounds 3] [--steps 20]
                         [--precisions none,bf16] [--modes ...] [--python /tmp/peers/bin/python] [--markdown FILE]

Every figure comes from a fresh process of tcc-bench (or peer.py, for PyTorch's modes with --python). The processes of
one model take turns for `--rounds` rounds, so that a slow minute of the machine meets all alike. A process gives its
median step; a row is the median over rounds, times the batches of an epoch of the data that the model is usually
trained on (EPOCHS). The speed-up is over eager in float32. A mode that this build does not have, or that fails, is
reported and left out. """
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import configs  # noqa: E402

# Samples of an epoch: windows of tiny Shakespeare's training part, MNIST, CIFAR-10.
EPOCHS = {"char_gpt": 1003854 // 64, "mnist_cnn": 60000, "resnet18_cifar": 50000, "gpt2_1024": 1003854 // 1024,
          "resnet50": 1281167}
MODES = ("eager", "default", "reduce-overhead", "max-autotune")
PEERS = {"eager": "torch-eager", "default": "torch-compile", "reduce-overhead": "torch-reduce-overhead",
         "max-autotune": "torch-max-autotune"}


def arguments():
    root = os.path.dirname(os.path.dirname(HERE))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tcc-bench", default=os.path.join(root, "build", "bin", "tcc-bench"), help="our program")
    p.add_argument("--python", help="an interpreter that has torch: its modes too (on a CPU the first two)")
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--models", default="char_gpt,mnist_cnn,resnet18_cifar", help="names out of EPOCHS")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--precisions", default="none,bf16")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20, help="timed steps a process")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--timeout", type=float, default=900, help="seconds a process may take")
    p.add_argument("--json", help="write every process's figures here")
    p.add_argument("--markdown", help="write the table here (it is always printed)")
    return p.parse_args()


def command(a, peer, model, mode, precision):
    environment = dict(
        os.environ,
        TCC_BENCH_DEVICE=a.device,
        TCC_BENCH_MODE=mode,
        TCC_BENCH_PRECISION=precision,
        TCC_NUM_THREADS=str(a.threads),
        OMP_NUM_THREADS=str(a.threads),
    )
    if peer == "traincc":
        return [a.tcc_bench, model, str(a.steps)], environment
    return [a.python, os.path.join(HERE, "peer.py"), PEERS[mode], model, str(a.steps)], environment


def run(a, peer, model, mode, precision):
    """A process's figures, or what went wrong."""
    words, environment = command(a, peer, model, mode, precision)
    try:
        p = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=a.timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {a.timeout:.0f} s"
    except OSError as e:
        return str(e)
    lines = [line for line in p.stdout.splitlines() if line.startswith("{")]
    if p.returncode or not lines:
        return (p.stderr.strip().splitlines() or [f"status {p.returncode}"])[-1][:200]
    return json.loads(lines[-1])


def measure(a, model):
    peers = ["traincc"] + (["torch"] if a.python else [])
    ways = [(peer, mode, precision) for precision in a.precisions.split(",") for mode in a.modes.split(",")
            for peer in peers if peer == "traincc" or a.device == "cuda" or mode in MODES[:2]]
    times, failed, figures = {}, {}, []
    for _ in range(a.rounds):
        for way in ways:
            if way in failed:
                continue
            r = run(a, way[0], model, *way[1:])
            if isinstance(r, str):
                failed[way] = r
                print(f"modes: {model}, {' '.join(way)}: {r}", file=sys.stderr)
                continue
            r.update(way=way, batch=configs.MODELS[model]["batch"])
            figures.append(r)
            times.setdefault(way, []).append(r["step_ms"])
    return {way: statistics.median(t) for way, t in times.items() if way not in failed}, figures


def rows(a, model, steps):
    batches = EPOCHS[model] / configs.MODELS[model]["batch"]
    eager = steps.get(("traincc", "eager", "none"))
    for (peer, mode, precision), ms in steps.items():
        ratio = f"{eager / ms:.2f}" if eager else ""
        yield f"| {model} | {peer} | {mode} | {precision} | {ms:.2f} | {ms * batches / 1e3:.1f} | {ratio} |"


def main():
    a = arguments()
    for name in a.models.split(","):
        if name not in EPOCHS:
            sys.exit(f"modes: no model {name}; there are {', '.join(EPOCHS)}")
    table = ["| model | by | mode | mixed precision | ms a step | s an epoch | over eager |",
             "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    figures = []
    for model in a.models.split(","):
        steps, of_model = measure(a, model)
        figures += of_model
        table += rows(a, model, steps)
    text = "\n".join(table) + "\n"
    print(text, end="")
    if a.markdown:
        with open(a.markdown, "w", encoding="utf-8") as f:
            f.write(text)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(figures, f, indent=1)


if __name__ == "__main__":
    main()
