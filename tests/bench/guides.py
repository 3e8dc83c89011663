#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The techniques that guides to fast training recommend, each with and without: one table.

    tests/bench/guides.py --data DIR [--device cpu|cuda] [--rounds 3] [--rows workers,accumulation,...]
                          [--tcc-train build/bin/tcc-train] [--markdown FILE] [--json FILE]

DIR has mnist/ (four idx files), cifar10/ (binary batches) and tinyshakespeare/input.txt; files may be gzipped. Every
figure is from a fresh process of tcc-train with one of our recipes. The two sides of a row take turns for --rounds
rounds; a process gives the median time of a step after the first, and the peak of memory that is planned for it; a row
shows medians over the rounds. Kernels are compiled anew each time (TCC_CACHE_DISABLE=1); compiling is not in a step.
"""
import argparse
import gzip
import json
import os
import random
import re
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import zlib

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
MIB = 1 << 20

# Name: what it is in a recipe, which recipe, overrides of both sides, without, with, and what is compared.
CHAR = ("char-gpt", ["training.max_steps=101", "training.log_every=10", "training.eval_every=0", "sample.length=0"])
WIDE = ("char-gpt", ["training.max_steps=31", "training.log_every=5", "training.eval_every=0", "sample.length=0",
                     "data.batch_size=32", "model.context=128"])
CNN = ("mnist-cnn", ["training.max_steps=301", "training.log_every=20", "training.eval_every=0"])
RESNET = ("cifar-resnet18", ["training.max_steps=9", "training.log_every=1", "training.eval_every=0",
                             "data.batch_size=32", "data.augment=false"])
EPOCHS = ("mnist-cnn", ["training.max_epochs=2", "training.eval_every=938", "training.metrics=[accuracy]"])
ROWS = {
    "workers": ("data.num_workers: 0 -> 2, PNGs scaled and jittered", ("images", []),
                ["data.num_workers=0"], ["data.num_workers=2"], ("step_ms", "waited")),
    "pinning": ("data.pin_memory: false -> true", CNN,
                ["data.pin_memory=false"], ["data.pin_memory=true"], ("step_ms",)),
    "accumulation": ("data.batch_size: 128 -> 32, training.batch_accumulate: 1 -> 4", WIDE,
                     ["data.batch_size=128"], ["training.batch_accumulate=4"], ("step_ms", "peak_mib")),
    "checkpointing": ("training.checkpointing: none -> auto, memory_budget: 50%", WIDE,
                      ["training.checkpointing=none"], ["training.memory_budget=50%"], ("step_ms", "peak_mib")),
    "mixed precision": ("training.mixed_precision: none -> bf16", WIDE,
                        [], ["training.mixed_precision=bf16"], ("step_ms", "peak_mib")),
    "compile": ("training.compile: false -> true", CHAR,
                ["training.compile=false"], [], ("step_ms", "peak_mib")),
    "convolution autotune": ("training.compile_mode: default -> max-autotune", RESNET,
                             [], ["training.compile_mode=max-autotune"], ("step_ms",)),
    "debugging off": ("training.detect_anomaly, statistics: on -> off", CNN,
                      ["training.detect_anomaly=true", "training.statistics=1"], [], ("step_ms", "peak_mib")),
    "evaluation without gradients": ("memory of the training step -> of eval", CNN, [], ["eval"], ("peak_mib",)),
    "average of parameters": ("training.ema_decay: 0 -> 0.999", CNN,
                              [], ["training.ema_decay=0.999"], ("step_ms", "peak_mib")),
    "one-cycle": ("schedule.name: constant -> one_cycle, lr 1e-3 -> 4e-3, 2 epochs", EPOCHS,
                  ["schedule.name=constant", "schedule.warmup_steps=0"],
                  ["schedule.name=one_cycle", "optimizer.lr=4e-3"],
                  ("val_loss", "val_accuracy")),
}
FORMATS = {"step_ms": ("{:.1f}", "ms a step"), "peak_mib": ("{:.1f}", "MiB"), "waited": ("{:.0f} %", "waited for data"),
           "val_loss": ("{:.4f}", "validation loss"), "val_accuracy": ("{:.2%}", "accuracy")}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--data", required=True)
    p.add_argument("--tcc-train", default=os.path.join(ROOT, "build", "bin", "tcc-train"))
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--rows", default=",".join(ROWS), help="names out of: " + ", ".join(ROWS))
    p.add_argument("--json", help="write every process's figures here")
    p.add_argument("--markdown", help="write the table here (it is always printed)")
    return p.parse_args()


# -- Data --

def write_png(path, size, rng):
    """A picture of smooth colours, as large as a small photo."""
    a, b, c = (rng.uniform(0.5, 3) for _ in range(3))
    rows = b"".join(b"\0" + bytes(int(127 + 120 * ((x * a + y * b) / size % 1 - 0.5) * s) & 255
                                  for x in range(size) for s in (1, c / 3, -1)) for y in range(size))

    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    with open(path, "wb") as f:
        f.write(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", struct.pack(">IIBBBBB", size, size, 8, 2, 0, 0, 0)) +
                chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b""))


def make_images(folder):
    """Two classes of 96 pictures of 160 x 160, and a recipe for them."""
    rng = random.Random(7)
    for kind in ("one", "two"):
        os.makedirs(os.path.join(folder, "pictures", kind))
        for i in range(96):
            write_png(os.path.join(folder, "pictures", kind, f"{i}.png"), 160, rng)
    with open(os.path.join(folder, "images.yaml"), "w", encoding="ascii") as f:
        f.write("model:\n  name: cnn\ndata:\n  kind: images\n  size: [32, 32]\n  scale: [0.5, 2]\n"
                "  jitter: [0.2, 0.2, 0.2]\n  augment: true\n  batch_size: 32\n  val_split: 0.1\n"
                "training:\n  max_steps: 101\n  log_every: 10\n")
    return os.path.join(folder, "images.yaml")


def unpack(source, folder):
    """CIFAR's files are read as they are distributed."""
    os.makedirs(folder)
    for name in os.listdir(source):
        opened = gzip.open if name.endswith(".gz") else open
        with opened(os.path.join(source, name), "rb") as f, \
                open(os.path.join(folder, name.removesuffix(".gz")), "wb") as out:
            shutil.copyfileobj(f, out)


def paths_of(a, folder):
    unpack(os.path.join(a.data, "cifar10"), os.path.join(folder, "cifar"))
    return {"char-gpt": os.path.join(a.data, "tinyshakespeare", "input.txt"),
            "mnist-cnn": os.path.join(a.data, "mnist"), "cifar-resnet18": os.path.join(folder, "cifar"),
            "images": os.path.join(folder, "pictures")}


# -- Runs --

def call(a, words):
    done = subprocess.run([a.tcc_train, *words], env=dict(os.environ, TCC_CACHE_DISABLE="1"), text=True,
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    if done.returncode:
        sys.exit(f"{' '.join(words)}\n{done.stdout}")
    return done.stdout


def measure(a, recipe, path, overrides, folder):
    """The figures of one process, by name."""
    run = os.path.join(folder, "run")
    shutil.rmtree(run, ignore_errors=True)
    words = [o for o in overrides if o != "eval"]
    text = call(a, [recipe, f"data.path={path}", "--device", a.device, "--run-dir", run, *words])
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    steps = [line for line in lines if "step_ms" in line]
    out = {key: line[key] for line in lines for key in line if key.startswith("val_")}
    out["step_ms"] = statistics.median(line["step_ms"] for line in steps[1:])
    out["peak_mib"] = steps[-1]["peak_bytes"] / MIB
    out["waited"] = float(re.search(r"waited for data: .*\(([\d.]+)%\)", text).group(1))
    if "eval" in overrides:
        text = call(a, ["eval", run, "--device", a.device])
        out["peak_mib"] = float(re.search(r"peak memory ([\d.]+) MiB", text).group(1))
    return out


def table(results):
    lines = ["| technique | in a recipe | | without | with | ratio |", "| --- | --- | --- | --: | --: | --: |"]
    for name, runs in results.items():
        about, _, _, _, figures = ROWS[name]
        for i, figure in enumerate(figures):
            form, unit = FORMATS[figure]
            sides = [statistics.median(r[figure] for r in side) for side in runs]
            ratio = f"{sides[1] / sides[0]:.2f}" if figure in ("step_ms", "peak_mib") else ""
            lines.append(f"| {'' if i else name} | {'' if i else about} | {unit} | {form.format(sides[0])} | "
                         f"{form.format(sides[1])} | {ratio} |")
    return "\n".join(lines)


def main():
    a = arguments()
    names = [name.strip() for name in a.rows.split(",")]
    for name in names:
        if name not in ROWS:
            sys.exit(f"no row \"{name}\": {', '.join(ROWS)}")
    with tempfile.TemporaryDirectory() as folder:
        images, paths, results = make_images(folder), paths_of(a, folder), {}
        for name in names:
            _, (recipe, common), *sides, _ = ROWS[name]
            file = images if recipe == "images" else os.path.join(ROOT, "tools", "recipes", recipe + ".yaml")
            results[name] = ([], [])
            for _ in range(a.rounds):
                for side, overrides in enumerate(sides):
                    results[name][side].append(measure(a, file, paths[recipe], common + overrides, folder))
            print(table({name: results[name]}), file=sys.stderr, flush=True)
    print(table(results))
    for path, text in ((a.json, json.dumps(results, indent=1)), (a.markdown, table(results))):
        if path:
            with open(path, "w", encoding="utf-8") as f:
                f.write(text + "\n")


if __name__ == "__main__":
    main()
