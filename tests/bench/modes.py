#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Time per epoch in each mode, as guides to compilers for training compare them: eager, default, reduce-overhead and
max-autotune, each with and without mixed precision, for a character-level GPT, a CNN and ResNet-18.

    tests/bench/modes.py [--device cpu|cuda] [--models char_gpt,mnist_cnn,resnet18_cifar] [--rounds 3] [--steps 20]
                         [--precisions none,bf16] [--modes ...] [--python /tmp/peers/bin/python] [--markdown FILE]
    tests/bench/modes.py --tuning [--models ...] [--rounds 3] [--steps 20] [--precisions none,bf16]

Every figure comes from a fresh process of tcc-bench (or peer.py, for PyTorch's modes with --python). The processes of
one model take turns for `--rounds` rounds, so that a slow minute of the machine meets all alike. A process gives its
median step; a row is the median over rounds, times the batches of an epoch of the data that the model is usually
trained on (EPOCHS). The speed-up is over eager in float32. A mode that this build does not have, or that fails, is
reported and left out.

--tuning looks into max-autotune instead. One process tunes and writes its choices down; then default and these choices
take turns. A row has the median step of both and the median of their ratios over rounds, and from the report of the
tuning: how many kinds of groups were measured, for how many of them the default was the fastest or within the band of
3 %, what the others gain in parts of all measured groups, what the trial of the whole step saw and what it uses, and
how predictions rank candidates of one schedule (Kendall's correlation over all pairs). """
import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

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
    p.add_argument("--models", help="names out of EPOCHS; with --tuning, out of configs.py")
    p.add_argument("--modes", default=",".join(MODES))
    p.add_argument("--precisions", default="none,bf16")
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20, help="timed steps a process")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--tuning", action="store_true", help="what max-autotune finds, beside default")
    p.add_argument("--timeout", type=float, default=900, help="seconds a process may take")
    p.add_argument("--json", help="write every process's figures here")
    p.add_argument("--markdown", help="write the table here (it is always printed)")
    return p.parse_args()


def command(a, peer, model, mode, precision, more=()):
    environment = dict(
        os.environ,
        **dict(more),
        TCC_BENCH_DEVICE=a.device,
        TCC_BENCH_MODE=mode,
        TCC_BENCH_PRECISION=precision,
        TCC_NUM_THREADS=str(a.threads),
        OMP_NUM_THREADS=str(a.threads),
    )
    if peer == "traincc":
        explain = ["--explain"] if "TCC_BENCH_LOCK" in environment else []
        return [a.tcc_bench, model, str(a.steps), *explain], environment
    return [a.python, os.path.join(HERE, "peer.py"), PEERS[mode], model, str(a.steps)], environment


def run(a, peer, model, mode, precision, more=()):
    """A process's figures, or what went wrong."""
    words, environment = command(a, peer, model, mode, precision, more)
    try:
        p = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=a.timeout, check=False)
    except subprocess.TimeoutExpired:
        return f"more than {a.timeout:.0f} s"
    except OSError as e:
        return str(e)
    lines = [line for line in p.stdout.splitlines() if line.startswith("{")]
    if p.returncode or not lines:
        return (p.stderr.strip().splitlines() or [f"status {p.returncode}"])[-1][:200]
    return dict(json.loads(lines[-1]), report=p.stdout)


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
            r.pop("report")
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


KIND = re.compile(r"^.*, (\d+) in the step, (?:measured|from the cache)(?:, not used)?: ([\d.]+) us as by default, "
                  r"([\d.]+) us now$", re.M)
RANK = re.compile(r"^  \S.* rank correlation ([+-][\d.]+) of (\d+) pairs", re.M)
STEP = re.compile(r'^the whole step "train".*: ([\d.]+) us as by default, ([\d.]+) us with the choices: (.*)$', re.M)


def found(report):
    """What a report of tuning says, as the table has it."""
    kinds = [(int(n), float(before), float(now)) for n, before, now in KIND.findall(report)]
    every = sum(n * before for n, before, _ in kinds) or 1
    best = [k for k in kinds if k[1] == k[2]]
    ranks = [(float(r), int(n)) for line in report.splitlines() for r, n in RANK.findall(line)
             if not line.startswith("  one or another")]
    pairs = sum(n for _, n in ranks)
    step = STEP.search(report)
    trial = "nothing differs" if not step else f"{float(step[2]) / float(step[1]):.3f}"
    used = "" if not step else "all" if step[3] == "they are used" else "none" if "not used" in step[3] else "some"
    timed = re.search(r"^(\d+) candidates timed", report, re.M)
    share = 100 * sum(k[0] * k[1] for k in best) / every
    gain = 100 * sum(k[0] * (k[1] - k[2]) for k in kinds) / every
    rank = sum(r * n for r, n in ranks) / pairs if pairs else 0
    return (f"{timed[1] if timed else 0} | {len(kinds)} | {len(best)}, {share:.0f} % | {gain:.1f} % | {trial} | "
            f"{used} | {rank:+.2f} of {pairs}")


def tuning(a):
    yield ("| model | mixed precision | default ms | max-autotune ms | ratio | candidates | kinds | default best, of "
           "the time | the others gain | step on trial | used | rank correlation of pairs |")
    yield "| --- | --- | --: | --: | --: | --: | --: | --: | --: | --: | --- | --- |"
    for model in (a.models or "mlp,char_gpt,mnist_cnn,gpt_10m,resnet18_cifar").split(","):
        for precision in a.precisions.split(","):
            with tempfile.TemporaryDirectory() as folder:
                lock = os.path.join(folder, "lock")
                tuned = run(a, "traincc", model, "max-autotune", precision, {"TCC_BENCH_LOCK": lock})
                rounds = [] if isinstance(tuned, str) else [
                    (run(a, "traincc", model, "default", precision),
                     run(a, "traincc", model, "max-autotune", precision, {"TCC_BENCH_LOCKED": lock}))
                    for _ in range(a.rounds)]
            failed = [r for r in [tuned, *sum(rounds, ())] if isinstance(r, str)]
            if failed:
                print(f"modes: {model}, {precision}: {failed[0]}", file=sys.stderr)
                continue
            ms = [statistics.median(r[i]["step_ms"] for r in rounds) for i in range(2)]
            ratio = statistics.median(y["step_ms"] / x["step_ms"] for x, y in rounds)
            yield (f"| {model} | {precision} | {ms[0]:.2f} | {ms[1]:.2f} | {ratio:.3f} | {found(tuned['report'])} |")


def modes(a):
    names = (a.models or "char_gpt,mnist_cnn,resnet18_cifar").split(",")
    for name in names:
        if name not in EPOCHS:
            sys.exit(f"modes: no model {name}; there are {', '.join(EPOCHS)}")
    table = ["| model | by | mode | mixed precision | ms a step | s an epoch | over eager |",
             "| --- | --- | --- | --- | ---: | ---: | ---: |"]
    figures = []
    for model in names:
        steps, of_model = measure(a, model)
        figures += of_model
        table += rows(a, model, steps)
    if a.json:
        with open(a.json, "w", encoding="utf-8") as f:
            json.dump(figures, f, indent=1)
    return table


def main():
    a = arguments()
    text = ""
    for line in tuning(a) if a.tuning else modes(a):
        print(line, flush=True)
        text += line + "\n"
    if a.markdown:
        with open(a.markdown, "w", encoding="utf-8") as f:
            f.write(text)


if __name__ == "__main__":
    main()
