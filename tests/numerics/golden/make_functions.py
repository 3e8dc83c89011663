#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes functions.json: PyTorch's values and gradients, in float64, of the losses and functions in
tests/harness/function_cases.def, which says how their operands are made, for test_functions.c.

    python3 tests/numerics/golden/make_functions.py        (PyTorch 2.4 or newer)

Of y and of each gradient of the sum of y times r, an operand g behind the others, are stored four inner products, as
make_ops.py says. `infinite` is a hash of what y's elements are, finite, infinite or NaN, with +inf and -inf in a few
elements of each operand in turn (tests/harness/special_values.c).
"""
import json
import math
import os
import re

import torch
from torch import nn
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


def blocks(labels, h, w):
    return labels.repeat_interleave(h, 1).repeat_interleave(w, 2)


def sure(x, labels):
    return x + x * x + 6 * F.one_hot(labels, x.shape[1]).movedim(-1, 1)


def planes(labels, classes, ignore):
    """One-hot [N, C, ..] without what is ignored."""
    return torch.stack([((labels == c) & (labels != ignore)).double() for c in range(classes)], 1)


def edge_dice(x, labels, ignore):
    """super-gradients' DiceCEEdgeLoss: edges are a dilation without an erosion."""
    n, classes = x.shape[:2]
    one_hot, counts = planes(labels, classes, ignore), labels != ignore
    framed, box = F.pad(one_hot, (2, 2, 2, 2), "replicate"), torch.ones(classes, 1, 5, 5)
    dilated = F.conv2d(framed, box, groups=classes).clamp(0, 1)
    eroded = 1 - F.conv2d(1 - framed, box, groups=classes).clamp(0, 1)
    edge = (dilated - eroded).amax(1) > 0
    each = F.cross_entropy(x, labels, ignore_index=ignore, reduction="none")
    entropy = 0.5 * each.mean() + (0.5 * each[edge].mean() if edge.any() else 0)
    q = torch.where(counts[:, None], x.softmax(1), 0)
    both, total = (q * one_hot).sum((0, 2, 3)), (q + one_hot).sum((0, 2, 3))
    return entropy + (1 - (2 * both + 1) / (total + 1e-5 + 1)).mean()


def ohem(x, labels, ignore=-100, threshold=0.7, least=0.0625):
    """super-gradients' OhemCELoss, but for means of nothing, which are 0 here."""
    each = F.cross_entropy(x, labels, ignore_index=ignore, reduction="none")[labels != ignore]
    if not each.numel():
        return 0 * x.nan_to_num(0, 0, 0).sum()
    bound, m = -math.log(threshold), min(int(least * each.numel()), each.numel() - 1)
    each = each.sort(descending=True).values
    kept = each[each > bound] if each[m] > bound else each[:m]
    return kept.mean() if kept.numel() else 0 * each.sum()


def detail(x, labels, ignore):
    """super-gradients' DetailLoss of STDC."""
    one_hot = planes(labels, 1 + int(labels.max()), ignore)
    laplacian = -torch.ones(one_hot.shape[1], 1, 3, 3)
    laplacian[:, :, 1, 1] = 8
    maps = []
    for stride in 1, 2, 4:
        edges = F.conv2d(one_hot, laplacian, stride=stride, padding=1, groups=one_hot.shape[1]).amax(1, keepdim=True)
        maps.append(F.interpolate((edges >= 1).double(), labels.shape[1:], mode="nearest"))
    t = F.conv2d(torch.cat(maps, 1), torch.tensor([0.6, 0.3, 0.1]).reshape(1, 3, 1, 1))
    t = (t > 0.3 - 1e-9).double()
    s = x.sigmoid()
    share = 1 - (2 * (s * t).sum() + 1) / ((s + t).sum() + 1e-5 + 1)
    return F.binary_cross_entropy_with_logits(x, t) + share


def last_counts(base, indices, updates):
    """Columns of updates in turn, each at its place: index_copy leaves the order open."""
    columns = list(base.unbind(1))
    for i, place in enumerate(indices.tolist()):
        columns[place] = updates[:, i]
    return torch.stack(columns, 1)


def square(x):
    return (x * x).sum()


def bottom_right(q, k, v):
    """Causal attention whose last query sees all keys; queries that see none give 0."""
    group = q.shape[1] // k.shape[1] if q.dim() > 3 else 1
    if group > 1:
        k, v = k.repeat_interleave(group, 1), v.repeat_interleave(group, 1)
    blind = max(q.shape[-2] - k.shape[-2], 0)
    q = q[..., blind:, :]
    mask = torch.ones(q.shape[-2], k.shape[-2], dtype=torch.bool).tril(k.shape[-2] - q.shape[-2])
    y = F.scaled_dot_product_attention(q, k, v, mask)
    return F.pad(y, (0, 0, blind, 0))


def later(n):
    return torch.ones(n, n, dtype=torch.bool).triu(1)


class GroupAttention(nn.Module):
    """Causal self-attention whose keys and values have fewer heads."""
    def __init__(self, width, heads, kv_heads):
        super().__init__()
        self.heads, self.kv_heads, rows = heads, kv_heads, width + 2 * kv_heads * (width // heads)
        self.in_proj_weight = nn.Parameter(torch.empty(rows, width))
        self.in_proj_bias = nn.Parameter(torch.empty(rows))
        self.out_proj = nn.Linear(width, width)

    def forward(self, x):
        heads = F.linear(x, self.in_proj_weight, self.in_proj_bias).unflatten(2, (self.heads + 2 * self.kv_heads, -1))
        q, k, v = heads.transpose(1, 2).split([self.heads, self.kv_heads, self.kv_heads], 1)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.out_proj(y.transpose(1, 2).flatten(2))


made = []  # layers' parameters with their names, in the case at hand


def layer(module, *x, **options):
    for name, p in module.named_parameters():
        name = "m." + name
        values = [element("g", 0, sum(map(ord, name)), e) / 4 for e in range(count(p.shape))]
        with torch.no_grad():
            p.copy_(torch.tensor(values).reshape(p.shape))
        made.append((name, p))
    return module(*x, **options)


def states(result):
    """All states of a recurrent layer side by side."""
    y, last = result
    return torch.cat([s.flatten() for s in (y, *(last if isinstance(last, tuple) else [last]))])


def linear_scan(a, b, dim):
    a, b = torch.broadcast_tensors(a, b)
    ys = []
    for f, g in zip(a.unbind(dim), b.unbind(dim)):
        ys.append(f * (ys[-1] if ys else 0) + g)
    return torch.stack(ys, dim)


def slope(y, x):
    return torch.autograd.grad((y * y).sum(), x, create_graph=True)[0]


def own_ctc(log_probs, targets, frames, labels):
    """As F.ctc_loss, which has no second derivative."""
    losses = []
    for n in range(len(frames)):
        states = [0]
        for label in targets[n, :labels[n]].tolist():
            states += [label, 0]
        alpha = [log_probs[0, n, s] for s in states[:2]]
        for t in range(1, frames[n]):
            ways = [[k for k in (s, s - 1, s - 2) if 0 <= k < len(alpha) and
                     (k > s - 2 or (states[s] != 0 and states[s] != states[k]))] for s in range(len(states))]
            last = max(s for s, w in enumerate(ways) if w)
            alpha = [torch.stack([alpha[k] for k in w]).logsumexp(0) + log_probs[t, n, states[s]]
                     for s, w in enumerate(ways[:last + 1])]
        ends = alpha[len(states) - 2:] if labels[n] else alpha[:1]
        losses.append(-torch.stack(ends).logsumexp(0) / max(labels[n], 1))
    return torch.stack(losses).mean()


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
        "k": step,
        "l": step,
    }.get(kind, 4 * f - 2)


def operand(i, text):
    kind, modulus, dims = re.fullmatch(r"(\w)(\d*)\[([\d,]*)\]", text).groups()
    shape = tuple(int(d) for d in dims.split(",") if d)
    values = [element(kind, int(modulus or 0), i, e) for e in range(count(shape))]
    integer = kind in "ikl"
    t = torch.tensor(values, dtype=torch.int64 if integer else torch.float64).reshape(shape)
    return t.requires_grad_(kind in "pubhvd")


def case(operands, expression):
    made.clear()
    x = [operand(i, text) for i, text in enumerate(operands.split())]
    y = eval(expression, {**globals(), "x": x})
    expected = {"y": projections(y.to(torch.float64))}
    if y.dtype == torch.float64:
        r = operand(len(x), "g[%s]" % ",".join(map(str, y.shape)))
        (y * r).sum().backward()
        params = [("x%d" % i, t) for i, t in enumerate(x) if t.requires_grad] + made
        for name, t in params:
            expected["grad." + name] = projections(t.grad if t.grad is not None else torch.zeros_like(t))
    return expected


def positions(n):
    return sorted({k * (n - 1) // 5 for k in range(6)} if n else ())


def infinite(operands, expression, which, value):
    """FNV-1a of n, +, - or . for each element of y, and of | behind each y."""
    text = ""
    for e in positions(operand(which, operands.split()[which]).numel()):
        made.clear()
        x = [operand(i, o) for i, o in enumerate(operands.split())]
        with torch.no_grad():
            x[which].view(-1)[e] = value
        y = eval(expression, {**globals(), "x": x})
        text += "".join("n" if v != v else "." if abs(v) < math.inf else "+" if v > 0 else "-"
                        for v in y.flatten().tolist()) + "|"
    h = 2166136261
    for c in text.encode():
        h = (h ^ c) * 16777619 % 2**32
    return h


# Where ours is otherwise: products with a padding, or with keys that a query does not see, are not made; and a product
# by 0 or by -inf is resolved one way or the other.
OTHERWISE = re.compile(r"bce(_weight|_saturated)?$|conv_|attention_|mha_|kl|ctc_|resize_bi|ohem|"
                       r"cumprod_slope|logaddexp_slope|pooled_|upsampled_|sided_|hessian_|few_keys_")


def infinities(name, operands, expression):
    """Of each operand of floats: with +inf and with -inf."""
    if OTHERWISE.match(name):
        return {}
    return {"x%d" % i: [infinite(operands, expression, i, v) for v in (math.inf, -math.inf)]
            for i, o in enumerate(operands.split()) if o[0] not in "ikl"}


def main():
    rows = open(os.path.join(HERE, "../../harness/function_cases.def")).read()
    pattern = r'^FUNCTION\((\w+), "([^"]*)", .*, "([^"]*)"\)$'
    found = re.findall(pattern, rows, re.M)
    assert len(found) == rows.count("\nFUNCTION(")
    with torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):  # it alone has second gradients
        cases = [(name, {**case(*rest), "infinite": infinities(name, *rest)}) for name, *rest in found]
        lines = [json.dumps(name) + ": " + json.dumps(expected) for name, expected in cases]
    with open(os.path.join(HERE, "functions.json"), "w") as f:
        f.write("{\n" + ",\n".join(lines) + "\n}\n")


if __name__ == "__main__":
    main()
