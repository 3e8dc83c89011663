#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes accumulate.json: PyTorch's losses, parameters and running statistics after steps in micro-batches.

    python3 tests/numerics/golden/make_accumulate.py        (Debian: python3-torch; or PyTorch 2 from PyPI)

The network is tanh(batch norm(linear without bias)) and a linear layer, with cross-entropy. Element i of tensor number
k, in the order of the list here, begins as ((37 i + 11 k) mod 101) / 101 - 1/2, in float32, and the batch norm's weight
as 1 more than that. Step s has inputs ((37 i + 11 s) mod 101) / 50 - 1 and targets (7 row + s) mod classes; of the rows
with (row + s) mod 5 = 0, and of the first four, the target is -100, which does not count. A step in N micro-batches
has ceil(rows / N) rows in each but the last. As PyTorch's users do it: loss.backward() on each micro-batch's sum of
losses over the targets of the whole batch, then one clipping and one update. All is computed in float64. """
import json
import os

import torch
import torch.nn.functional as F

ROWS, FEATURES, HIDDEN, CLASSES, STEPS = 21, 6, 8, 5, 6
SHAPES = {
    "in.weight": (HIDDEN, FEATURES),
    "norm.weight": (HIDDEN,),
    "norm.bias": (HIDDEN,),
    "out.weight": (CLASSES, HIDDEN),
    "out.bias": (CLASSES,),
}
OPTIMIZERS = {
    "sgd": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
    "adamw": lambda p: torch.optim.AdamW(p, lr=0.01, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.1),
}
CLIP = 0.25


def begin(k, name, shape):
    values = (torch.arange(torch.Size(shape).numel(), dtype=torch.float64) * 37 + 11 * k) % 101 / 101 - 0.5
    return (values + (name == "norm.weight")).to(torch.float32).to(torch.float64).reshape(shape).requires_grad_()


def batch_of(step):
    x = ((torch.arange(ROWS * FEATURES) * 37 + 11 * step) % 101).to(torch.float32) / 50 - 1
    rows = torch.arange(ROWS)
    y = (7 * rows + step) % CLASSES
    y[(rows + step) % 5 == 0] = -100
    y[:4] = -100
    return x.to(torch.float64).reshape(ROWS, FEATURES), y


def run(optimizer, parts):
    p = {name: begin(k, name, shape) for k, (name, shape) in enumerate(SHAPES.items())}
    mean, variance = torch.zeros(HIDDEN, dtype=torch.float64), torch.ones(HIDDEN, dtype=torch.float64)
    update = OPTIMIZERS[optimizer](list(p.values()))
    losses, norms = [], []
    for step in range(STEPS):
        x, y = batch_of(step)
        counted = (y != -100).sum()
        update.zero_grad()
        total = 0.0
        for part in torch.split(torch.arange(ROWS), -(-ROWS // parts)):
            h = F.linear(x[part], p["in.weight"])
            h = F.batch_norm(h, mean, variance, p["norm.weight"], p["norm.bias"], training=True)
            logits = F.linear(torch.tanh(h), p["out.weight"], p["out.bias"])
            loss = F.cross_entropy(logits, y[part], reduction="sum") / counted
            loss.backward()
            total += loss.item()
        norms.append(torch.nn.utils.clip_grad_norm_(list(p.values()), CLIP).item())
        update.step()
        losses.append(total)
    values = {name: v.detach().flatten().tolist() for name, v in p.items()}
    values["norm.running_mean"] = mean.tolist()
    values["norm.running_var"] = variance.tolist()
    return {"optimizer": optimizer, "parts": parts, "losses": losses, "norms": norms, "values": values}


def main():
    cases = [run(optimizer, parts) for optimizer in OPTIMIZERS for parts in (1, 2, 3, 7)]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "accumulate.json")
    with open(path, "w") as f:
        lines = ",\n".join(json.dumps(case) for case in cases)
        f.write(f'{{"torch": "{torch.__version__}", "cases": [\n{lines}\n]}}\n')
    print(path)


main()
