#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a training step would take on 8 to 1,024 H100s, as tcc-train --dry-run --ranks predicts it:
guide_ranks.py BIN_DIR >tests/bench/results/gpu_ranks_predicted.json

GPT-2 124M with 32 x 1,024 tokens a GPU, and the five segmentation recipes at their full size with the batch of the
recipe a GPU, all in bf16, over NVLink and over a port of InfiniBand for each GPU (ir/support/network.def). Nothing was
measured. A loss that is no sum over samples is refused, as ranks would train it otherwise than one does. Pictures are
grey and tokens are 0: their values decide nothing.
"""
import argparse
import json
import os
import pathlib
import re
import struct
import subprocess
import tempfile

from guide_plans import RECIPES, pictures

FIRST, NETWORKS = 8, ["nvlink", "ib"]
COLUMNS = ["ranks", "step_ms", "waiting_ms", "samples_per_s", "efficiency_percent", "sent_mb", "memory_mib",
           "sharded_mib"]


def more_pictures(folder, count):
    """So many pictures of the training split, by links to the eight that there are."""
    for kind in ("images", "labels"):
        for i in range(8, count):
            os.link(folder / "train" / kind / f"{i % 8}.png", folder / "train" / kind / f"{i}.png")


def token_file(path, tokens, vocabulary):
    """A file of 16-bit tokens as llm.c writes them, the last of the vocabulary among them."""
    header = struct.pack("<3i", 20240520, 1, tokens).ljust(1024, b"\0")
    path.write_bytes(header + struct.pack("<H", vocabulary - 1) + bytes(2 * (tokens - 1)))


def predict(tcc_train, recipe, overrides, network):
    said = subprocess.run([tcc_train, recipe, "--dry-run", "--arch", "sm_90", "--ranks", str(FIRST),
                           "--network", network, "training.mixed_precision=bf16", *overrides],
                          capture_output=True, text=True)
    if said.returncode: # PP-LiteSeg: its Dice loss is no sum over samples
        return {"refused": said.stderr.splitlines()[0]}
    rows = [[float(v) for v in line.replace("%", "").split()]
            for line in re.split(r"\nranks .*\n", said.stdout)[1].splitlines()]
    return [dict(zip(COLUMNS, row)) for row in rows if row[0] == 1 or row[0] >= FIRST]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["gpt2-124m"] + RECIPES)
    o = parser.parse_args()
    recipes = pathlib.Path(__file__).parents[2] / "tools" / "recipes"
    models = {}
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        pictures(scratch)
        more_pictures(scratch, 16 * FIRST)
        token_file(scratch / "tokens.bin", 1024 * 32 * FIRST * 2, 50257)
        run = f"--run-dir={scratch}/run"
        for name in o.models:
            if name == "gpt2-124m":
                recipe = recipes / "char-gpt.yaml"
                overrides = [f"data.path={scratch}/tokens.bin", "data.kind=tokens", "data.batch_size=32",
                             "data.val_split=0", "model.layers=12", "model.heads=12", "model.width=768",
                             "model.context=1024", run]
            else:
                recipe = recipes / f"{name}.yaml"
                overrides = [f"data.path={scratch}/train", f"data.val_path={scratch}/val", run]
            models[name] = {network: predict(o.bin / "tcc-train", recipe, overrides, network) for network in NETWORKS}
    print(json.dumps({"gpu": "sm_90, H100 SXM by its data sheet; predicted, nothing was measured",
                      "command": "tests/bench/guide_ranks.py build/bin", "models": models}, indent=1))


if __name__ == "__main__":
    main()
