#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What a training step would take on 8 to 1,024 H100s, as tcc-train --dry-run --ranks predicts it:
guide_ranks.py BIN_DIR

GPT-2 124M with 32 x 1,024 tokens a GPU, and the five segmentation recipes at their full size with the batch of the
recipe a GPU, all in bf16, over NVLink and over a port of InfiniBand for each GPU (ir/support/network.def). Nothing was
measured. The loss of a step is the mean of the ranks' losses, as PyTorch's DistributedDataParallel has it. Pictures are
grey and tokens are 0: their values decide nothing.
"""
import argparse
import os
import pathlib
import re
import struct
import subprocess
import tempfile

from guide_plans import RECIPES, pictures

FIRST, NETWORKS, SHOWN = 8, ["nvlink", "ib"], [1, 8, 64, 256, 1024]


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
                          capture_output=True, text=True, check=True)
    rows = [line.split() for line in re.split(r"\nranks .*\n", said.stdout)[1].splitlines()]
    return [row for row in rows if int(row[0]) in SHOWN]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--models", nargs="+", default=["gpt2-124m"] + RECIPES)
    o = parser.parse_args()
    recipes = pathlib.Path(__file__).parents[2] / "tools" / "recipes"
    print("model, network, ranks, step ms, waiting ms, samples/s, efficiency, sent MB, memory MiB, sharded MiB",
          flush=True)
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
                overrides = [f"data.path={scratch}/train", f"data.val_path={scratch}/val", "training.loss_of=parts",
                             run]
            for network in NETWORKS:
                for row in predict(o.bin / "tcc-train", recipe, overrides, network):
                    print(", ".join([name, network] + row), flush=True)


if __name__ == "__main__":
    main()
