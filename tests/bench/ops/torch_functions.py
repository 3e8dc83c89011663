# SPDX-License-Identifier: MIT
"""What PyTorch has no function for, as its users write it: for rows of ops.def."""
import math

import torch
import torch.nn.functional as F


def dice(x, t):
    x, t = x.flatten(2), t.flatten(2)
    return (1 - (2 * (x * t).sum(2) + 1e-5) / (x.sum(2) + t.sum(2) + 1e-5)).mean()


def jaccard(x, t):
    x, t = x.flatten(2), t.flatten(2)
    both = (x * t).sum(2)
    return (1 - (both + 1e-5) / (x.sum(2) + t.sum(2) - both + 1e-5)).mean()


def edges(labels, k):
    """Whether the labels around a pixel differ."""
    number = labels[:, None].float()
    return F.max_pool2d(number, k, 1, k // 2) != -F.max_pool2d(-number, k, 1, k // 2)


def edge_dice(x, labels):
    each, edge = F.cross_entropy(x, labels, reduction="none"), edges(labels, 5)[:, 0]
    q, ones = x.softmax(1), F.one_hot(labels, x.shape[1]).movedim(-1, 1).to(x.dtype)
    both, total = (q * ones).sum((0, 2, 3)), (q + ones).sum((0, 2, 3))
    entropy = 0.5 * each.mean() + 0.5 * (each * edge).sum() / edge.sum().clamp(1)
    return entropy + (1 - (2 * both + 1) / (total + 1 + 1e-5)).mean()


def ohem(x, labels):
    each = F.cross_entropy(x, labels, reduction="none").flatten()
    bound, m = -math.log(0.7), each.numel() // 16
    least = each.detach().float().kthvalue(each.numel() - m).values
    return each[each > min(float(least), bound)].mean()


def detail(x, labels):
    fine = edges(labels, 3).to(x.dtype)
    t = torch.maximum(fine, F.interpolate(fine[:, :, ::2, ::2], scale_factor=2))
    s = x.sigmoid()
    share = 1 - (2 * (s * t).sum() + 1) / ((s + t).sum() + 1 + 1e-5)
    return F.binary_cross_entropy_with_logits(x, t) + share


def linear_scan(a, b):
    ys = []
    for f, g in zip(a.unbind(1), b.unbind(1)):
        ys.append(f * ys[-1] + g if ys else g)
    return torch.stack(ys, 1)
