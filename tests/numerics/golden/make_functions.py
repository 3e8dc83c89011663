#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes functions.json: PyTorch's values and gradients, in float64, of the losses and functions in
tests/harness/function_cases.def, which says how their operands are made, for test_functions.c.

    python3 tests/numerics/golden/make_functions.py        (PyTorch 2.4 or newer)

Of y and of each gradient of the sum of y times r, an operand g behind the others, are stored four inner products, as
make_ops.py says.
"""
import json
import math
import os
import re

import torch
import torch.nn.functional as F

import second_order
from make_ops import count, projections

HERE = os.path.dirname(os.path.abspath(__file__))
torch.set_default_dtype(torch.float64)


def bounded_bce(x, t):
    """As PyTorch's, but for slopes at 0 and 1: there it divides by float32's 1e-12, and by that even where x is t."""
    def log(z):
        return torch.where(z == 0, 1e12 * z - 100, torch.log(torch.where(z == 0, 1, z)))
    y = -(t * log(x) + (1 - t) * log(1 - x))
    assert torch.equal(y, F.binary_cross_entropy(x, t, reduction="none"))
    return y


def dice(x, t, eps=1e-5):
    x, t = x.flatten(2), t.flatten(2)
    return 1 - (2 * (x * t).sum(2) + eps) / (x.sum(2) + t.sum(2) + eps)


def jaccard(x, t, eps=1e-5):
    x, t = x.flatten(2), t.flatten(2)
    both = (x * t).sum(2)
    return 1 - (both + eps) / (x.sum(2) + t.sum(2) - both + eps)


def last_counts(base, indices, updates):
    """Columns of updates in turn, each at its place: index_copy leaves the order open."""
    columns = list(base.unbind(1))
    for i, place in enumerate(indices.tolist()):
        columns[place] = updates[:, i]
    return torch.stack(columns, 1)


def element(kind, modulus, i, e):
    if kind == "v":
        e //= 2
    f = math.fmod((e + 1) * 0.6180339887498949 + 0.37 * i, 1)
    step = (7 * e + 3) % (modulus or 5)
    return {
        "u": f,
        "w": f,
        "b": [0, 1, 0, 0.5][e % 4],
        "h": [0, 90, -90, 1e4, -1e4, 1][e % 6],
        "q": step % 2,
        "s": 1 if step % 2 else -1,
        "i": step,
        "l": step,
    }.get(kind, 4 * f - 2)


def operand(i, text):
    kind, modulus, dims = re.fullmatch(r"(\w)(\d*)\[([\d,]*)\]", text).groups()
    shape = tuple(int(d) for d in dims.split(",") if d)
    values = [element(kind, int(modulus or 0), i, e) for e in range(count(shape))]
    integer = kind in "il"
    t = torch.tensor(values, dtype=torch.int64 if integer else torch.float64).reshape(shape)
    return t.requires_grad_(kind in "pubhvd")


def case(operands, expression):
    x = [operand(i, text) for i, text in enumerate(operands.split())]
    y = eval(expression, {**globals(), "x": x})
    expected = {"y": projections(y.to(torch.float64))}
    if y.dtype == torch.float64:
        r = operand(len(x), "g[%s]" % ",".join(map(str, y.shape)))
        (y * r).sum().backward()
        for i, t in enumerate(x):
            if t.requires_grad:
                expected["grad.x%d" % i] = projections(t.grad if t.grad is not None else torch.zeros_like(t))
    return expected


def main():
    rows = open(os.path.join(HERE, "../../harness/function_cases.def")).read()
    pattern = r'^FUNCTION\((\w+), "([^"]*)", .*, "([^"]*)"\)$'
    found = re.findall(pattern, rows, re.M)
    assert len(found) == rows.count("\nFUNCTION(")
    lines = [json.dumps(name) + ": " + json.dumps(case(*rest)) for name, *rest in found]
    with open(os.path.join(HERE, "functions.json"), "w") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
