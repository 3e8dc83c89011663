#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""ResNet-18 on CIFAR-10's binaries in PyTorch, from a run of tcc-train: its recipe, and its weights of step 0.

    tcc-train tools/recipes/cifar-resnet18.yaml data.path=DIR data.augment=false training.max_epochs=0
    training.max_steps=300 \\
        training.log_every=1 training.eval_every=300 --run-dir RUN
    curve_cifar.py RUN [--every 25]

Batches are drawn by each side in its own order, so losses agree within the noise of that draw. Prints the mean loss of
each stretch of steps on both sides, and the loss and accuracy on the same first test images at the end. """
import argparse
import glob
import gzip
import json
import math
import os
import sys

import numpy
import torch
from torch.nn import functional as F

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from models_torch import ResNet18  # noqa: E402

RECORD = 1 + 3 * 32 * 32


def recipe_of(path):
    """The resolved recipe as {"data.path": text}: two levels, one key a line, as tcc-train writes it."""
    keys, section = {}, ""
    for line in open(path):
        line = line.split(" #")[0].rstrip()
        if not line or line.lstrip().startswith("#"):
            continue
        name, value = line.split(":", 1)
        if not line.startswith(" "):
            section = name
            keys[name] = value.strip()
        else:
            keys[f"{section}.{name.strip()}"] = value.strip().strip('"')
    return keys


def tensors_of(path):
    with open(path, "rb") as file:
        header = json.loads(file.read(int.from_bytes(file.read(8), "little")))
        start = file.tell()
        tensors = {}
        for name, entry in header.items():
            if name == "__metadata__":
                continue
            first, last = entry["data_offsets"]
            file.seek(start + first)
            kind = {"F32": numpy.float32, "I64": numpy.int64}[entry["dtype"]]
            tensors[name] = torch.from_numpy(
                numpy.frombuffer(file.read(last - first), kind).reshape(entry["shape"]).copy()
            )
    return tensors


def images_of(pattern, mean, std):
    data = b"".join(
        (gzip.open if name.endswith(".gz") else open)(name, "rb").read() for name in sorted(glob.glob(pattern))
    )
    records = numpy.frombuffer(data, numpy.uint8).reshape(-1, RECORD)
    x = records[:, 1:].reshape(-1, 3, 32, 32).astype(numpy.float32) / 255
    x = (x - numpy.array(mean, numpy.float32)[:, None, None]) / numpy.array(std, numpy.float32)[:, None, None]
    return torch.from_numpy(x), torch.from_numpy(records[:, 0].astype(numpy.int64))


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("run", help="the run's folder")
    p.add_argument("--every", type=int, default=25)
    a = p.parse_args()
    recipe = recipe_of(os.path.join(a.run, "recipe.yaml"))
    number = lambda key: float(recipe[key])  # noqa: E731
    if recipe["data.augment"] != "false" or recipe["model.name"] != "resnet18":
        sys.exit("curve_cifar.py: the run must be of resnet18 with data.augment=false")
    ours = [json.loads(line) for line in open(os.path.join(a.run, "metrics.jsonl"))]
    steps, batch, lr = int(number("training.max_steps")), int(number("data.batch_size")), number("optimizer.lr")
    mean, std = json.loads(recipe["data.mean"]), json.loads(recipe["data.std"])
    x, y = images_of(os.path.join(recipe["data.path"], "data_batch_*"), mean, std)

    model = ResNet18().to(memory_format=torch.channels_last)
    missing, unexpected = model.load_state_dict(
        tensors_of(os.path.join(a.run, "checkpoints", "step-000000.safetensors")), strict=False
    )
    if unexpected or any(not name.endswith("num_batches_tracked") for name in missing):
        sys.exit(f"curve_cifar.py: weights differ: missing {missing}, unexpected {unexpected}")
    optimizer = torch.optim.SGD(
        model.parameters(), lr=lr, momentum=number("optimizer.momentum"), weight_decay=number("optimizer.weight_decay")
    )
    torch.manual_seed(int(number("training.seed")))
    order, losses = torch.randperm(len(x)), []
    for step in range(steps):
        for group in optimizer.param_groups:
            group["lr"] = lr * 0.5 * (1 + math.cos(math.pi * step / steps))
        if (at := step * batch % (len(x) - batch)) < batch:
            order = torch.randperm(len(x))
        pick = order[at:at + batch]
        loss = F.cross_entropy(model(x[pick].to(memory_format=torch.channels_last)), y[pick])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())

    mine = {line["step"]: line["loss"] for line in ours if "loss" in line and "val_loss" not in line}
    print("| steps | traincc | PyTorch |\n| --- | --: | --: |")
    for first in range(0, steps, a.every):
        stretch = [mine[s] for s in range(first, min(first + a.every, steps)) if s in mine]
        theirs = losses[first:first + a.every]
        print(
            f"| {first} to {first + len(theirs) - 1} | {sum(stretch) / len(stretch):.3f} | "
            f"{sum(theirs) / len(theirs):.3f} |"
        )
    x, y = images_of(os.path.join(recipe["data.path"], "test_batch*"), mean, std)
    used = int(number("training.eval_batches")) * batch or len(x)
    model.eval()
    with torch.no_grad():
        out = torch.cat([model(part) for part in x[:used].to(memory_format=torch.channels_last).split(batch)])
    last = [line for line in ours if "val_loss" in line][-1]
    print(f"| test loss | {last['val_loss']:.3f} | {F.cross_entropy(out, y[:used]):.3f} |")
    print(f"| test accuracy | {last['val_accuracy']:.4f} | {(out.argmax(1) == y[:used]).float().mean():.4f} |")


if __name__ == "__main__":
    main()
