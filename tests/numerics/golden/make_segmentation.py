#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes what tests/numerics/test_segmentation.c compares with: five training steps of the networks of segmentation.py
in PyTorch, in float64.

    python3 tests/numerics/golden/make_segmentation.py               the suite's, segmentation.json
    python3 tests/numerics/golden/make_segmentation.py all.json      all networks in two sizes; by hand, with
                                                                     TCC_SEGMENTATION=all.json test_segmentation

The numbers that go in are made (segmentation.py), so nothing but results is stored: of each tensor its norm and four
inner products, as make_ops.py says. Those of the logits of each head, of each gradient of the first step, and of each
parameter and running statistic after the last; the loss of each step. `float32` is how far PyTorch's own float32 is
from these: the largest distance of any product of a kind, over the norm.
"""
import json
import os
import sys

import torch
import torch.nn.functional as F

import segmentation
from make_functions import detail, edge_dice, ohem
from make_ops import projections

HERE = os.path.dirname(os.path.abspath(__file__))
CLASSES, IGNORED, STEPS, RATE = 5, 5, 5, 0.01
SUITE = [("pp_liteseg_t", (3, 32, 64)), ("segformer_b0", (2, 32, 64))]
ALL = [(name, size) for name in segmentation.NETWORKS for size in ((4, 64, 64), (3, 64, 128))]


def mean_entropy(x, labels, ignore):
    return F.cross_entropy(x, labels, ignore_index=ignore)


def loss_of(name, heads, labels):
    kind, weights = segmentation.loss_of(name)
    each = {"edge_dice": edge_dice, "ohem": ohem, "cross_entropy": mean_entropy}[kind]
    loss = sum(w * each(h, labels, IGNORED) for w, h in zip(weights, heads))
    return loss + detail(heads[3], labels, IGNORED) if kind == "ohem" else loss


def summary(t):
    return [t.double().norm().item(), *projections(t.double())]


def run(name, size, dtype):
    net, (x, labels) = segmentation.NETWORKS[name](CLASSES), segmentation.batch(*size, CLASSES)
    segmentation.begin(net)
    net, x = net.to(dtype), x.float().to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), RATE, 0.9, weight_decay=5e-4)
    found = {"logits": {}, "gradients": {}, "parameters": {}, "losses": []}
    for step in range(STEPS):
        optimizer.zero_grad()
        heads = net(x)
        loss = loss_of(name, heads, labels)
        loss.backward()
        if not step:
            found["logits"] = {str(i): summary(h.detach()) for i, h in enumerate(heads)}
            found["gradients"] = {key: summary(p.grad) for key, p in net.named_parameters()}
        found["losses"].append(loss.item())
        optimizer.step()
    found["parameters"] = {key: summary(t) for key, t in net.state_dict().items() if not key.endswith("tracked")}
    return found


def distance(a, b):
    """The largest of the products of two kinds of tensors, over the norm of the first; a gradient that is 0 but for
    rounding has the size of others."""
    largest = max(t[0] for t in a.values())
    return max(max(abs(p - q) for p, q in zip(t[1:], b[key][1:])) / (t[0] + 1e-4 * largest) for key, t in a.items())


def case(name, size):
    found, narrow = run(name, size, torch.float64), run(name, size, torch.float32)
    kinds = ("logits", "gradients", "parameters")
    errors = {kind: distance(found[kind], narrow[kind]) for kind in kinds}
    errors["losses"] = max(abs(a - b) / abs(a) for a, b in zip(found["losses"], narrow["losses"]))
    return {"network": name, "size": size, "classes": CLASSES, "ignored": IGNORED, "rate": RATE, **found,
            "float32": errors}


def rounded(x):
    if isinstance(x, float):
        return float("%.12g" % x)
    if isinstance(x, dict):
        return {key: rounded(v) for key, v in x.items()}
    return [rounded(v) for v in x] if isinstance(x, (list, tuple)) else x


def main():
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS", "2")))
    path, cases = (sys.argv[1], ALL) if len(sys.argv) > 1 else (os.path.join(HERE, "segmentation.json"), SUITE)
    made = []
    for name, size in cases:
        made.append(rounded(case(name, size)))
        print(name, size, made[-1]["losses"], made[-1]["float32"], flush=True)
    with open(path, "w") as f:
        f.write("[\n" + ",\n".join(json.dumps(c) for c in made) + "\n]\n")


if __name__ == "__main__":
    main()
