#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The five segmentation recipes at their full size, compiled for GPUs that need not be here: guide_plans.py BIN_DIR

A line a recipe, architecture and type: planned peak, steps, what ptxas says of registers and spilled bytes, and which
kernels only cast or only move values, with their bytes. Calls of vendor libraries need a device, so all kernels here
are TrainCC's own. Pictures are grey: their values decide nothing. Needs tcc-train in BIN_DIR, and ptxas.
"""
import argparse
import pathlib
import re
import struct
import subprocess
import tempfile
import zlib

RECIPES = ["pp-liteseg", "stdc", "ddrnet", "regseg", "segformer"]
CASES = [("sm_90", "bf16"), ("sm_90", "fp16"), ("sm_80", "bf16"), ("sm_100", "bf16")]
STEP = re.compile(r"^ *\d+ +(\S+) +(\d+) x +\d+ items +\S+ Mflop +(\S+) KB +(\S+)")
MOVES = {"transpose", "reshape", "slice", "concat", "pad", "broadcast", "copy", "cast"}


def grey_png(path, width, height, channels, value):
    """Writes a PNG of one value, 8 bits a channel."""
    def chunk(kind, data):
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    header = struct.pack(">IIBBBBB", width, height, 8, {1: 0, 3: 2}[channels], 0, 0, 0)
    rows = (b"\0" + bytes([value]) * (width * channels)) * height
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 1)) +
                     chunk(b"IEND", b""))


def pictures(folder):
    """A set that looks like Cityscapes: eight pictures and labels for each split."""
    for split in ("train", "val"):
        for kind, channels in (("images", 3), ("labels", 1)):
            (folder / split / kind).mkdir(parents=True)
            for i in range(8):
                grey_png(folder / split / kind / f"{i}.png", 2048, 1024, channels, 7 + i)


def assembled(folder, arch):
    """Registers of the kernel that has most, spilled bytes of all, and kernels that spill."""
    most = spilled = kernels = 0
    for text in sorted(folder.glob("*.ptx")):
        said = subprocess.run(["ptxas", "-v", f"-arch={arch}", text, "-o", "/dev/null"], capture_output=True, text=True,
                              check=True).stderr
        stores = [int(n) for n in re.findall(r"(\d+) bytes spill stores", said)]
        spilled += sum(stores)
        kernels += sum(n > 0 for n in stores)
        most = max([most] + [int(n) for n in re.findall(r"Used (\d+) registers", said)])
    return most, spilled, kernels


def moving(folder):
    """Launches and MB: of all, of those that only cast, and of those that only move."""
    every, casts, moves = [0, 0.0], [0, 0.0], [0, 0.0]
    for line in (folder / "steps.txt").read_text().splitlines():
        found = STEP.match(line)
        if not found:
            continue
        ops = set(found[4].split("+"))
        for of in [every] + ([casts if ops == {"cast"} else moves] if ops <= MOVES else []):
            of[0] += 1
            of[1] += float(found[3]) / 1000
    return every, casts, moves


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("bin", type=pathlib.Path)
    parser.add_argument("--recipes", nargs="+", default=RECIPES)
    o = parser.parse_args()
    recipes = pathlib.Path(__file__).parents[2] / "tools" / "recipes"
    print("recipe, GPU, type, planned peak GiB, launches, MB, most registers, spilled bytes, kernels that spill, "
          "casts, MB, moves, MB", flush=True)
    with tempfile.TemporaryDirectory() as scratch:
        scratch = pathlib.Path(scratch)
        pictures(scratch)
        for name in o.recipes:
            for arch, low in CASES:
                ir = scratch / f"{name}-{arch}-{low}"
                said = subprocess.run(
                    [o.bin / "tcc-train", recipes / f"{name}.yaml", f"data.path={scratch}/train",
                     f"data.val_path={scratch}/val", f"training.mixed_precision={low}", "--dry-run", "--arch", arch,
                     "--dump-ir", ir, "--run-dir", scratch / "run"],
                    capture_output=True, text=True, check=True).stdout
                peak = float(re.search(r"peak memory ([\d.]+) MiB", said)[1]) / 1024
                every, casts, moves = moving(ir / "00-train")
                most, spilled, kernels = assembled(ir / "00-train", arch)
                print(f"{name}, {arch}, {low}, {peak:.2f}, {every[0]}, {every[1]:.0f}, {most}, {spilled}, {kernels}, "
                      f"{casts[0]}, {casts[1]:.1f}, {moves[0]}, {moves[1]:.1f}", flush=True)


if __name__ == "__main__":
    main()
