#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Cold and warm starts: seconds from the start of the process to the end of the first training step, ours beside
torch.compile's (its FxGraphCache), and of GPT-2 and ResNet-50 for a GPU that is not there, compiled only.

    tests/bench/startup.py BUILD [--runs N] [--torch PYTHON] [--only MODEL,...]

Cold: with an empty cache. Warm: by the same process again. In turns, the median of N runs each.
"""
import argparse
import os
import re
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

HERE = Path(__file__).resolve().parent
CPU = ["char_gpt", "gpt_10m", "resnet18_cifar"]
AHEAD = ["gpt2_124m", "resnet50"]


def timed(command, environment):
    start = time.perf_counter()
    done = subprocess.run(command, env={**os.environ, **environment}, capture_output=True, text=True)
    seconds = time.perf_counter() - start
    if done.returncode:
        sys.exit(f"{' '.join(command)}: {done.stderr[-2000:]}")
    return seconds, done.stderr


def pairs(command, environment, cache, runs):
    """(cold, warm) seconds, medians, and what the last warm process printed."""
    cold, warm, text = [], [], ""
    for _ in range(runs):
        shutil.rmtree(cache, ignore_errors=True)
        Path(cache).mkdir(mode=0o700)
        cold.append(timed(command, environment)[0])
        seconds, text = timed(command, environment)
        warm.append(seconds)
    return statistics.median(cold), statistics.median(warm), text


def ours(build, model, arch, scratch, runs):
    cache = os.path.join(scratch, "traincc")
    environment = {"TCC_CACHE_DIR": cache, "TCC_CACHE_DISABLE": "0", "TCC_LOG": "compile"}
    command = [os.path.join(build, "bin", "startup"), model] + ([arch] if arch else [])
    cold, warm, log = pairs(command, environment, cache, runs)
    return cold, warm, int(re.search(r"initial values (\d+)", log).group(1)) / 1e3


TORCH = """
import os, sys
sys.path.insert(0, sys.argv[1])
import torch, models_torch
torch.set_num_threads(len(os.sched_getaffinity(0)))
float(models_torch.trainer(sys.argv[2], "default", "cpu")())
"""


def torchs(python, model, scratch, runs):
    cache = os.path.join(scratch, "torch")
    environment = {"TORCHINDUCTOR_CACHE_DIR": cache, "TORCHINDUCTOR_FX_GRAPH_CACHE": "1",
                   "TORCHINDUCTOR_AUTOGRAD_CACHE": "1"}
    return pairs([python, "-c", TORCH, str(HERE), model], environment, cache, runs)[:2]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("build")
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--torch", help="a Python with torch; without it our own side alone")
    parser.add_argument("--only", default=",".join(CPU + AHEAD))
    a = parser.parse_args()
    print("seconds to the end of the first step: cold | warm | of it initial values | torch.compile cold | warm")
    with tempfile.TemporaryDirectory() as scratch:
        for model in a.only.split(","):
            arch = "sm_90" if model in AHEAD else None
            cold, warm, values = ours(a.build, model, arch, scratch, a.runs)
            line = f"{model}{' (' + arch + ', compiled only)' if arch else ''} | {cold:.2f} | {warm:.3f} | {values:.3f}"
            if a.torch and not arch:
                line += " | {:.2f} | {:.2f}".format(*torchs(a.torch, model, scratch, a.runs))
            print(line, flush=True)


if __name__ == "__main__":
    main()
