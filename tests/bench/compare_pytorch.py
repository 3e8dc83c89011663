#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Random users' programs in PyTorch, in float64, beside our interpreter and our default mode.

    python3 -m venv venv && venv/bin/pip install torch numpy
    cmake --build build --target campaign
    venv/bin/python tests/bench/compare_pytorch.py build/bin/campaign FIRST_SEED COUNT

Each program trains for three steps from the same state on the same batches. Compared are outputs, losses and gradients
of each step and all parameters and buffers after the last. An element may differ by 24 times its noise, which the
interpreter measures by disturbing its own roundings. No part of the test run: PyTorch is another program, not the
truth. Known of PyTorch 2.15: on a CPU, the backward of batch norm is wrong for gradients that are not contiguous; they
are made contiguous here."""
import json
import math
import subprocess
import sys

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)
torch.set_num_threads(1)
TYPES = {"f64": torch.float64, "f32": torch.float64, "f16": torch.float64, "bf16": torch.float64, "i64": torch.int64,
         "i32": torch.int32, "u8": torch.uint8, "bool": torch.bool}
NARROW = {"f16": torch.float16, "bf16": torch.bfloat16}
ALLOWED = 24
HALF_UNIT = {"f64": 2.0**-53, "f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8}


def rounded(x, dtype):
    """To the element type and back; float32 is what rounds a double on its way to anything narrower but by itself."""
    if dtype in NARROW:
        return x.to(NARROW[dtype]).double()
    return x.float().double() if dtype == "f32" else x


class Cast(torch.autograd.Function):
    """A cast rounds forward to its type, backward to its operand's."""

    @staticmethod
    def forward(ctx, x, source, target):
        ctx.source, ctx.target = source, target
        return rounded(x, target)

    @staticmethod
    def backward(ctx, dy):
        return (dy if ctx.source == "f64" else rounded(dy, ctx.source)), None, None


class Contiguous(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, dy):
        return dy.contiguous()


def is_float(x):
    return x.dtype == torch.float64


def cast(x, source, target):
    if target in HALF_UNIT:
        return Cast.apply(x, source, target) if is_float(x) else rounded(x.double(), target)
    if target == "bool":
        return x != 0
    if is_float(x):
        x = torch.nan_to_num(x.detach(), nan=0.0, posinf=2e18, neginf=-2e18)
        low, high = {"i32": (-2**31, 2**31 - 1), "u8": (0, 255), "i64": (-2**63, 2**63 - 1025)}[target]
        x = x.trunc().clamp(low, high)
    return x.to(TYPES[target])


def axes_of(x, ints):
    return tuple(ints) if ints else tuple(range(x.dim()))


def reduce(op, x, ints):
    axes = axes_of(x, ints)
    if not axes:
        return x
    if op == "sum":
        return x.sum(axes) if is_float(x) else x.sum(axes).to(x.dtype)
    if op == "mean":
        return x.mean(axes)
    if op == "var":
        return x.var(axes, correction=0)
    if op == "logsumexp":
        return x.logsumexp(axes)
    return x.amax(axes) if op == "reduce_max" else x.amin(axes)


def border(op, x, axis, before, after):
    """Elements of x along an axis and of borders on both sides."""
    n = x.shape[axis]
    where = torch.arange(-before, n + after)
    if op == "pad_replicate":
        where = where.clamp(0, n - 1)
    elif op == "pad_wrap":
        where = where % n
    else:
        where = (n - 1) - ((n - 1) - where.abs()).abs()
    return x.index_select(axis, where)


def inside(i, extent):
    return (i >= 0) & (i < extent), i.long().clamp(0, max(extent - 1, 0))


def take(x, i, axis):
    good, safe = inside(i, x.shape[axis])
    shape = list(x.shape[:axis]) + list(i.shape) + list(x.shape[axis + 1:])
    y = x.index_select(axis, safe.reshape(-1)).reshape(shape)
    good = good.reshape([1] * axis + list(i.shape) + [1] * (x.dim() - axis - 1))
    return torch.where(good, y, torch.zeros((), dtype=y.dtype))


def take_along(x, i, axis):
    good, safe = inside(i, x.shape[axis])
    shape = [i.shape[d] if d == axis else x.shape[d] for d in range(x.dim())]
    y = torch.gather(x, axis, safe.expand(shape))
    return torch.where(good, y, torch.zeros((), dtype=y.dtype))


def scatter_add(base, i, u, axis):
    good, safe = inside(i, base.shape[axis])
    shape = list(base.shape)
    shape[axis] = i.numel()
    u = torch.where(good.reshape([1] * axis + list(i.shape) + [1] * (base.dim() - axis - 1)), u,
                    torch.zeros((), dtype=u.dtype))
    return base.index_add(axis, safe.reshape(-1), u.reshape(shape))


def scatter_extreme(op, base, i, u, axis):
    good, safe = inside(i, base.shape[axis])
    if not good.all():  # what is out of range goes to a place of its own
        base = torch.cat([base, base.narrow(axis, 0, 1)], axis)
        safe = torch.where(good, safe, base.shape[axis] - 1)
    y = base.index_reduce(axis, safe.reshape(-1), u, "amax" if op == "scatter_max" else "amin")
    return y if good.all() else y.narrow(axis, 0, base.shape[axis] - 1)


def scatter_last(base, i, u, axis):
    """Of updates of one place the last counts; PyTorch does not say which."""
    y = base
    for j, at in enumerate(i.reshape(-1).tolist()):
        if 0 <= at < base.shape[axis]:
            y = y.index_copy(axis, torch.tensor([at]), u.narrow(axis, j, 1))
    return y


def scatter_along(op, base, i, u, axis):
    good, safe = inside(i, base.shape[axis])
    good, safe, y = good.expand(u.shape), safe.expand(u.shape), base
    for j in range(u.shape[axis]):
        at, value = safe.narrow(axis, j, 1), u.narrow(axis, j, 1)
        old = y.gather(axis, at)
        value = old + value if op == "scatter_add_along" else value
        y = y.scatter(axis, at, torch.where(good.narrow(axis, j, 1), value, old))
    return y


def linear_scan(a, b, axis):
    a, b = torch.broadcast_tensors(a, b)
    y = []
    for i in range(b.shape[axis]):
        y.append(a.select(axis, i) * (y[-1] if y else 0) + b.select(axis, i))
    return torch.stack(y, axis)


def product(x, axes):
    for axis in sorted((a % x.dim() for a in axes), reverse=True):
        x = x.prod(axis)
    return x


def spatial(x):
    return x.dim() - 2


def conv(x, w, bias, stride, padding, dilation, groups):
    f = [F.conv1d, F.conv2d, F.conv3d][spatial(x) - 1]
    return f(x, w, bias, stride or 1, padding, dilation or 1, groups or 1)


def each(x, value, first):
    """An option for each spatial dim: `first` for the first one, if it is not 0."""
    return [first or value] + [value] * (spatial(x) - 1)


def sided(x, before, after, value=0):
    return F.pad(x, [n for sides in zip(reversed(before), reversed(after)) for n in sides], value=value)


def conv_same(x, w, stride, dilation):
    before, after = [], []
    for n, k, s, d in zip(x.shape[2:], w.shape[2:], stride, dilation):
        total = max((n - 1) // s * s + d * (k - 1) + 1 - n, 0)
        before.append(total // 2)
        after.append(total - total // 2)
    return conv(sided(x, before, after), w, None, stride, 0, dilation, 1)


def conv_transpose(x, w, bias, stride, before, after, dilation, more, groups):
    """Without padding; what it cuts off is sliced."""
    f = [F.conv_transpose1d, F.conv_transpose2d, F.conv_transpose3d][spatial(x) - 1]
    y = f(x, w, None, stride, 0, more, groups, dilation)
    for d in range(spatial(x)):
        y = y.narrow(2 + d, before[d], y.shape[2 + d] - before[d] - after[d])
    return y if bias is None else y + bias.reshape([-1] + [1] * spatial(x))


def pool_each(op, x, window, stride, before, after, ceil, exclude):
    """Windows that reach beyond the padding see more of it, which averages do not count."""
    counted = torch.ones_like(x[:1, :1])
    counted = sided(counted, before, after, 0 if exclude else 1)
    x = sided(x, before, after, -math.inf if op == "max_pool_each" else 0)
    beyond = [0] * spatial(x)
    for d, (w, s) in enumerate(zip(window, stride)):
        n = x.shape[2 + d]
        count = (n - w + (s - 1 if ceil else 0)) // s + 1
        if ceil and (count - 1) * s >= n - after[d]:
            count -= 1
        beyond[d] = max((count - 1) * s + w - n, 0)
    none = [0] * spatial(x)
    n = spatial(x) - 1
    if op == "max_pool_each":
        return [F.max_pool1d, F.max_pool2d, F.max_pool3d][n](sided(x, none, beyond, -math.inf), window, stride)
    mean = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][n]
    return mean(sided(x, none, beyond), window, stride) / mean(sided(counted, none, beyond), window, stride)


def resize_nearest(x, align, sizes):
    for d, out in enumerate(sizes):
        n = x.shape[2 + d]
        if align:
            where = [0 if out == 1 else (2 * o * (n - 1) + out - 1) // (2 * (out - 1)) for o in range(out)]
        else:
            where = [o * n // out for o in range(out)]
        x = x.index_select(2 + d, torch.tensor(where))
    return x


def attention(q, k, v, mask, causal, scale):
    scores = q @ k.transpose(-1, -2) * (scale or 1 / math.sqrt(q.shape[-1]))
    rows, columns = scores.shape[-2:]
    hidden = torch.zeros(rows, columns, dtype=torch.bool)
    if causal:
        hidden = torch.arange(columns) > torch.arange(rows)[:, None] + columns - rows
    if mask is not None and mask.dtype == torch.bool:
        hidden = hidden | ~mask
    elif mask is not None:
        scores = scores + mask
    scores = scores.masked_fill(hidden, -math.inf)
    none = (scores == -math.inf).all(-1, keepdim=True)
    return torch.softmax(scores.masked_fill(none, 0), -1).masked_fill(none, 0) @ v


def cross_entropy(logits, targets, weight, ignore, smoothing):
    classes = logits.shape[-1]
    t = targets.reshape(-1).long()
    stray = ((t < 0) | (t >= classes)) & (t != ignore)
    if stray.any():
        return logits.sum() * math.nan
    return F.cross_entropy(logits.reshape(-1, classes), t, weight, ignore_index=ignore, label_smoothing=smoothing)


POINT = {"neg": torch.neg, "abs": torch.abs, "sign": torch.sign, "exp": torch.exp, "expm1": torch.expm1,
         "log": torch.log, "log1p": torch.log1p, "sqrt": torch.sqrt, "rsqrt": torch.rsqrt, "sin": torch.sin,
         "cos": torch.cos, "tanh": torch.tanh, "sigmoid": torch.sigmoid, "erf": torch.erf, "floor": torch.floor,
         "ceil": torch.ceil, "round": torch.round, "isfinite": torch.isfinite, "relu": torch.relu, "gelu": F.gelu,
         "silu": F.silu, "not": torch.bitwise_not, "and": torch.bitwise_and, "or": torch.bitwise_or,
         "xor": torch.bitwise_xor, "shift_left": torch.bitwise_left_shift, "shift_right": torch.bitwise_right_shift,
         "add": torch.add, "sub": torch.sub, "mul": torch.mul, "pow": torch.pow, "atan": torch.atan,
         "eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge,
         "max": torch.maximum, "min": torch.minimum, "matmul": torch.matmul, "mse_loss": F.mse_loss,
         "l1_loss": F.l1_loss, "smooth_l1_loss": F.smooth_l1_loss, "huber_loss": F.huber_loss,
         "atan": torch.atan, "asin": torch.asin, "sinh": torch.sinh, "cosh": torch.cosh, "selu": F.selu,
         "log_sigmoid": F.logsigmoid, "softsign": F.softsign, "hardsigmoid": F.hardsigmoid, "square": torch.square,
         "trunc": torch.trunc, "atan2": torch.atan2, "logaddexp": torch.logaddexp, "relu6": F.relu6,
         "hardswish": F.hardswish, "mish": F.mish,
         "bce_with_logits": F.binary_cross_entropy_with_logits, "select": torch.where,
         "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"), "softplus": lambda x: F.softplus(x, threshold=1e3)}


def divide(op, a, b):
    if is_float(a):
        return a / b if op == "div" else torch.fmod(a, b)
    safe = torch.where(b == 0, torch.ones_like(b), b)
    y = torch.div(a, safe, rounding_mode="trunc") if op == "div" else torch.fmod(a, safe)
    return torch.where(b == 0, torch.zeros_like(y), y)


class Model:
    def __init__(self, program):
        self.program = program
        self.stored = {}
        for name, s in program["initial"].items():
            self.stored[name] = torch.tensor(s["values"], dtype=torch.float64).reshape(s["dims"])
            self.stored[name].requires_grad_(s["trained"])
        self.trained = [n for n, s in program["initial"].items() if s["trained"]]

    def batch_norm(self, x, s):
        name, no_bias, no_affine = s["name"], s["ints"][0], s["ints"][1]
        mean, var = self.stored[name + ".running_mean"], self.stored[name + ".running_var"]
        weight = None if no_affine else self.stored[name + ".weight"]
        bias = None if no_affine or no_bias else self.stored[name + ".bias"]
        with torch.no_grad():
            axes, n = [d for d in range(x.dim()) if d != 1], x.numel() / x.shape[1]
            self.next[name + ".running_mean"] = 0.9 * mean + 0.1 * x.mean(axes)
            unbiased = x.var(axes, unbiased=False) * (n / (n - 1) if n > 1 else 1)
            self.next[name + ".running_var"] = 0.9 * var + 0.1 * unbiased
        if x.numel() == x.shape[1]:  # PyTorch refuses one value a channel
            y = x - x
            y = y if weight is None else y * weight.reshape([-1] + [1] * (x.dim() - 2))
            return y if bias is None else y + bias.reshape([-1] + [1] * (x.dim() - 2))
        return Contiguous.apply(F.batch_norm(x.contiguous(), None, None, weight, bias, True))

    def layer(self, s, x):
        op, name, ints = s["op"], s["name"], s["ints"]
        get = lambda part: self.stored.get(f"{name}.{part}")
        if op == "linear":
            return F.linear(x, get("weight"), None if ints[1] else get("bias"))
        if op == "conv_layer":
            return conv(x, get("weight"), None if ints[6] else get("bias"), *ints[2:6])
        if op == "conv_layer_each":
            x = sided(x, each(x, ints[5], ints[6]), each(x, ints[5], 0))
            return conv(x, get("weight"), get("bias"), each(x, *ints[3:5]), 0, each(x, *ints[7:9]), ints[9])
        if op == "conv_transpose_layer":
            more = each(x, 0, ints[8])
            return conv_transpose(x, get("weight"), get("bias"), each(x, *ints[3:5]), each(x, *ints[5:7]),
                                  each(x, ints[5], 0), each(x, ints[7], 0), more, ints[9])
        if op == "embedding":
            weight, padding = get("weight"), ints[3] % ints[0]
            if ints[2] or ints[3]:  # that row has no gradient
                alone = torch.arange(ints[0]).reshape(-1, 1) == padding
                weight = torch.where(alone, weight.detach(), weight)
            return take(weight, x, 0)
        if op == "batch_norm":
            return self.batch_norm(x, s)
        weight, bias = (None, None) if ints[1] else (get("weight"), get("bias"))
        if op == "group_norm":  # PyTorch refuses one value a group
            alone = x.numel() == x.shape[0] * ints[2]
            y = x - x if alone else F.group_norm(x, ints[2])
            by_channel = [-1] + [1] * (x.dim() - 2)
            y = y if weight is None else y * weight.reshape(by_channel)
            return y if bias is None else y + bias.reshape(by_channel)
        if op == "rms_norm":
            return F.rms_norm(x, x.shape[-1:], weight, 1e-5)
        return F.layer_norm(x, x.shape[-1:], weight, bias)

    def window(self, s, a):
        op, i, x = s["op"], s["ints"], a[0]
        n = spatial(x)
        if op == "conv":
            return conv(x, a[1], None, *i[:4])
        if op == "conv_same":
            return conv_same(x, a[1], each(x, *i[:2]), each(x, i[2], 0))
        if op == "conv_transpose":
            return conv_transpose(x, a[1], None, each(x, *i[:2]), each(x, i[2], 0), each(x, *i[2:4]),
                                  each(x, i[4], 0), each(x, 0, i[6]), i[5])
        if op in ("max_pool_each", "avg_pool_each"):
            window = each(x, *i[:2])
            stride = [s or w for s, w in zip(each(x, *i[2:4]), window)]
            return pool_each(op, x, window, stride, each(x, *i[4:6]), each(x, i[4], 0), i[6], len(i) > 7 and i[7])
        if op == "max_pool":
            return [F.max_pool1d, F.max_pool2d, F.max_pool3d][n - 1](x, i[0], i[1] or i[0], i[2])
        if op == "avg_pool":
            f = [F.avg_pool1d, F.avg_pool2d, F.avg_pool3d][n - 1]
            return f(x, i[0], i[1] or i[0], i[2], count_include_pad=not i[3])
        if op == "adaptive_avg_pool":
            return [F.adaptive_avg_pool1d, F.adaptive_avg_pool2d, F.adaptive_avg_pool3d][n - 1](x, i if n > 1 else i[0])
        if op == "resize_nearest":
            return resize_nearest(x, i[0], i[1:])
        mode = ["linear", "bilinear", "trilinear"][n - 1]
        return F.interpolate(x, size=i[1:], mode=mode, align_corners=bool(i[0]))

    def shape(self, s, a):
        op, i, x = s["op"], s["ints"], a[0]
        if op in ("reshape", "flatten"):
            return x.reshape(s["dims"])
        if op == "transpose":
            return x.permute(i)
        if op == "broadcast":
            return x.expand(s["dims"])
        if op == "slice":
            return x[(slice(None),) * (i[0] % x.dim()) + (slice(i[1], i[2], i[3]),)]
        if op == "pad":
            axis = i[0] % x.dim()
            full = lambda n: torch.full(list(x.shape[:axis]) + [n] + list(x.shape[axis + 1:]), s["real"]).to(x.dtype)
            return torch.cat([full(i[1]), x, full(i[2])], axis)
        if op == "concat":
            return torch.cat(a, i[0])
        if op in ("pad_reflect", "pad_replicate", "pad_wrap"):
            return border(op, a[0], *i[:3])
        if op == "roll":
            return a[0].roll(i[1], i[0])
        if op in ("tril", "triu"):
            return getattr(a[0], op)(i[0])
        if op == "flip":
            return x.flip(i[0])
        if op == "take":
            return take(x, a[1], i[0] % x.dim())
        if op == "take_along":
            return take_along(x, a[1], i[0] % x.dim())
        if op == "scatter_add":
            return scatter_add(x, a[1], a[2], i[0] % x.dim())
        if op in ("scatter_max", "scatter_min"):
            return scatter_extreme(op, x, a[1], a[2], i[0] % x.dim())
        if op == "scatter":
            return scatter_last(x, a[1], a[2], i[0] % x.dim())
        if op in ("scatter_along", "scatter_add_along"):
            return scatter_along(op, x, a[1], a[2], i[0] % x.dim())
        if op == "sort":
            return x.sort(dim=i[0], descending=bool(i[1]), stable=True).values
        if op == "top_k":
            return x.sort(dim=i[0], descending=True, stable=True).values.narrow(i[0], 0, i[1])
        if op == "repeat":
            return x.repeat(i)
        if op == "searchsorted":
            return torch.searchsorted(x.detach(), a[1].detach().contiguous(), right=bool(i[0])).to(torch.int32)
        if op == "swap_axes":
            return x.transpose(i[0], i[1])
        if op == "diagonal":
            return x.diagonal(i[0], -2, -1)
        if op == "diff":
            return x.diff(dim=i[0])
        if op in ("keep_mean", "keep_max"):
            return x.mean(i, keepdim=True) if op == "keep_mean" else x.amax(i, keepdim=True)
        if op == "prod":
            return product(x, i)
        if op == "cumprod":
            return x.cumprod(i[0])
        if op == "linear_scan":
            return linear_scan(x, a[1], i[0])
        if op in ("cummax", "cummin"):
            return getattr(x, op)(i[0]).values
        if op == "normalize":
            return F.normalize(x, dim=i[0])
        if op == "cdist":
            return torch.cdist(x, a[1], p=s["real"], compute_mode="donot_use_mm_for_euclid_dist")
        if op == "argmax":  # NumPy's is the first maximum, or the first NaN
            return torch.from_numpy(x.detach().numpy().argmax(i[0])).to(torch.int32).reshape(s["dims"])
        if op == "cumsum":
            return x.cumsum(i[0]).to(x.dtype)
        if op in ("softmax", "log_softmax"):
            return getattr(torch, op)(x, i[0])
        raise NotImplementedError(op)

    def leaf(self, s, batch):
        op, i = s["op"], s["ints"]
        if op == "input":
            b = batch[s["name"]]
            return torch.tensor(b["values"], dtype=TYPES[b["dtype"]]).reshape(b["dims"])
        if op in ("param", "state"):
            return self.stored[s["name"]]
        if op == "constant":
            return rounded(torch.full(s["dims"], s["real"]), s["dtype"]).to(TYPES[s["dtype"]])
        if op == "literal":
            values = torch.tensor(s["values"], dtype=torch.float64)
            return rounded(values, s["dtype"]).to(TYPES[s["dtype"]]).reshape(s["dims"])
        shape = [1] * len(s["dims"])
        shape[i[1]] = s["dims"][i[1]]
        return torch.arange(shape[i[1]]).reshape(shape).expand(s["dims"]).to(TYPES[s["dtype"]])

    def apply(self, s, a, types, batch):
        op, i, real = s["op"], s["ints"], s["real"]
        if op in ("input", "param", "state", "constant", "literal", "iota"):
            return self.leaf(s, batch)
        if op in ("div", "rem"):
            return divide(op, *a)
        if op in POINT:
            return POINT[op](*a)
        if op == "leaky_relu":
            return F.leaky_relu(a[0], real)
        if op == "cast":
            return cast(a[0], types[s["args"][0]], s["dtype"])
        if op in ("add_scalar", "scale"):
            c = real if is_float(a[0]) else int(real)
            return a[0] + c if op == "add_scalar" else a[0] * c
        if op in ("sum", "mean", "reduce_max", "reduce_min", "var", "logsumexp"):
            return reduce(op, a[0], i)
        if op in ("attention", "attention_masked"):
            return attention(a[0], a[1], a[2], a[3] if len(a) > 3 else None, i[0], real)
        if op == "ctc_loss":
            return F.ctc_loss(a[0], a[1].long(), a[2].long(), a[3].long(), zero_infinity=True)
        if op.startswith("cross_entropy"):
            return cross_entropy(a[0], a[1], a[2] if len(a) > 2 else None, i[1] if i[0] else -100, real)
        if op in ("linear", "conv_layer", "conv_layer_each", "conv_transpose_layer", "embedding", "batch_norm",
                  "group_norm", "layer_norm", "rms_norm"):
            return self.layer(s, a[0])
        if op in ("conv", "conv_same", "conv_transpose", "max_pool", "avg_pool", "max_pool_each", "avg_pool_each",
                  "adaptive_avg_pool", "resize_nearest", "resize_bilinear"):
            return self.window(s, a)
        return self.shape(s, a)

    def step(self, batch, optimizer):
        """One training step; what can be observed of it."""
        values, types, seen, loss, self.next = [], [], {}, None, {}
        for s in self.program["steps"]:
            a = [values[k] for k in s["args"]]
            y = a[0] if s["op"] in ("update", "output", "loss") else self.apply(s, a, types, batch)
            values.append(y)
            types.append(s["dtype"])
            if s["op"] == "update":
                self.next[self.program["steps"][s["args"][0]]["name"]] = a[1].detach().contiguous()
            elif s["op"] == "output":
                seen[s["name"]] = y.detach().clone()
            elif s["op"] == "loss":
                loss = seen["loss"] = y
        parameters = [self.stored[n] for n in self.trained]
        grads = torch.autograd.grad(loss, parameters, allow_unused=True) if parameters and loss.requires_grad else []
        for name, p, g in zip(self.trained, parameters, grads or [None] * len(parameters)):
            p.grad = torch.zeros_like(p) if g is None else torch.empty(p.shape).copy_(g)
            seen["grad." + name] = p.grad.clone()
        if optimizer["clip"] and parameters:
            torch.nn.utils.clip_grad_norm_(parameters, optimizer["clip"])
        if parameters:
            self.optimizer(optimizer).step()
        with torch.no_grad():
            for name, y in self.next.items():
                self.stored[name] = torch.empty(y.shape).copy_(y)
            for name in self.stored:  # they are stored in float32
                self.stored[name].copy_(self.stored[name].float().double())
        return seen

    def optimizer(self, o):
        if getattr(self, "made", None):
            return self.made
        decay = [{"params": [self.stored[n] for n in self.trained if (self.stored[n].dim() >= 2) == matrices],
                  "weight_decay": o["weight_decay"] if matrices or o["decay_all"] else 0.0}
                 for matrices in (True, False)]
        decay = [g for g in decay if g["params"]]
        if o["kind"] == 0:
            self.made = torch.optim.SGD(decay, lr=o["lr"] or 0.1, momentum=o["momentum"], nesterov=o["nesterov"])
        else:
            self.made = [None, torch.optim.Adam, torch.optim.AdamW][o["kind"]](decay, lr=o["lr"] or 1e-3)
        return self.made


def differs(e, got):
    want = torch.tensor(e["values"], dtype=torch.float64)
    have = got.detach().reshape(-1).double()
    if have.shape != want.shape:
        return f"shape {list(got.shape)} instead of {e['dims']}"
    closed = ~torch.tensor(e["open"], dtype=torch.bool)
    noise = torch.tensor(e["noise"], dtype=torch.float64)
    usual = math.sqrt(float((noise * noise).sum()) / max(noise.numel(), 1))
    if e["dtype"] in HALF_UNIT:
        allowed = ALLOWED * noise.clamp(min=usual) + 2 * HALF_UNIT[e["dtype"]] * want.abs() + 1e-44
    else:
        allowed = torch.zeros_like(want)
    same = (have == want) | (have.isnan() & want.isnan()) | ((have - want).abs() <= allowed)
    wrong = (closed & ~same).nonzero().reshape(-1)
    if not wrong.numel():
        return None
    k = int(wrong[0])
    return f"[{k}] and {wrong.numel() - 1} more: {have[k]:.9g} beside {want[k]:.9g} (noise {noise[k]:.3g}, {usual:.3g})"


def compare(program):
    model = Model(program)
    counts = [0, 0]
    for when, batch in enumerate(program["batches"]):
        seen = model.step(batch, program["optimizer"])
        for e in program["expected"]:
            if e["when"] == when and e["name"] in seen:
                counts[e["name"].startswith("grad.")] += 1
                wrong = differs(e, seen[e["name"]])
                if wrong:
                    return f"step {when}: {e['name']}{wrong}", counts
    for e in program["expected"]:
        if e["when"] == len(program["batches"]) and e["name"] in model.stored:
            counts[0] += 1
            wrong = differs(e, model.stored[e["name"]])
            if wrong:
                return f"after the last step: {e['name']}{wrong}", counts
    return None, counts


def programs(campaign, first, count):
    run = subprocess.Popen([campaign, str(first), str(count), "json"], stdout=subprocess.PIPE, text=True)
    lines = []
    for line in run.stdout:
        lines.append(line)
        if line == "}\n":
            yield json.loads("".join(lines))
            lines = []
    if run.wait():
        sys.exit(f"{campaign} ended with {run.returncode}")


def main():
    if len(sys.argv) != 4:
        sys.exit(__doc__)
    ran = disagreed = ours = failed = values = gradients = 0
    for p in programs(sys.argv[1], int(sys.argv[2]), int(sys.argv[3])):
        ran += 1
        ours += not p["agrees"]
        try:
            wrong, counts = compare(p)
        except (RuntimeError, IndexError, ValueError, TypeError, KeyError) as e:
            failed += 1
            print(f"{p['seed']}: not run: {type(e).__name__}: {str(e)[:300]}", flush=True)
            continue
        values, gradients = values + counts[0], gradients + counts[1]
        if wrong:
            disagreed += 1
            print(f"{p['seed']}: {wrong}", flush=True)
    print(f"ran {ran} programs, {values} arrays and {gradients} gradients compared; "
          f"PyTorch {torch.__version__} disagreed in {disagreed}, did not run {failed}; "
          f"our default mode disagreed with the interpreter in {ours}")
    return disagreed + ours + failed > 0


if __name__ == "__main__":
    sys.exit(main())
