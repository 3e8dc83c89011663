#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Whether training in mixed precision comes as far as float32: recipes with several seeds, side by side.

    tests/bench/convergence.py --text input.txt --idx mnist --cifar cifar-10-batches-bin [--tasks char_gpt,mnist_cnn]
        [--seeds 1,2,3] [--json FILE]

A run is one of tcc-train; equal seeds begin with equal weights and draw equal batches. The figure is the last of its
kind in metrics.jsonl. `spread` is the largest less the smallest over seeds; `difference` is the mean over the seeds
that float32 has too, and noise if it is no larger than the larger spread of the two. Ends with status 1 where one is
larger and for the worse, or where a run failed. Runs that --json has already are not repeated. """
import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
# Recipe, kind of data, figure, whether more is better, and what differs from the recipe.
TASKS = {
    "char_gpt": ("char-gpt", "text", "val_loss", False, ["training.max_steps=1500", "training.eval_every=1500"]),
    "mnist_cnn": ("mnist-cnn", "idx", "val_accuracy", True, ["training.max_epochs=2"]),
    "resnet18": ("cifar-resnet18", "cifar", "val_loss", False, [
        "data.batch_size=64", "optimizer.lr=0.05", "training.max_epochs=0", "training.max_steps=150",
        "training.eval_every=150", "training.eval_batches=64"]),
}
PRECISIONS = ("none", "bf16", "fp16")


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--tcc-train", default=os.path.join(ROOT, "build", "bin", "tcc-train"), help="our program")
    p.add_argument("--text", help="a text file")
    p.add_argument("--idx", help="a folder with the four idx files")
    p.add_argument("--cifar", help="a folder with CIFAR-10's binaries")
    p.add_argument("--tasks", default=",".join(TASKS), help="comma-separated; default: %(default)s")
    p.add_argument("--precisions", default=",".join(PRECISIONS), help="comma-separated; default: %(default)s")
    p.add_argument("--seeds", default="1,2,3", help="comma-separated; default: %(default)s")
    p.add_argument("--json", help="runs are read from this file, and added to it")
    return p.parse_args()


def train(a, task, precision, seed):
    """The figures of a run: those of its last evaluation, and the steps that were skipped."""
    recipe, kind, _, _, overrides = TASKS[task]
    with tempfile.TemporaryDirectory() as folder:
        command = [a.tcc_train, os.path.join(ROOT, "tools", "recipes", recipe + ".yaml"), "--run-dir", folder,
                   "--quiet", "--device", "cpu", f"data.path={os.path.abspath(getattr(a, kind))}", *overrides,
                   f"training.mixed_precision={precision}", f"training.seed={seed}"]
        done = subprocess.run(command, capture_output=True, text=True)
        if done.returncode:
            return None, done.stderr.strip()
        with open(os.path.join(folder, "metrics.jsonl")) as f:
            lines = [json.loads(line) for line in f]
    last = [line for line in lines if "val_loss" in line][-1]
    skipped = [line["skipped_steps"] for line in lines if "skipped_steps" in line]
    figures = {key: last[key] for key in ("step", "val_loss", "val_accuracy") if key in last}
    return {"task": task, "precision": precision, "seed": seed, **figures,
            "skipped": skipped[-1] if skipped else 0}, None


def table(runs, tasks, precisions):
    """The table as text, and whether all differences are noise."""
    lines = ["| task | figure | precision | runs | mean | spread | difference | skipped steps |",
             "| --- | --- | --- | --: | --: | --: | --: | --: |"]
    fine = True
    for task in tasks:
        _, _, key, more, _ = TASKS[task]
        of = {p: {r["seed"]: r for r in runs if r["task"] == task and r["precision"] == p} for p in PRECISIONS}
        spread = {p: max(r[key] for r in of[p].values()) - min(r[key] for r in of[p].values()) for p in of if of[p]}
        for p in (p for p in precisions if of[p]):
            difference = ""
            both = [seed for seed in of[p] if seed in of["none"]]
            if p != "none" and both:
                d = statistics.mean(of[p][seed][key] - of["none"][seed][key] for seed in both)
                difference = f"{d:+.4f}"
                fine = fine and (d if not more else -d) <= max(spread[p], spread["none"])
            mean = statistics.mean(r[key] for r in of[p].values())
            wide = f"{spread[p]:.4f}" if len(of[p]) > 1 else ""
            skipped = ", ".join(str(r["skipped"]) for r in of[p].values()) if p == "fp16" else ""
            lines.append(f"| {task} | {key} | {p} | {len(of[p])} | {mean:.4f} | {wide} | {difference} | "
                         f"{skipped} |")
    return "\n".join(lines), fine


def main():
    a = arguments()
    tasks, precisions = a.tasks.split(","), a.precisions.split(",")
    runs, failed = [], False
    if a.json and os.path.exists(a.json):
        with open(a.json) as f:
            runs = json.load(f)
    for task in tasks:
        if not getattr(a, TASKS[task][1]):
            sys.exit(f"convergence.py: {task} needs --{TASKS[task][1]}")
        for seed in map(int, a.seeds.split(",")):
            for precision in precisions:
                if any((r["task"], r["precision"], r["seed"]) == (task, precision, seed) for r in runs):
                    continue
                figures, problem = train(a, task, precision, seed)
                if problem:
                    failed = True
                    print(f"convergence.py: {task}, {precision}, seed {seed}: {problem}", file=sys.stderr)
                    continue
                runs.append(figures)
                print(figures, file=sys.stderr, flush=True)
                if a.json:
                    with open(a.json, "w") as f:
                        json.dump(runs, f, indent=1)
                        f.write("\n")
    text, fine = table(runs, tasks, precisions)
    print(text)
    return 1 if failed or not fine else 0


if __name__ == "__main__":
    sys.exit(main())
