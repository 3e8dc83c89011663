#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes ops.json: PyTorch's values and gradients of single ops in float64, for test_gradients_golden.c.

    python3 tests/numerics/golden/make_ops.py        (PyTorch 2.4 or newer)

A case is a graph in text with outputs "y", the op, and "loss", the sum of y times an input "r". Inputs are formulas;
element e (from 0) of input number i is
    float    4 * fmod((e + 1) * 0.6180339887498949 + 0.37 * i, 1) - 2
    integer  (7 e + 3) mod 5
Of y and of each parameter's gradient are stored four inner products, k = 0..3, with
    fmod((e + 1) * 0.7548776662466927 * (k + 1), 1) - 0.5
so that the file stays small and every element counts.
"""
import json
import math
import os

import torch
import torch.nn.functional as F

torch.set_default_dtype(torch.float64)


def count(shape):
    return math.prod(shape) if shape else 1


def floats(i, shape):
    return torch.tensor(
        [4 * math.fmod((e + 1) * 0.6180339887498949 + 0.37 * i, 1) - 2 for e in range(count(shape))]
    ).reshape(shape)


def integers(shape):
    return torch.tensor([(7 * e + 3) % 5 for e in range(count(shape))]).reshape(shape)


def projections(t):
    flat = t.detach().reshape(-1).tolist()
    return [
        sum(v * (math.fmod((e + 1) * 0.7548776662466927 * (k + 1), 1) - 0.5) for e, v in enumerate(flat))
        for k in range(4)
    ]


def text_type(dtype, shape):
    return "%s[%s]" % (dtype, ",".join(map(str, shape)))


class Param(tuple):
    dtype, attributes = "f64", "role=param, "


class Given(tuple):
    dtype, attributes = "f64", ""


class Index(tuple):
    dtype, attributes = "i32", ""


def case(name, inputs, op, function):
    """`op` is the text of the op on %0, %1, ...; `function` the same in PyTorch."""
    tensors = [integers(s) if isinstance(s, Index) else floats(i, s) for i, s in enumerate(inputs)]
    for s, t in zip(inputs, tensors):
        t.requires_grad_(isinstance(s, Param))
    y = function(*tensors)
    r = floats(len(inputs), tuple(y.shape))
    (y * r).sum().backward()
    expected = {"y": projections(y)}
    lines = ["graph @%s {" % name]
    for i, s in enumerate(inputs):
        lines.append('%%%d = input {%sname="x%d"} : %s' % (i, s.attributes, i, text_type(s.dtype, s)))
        if isinstance(s, Param):
            expected["grad.x%d" % i] = projections(tensors[i].grad)
    n, result = len(inputs), text_type("f64", y.shape)
    lines.append("%%%d = %s : %s" % (n, op, result))
    lines.append('%%%d = input {name="r"} : %s' % (n + 1, result))
    lines.append("%%%d = mul(%%%d, %%%d) : %s" % (n + 2, n, n + 1, result))
    axes = ", ".join(map(str, range(y.dim())))
    if y.dim():
        lines.append("%%%d = reduce_sum(%%%d) {axes=[%s]} : f64[]" % (n + 3, n + 2, axes))
    lines += ['output "y" %%%d' % n, 'output "loss" %%%d' % (n + 3 if y.dim() else n + 2), "}", ""]
    return {"name": name, "graph": "\n".join(lines), "expected": expected}


def elementwise():
    functions = {
        "relu": F.relu,
        "gelu": F.gelu,
        "gelu_tanh": lambda x: F.gelu(x, approximate="tanh"),
        "silu": F.silu,
        "softplus": F.softplus,
        "abs": torch.abs,
        "erf": torch.erf,
        "sigmoid": torch.sigmoid,
        "tanh": torch.tanh,
        "expm1": torch.expm1,
        "atan": torch.atan,
        "sin": torch.sin,
        "cos": torch.cos,
        "exp": torch.exp,
    }
    for name, function in functions.items():
        yield case(name, [Param((3, 5))], name + "(%0)", function)
    yield case("leaky_relu", [Param((3, 5))], "leaky_relu(%0) {slope=0.01}", lambda x: F.leaky_relu(x, 0.01))
    for name, function in {"max": torch.maximum, "min": torch.minimum, "rem": torch.fmod, "div": torch.div}.items():
        yield case(name, [Param((3, 5)), Param((3, 5))], name + "(%0, %1)", function)


def reductions():
    yield case("reduce_max", [Param((3, 5))], "reduce_max(%0) {axes=[1]}", lambda x: x.amax(1))
    yield case("cumsum", [Param((3, 5))], "cumsum(%0) {axis=1}", lambda x: x.cumsum(1))
    yield case("products", [Param((3, 5))], "linear_scan(%0) {axis=1}", lambda x: x.cumprod(1))
    yield case("softmax", [Param((3, 4, 5))], "softmax(%0) {axis=1}", lambda x: F.softmax(x, 1))
    yield case("log_softmax", [Param((3, 4, 5))], "log_softmax(%0) {axis=2}", lambda x: F.log_softmax(x, 2))
    yield case("take", [Param((5, 3)), Index((4, 2))], "take(%0, %1)", lambda x, i: F.embedding(i, x))
    yield case("take_along_one", [Param((3, 5)), Index((3, 1))], "take_along(%0, %1) {axis=1}",
               lambda x, i: torch.gather(x, 1, i))
    yield case("take_along", [Param((5, 3)), Index((4, 3))], "take_along(%0, %1)", lambda x, i: torch.gather(x, 0, i))


def norms():
    yield case("layer_norm", [Param((3, 4, 5)), Param((5,)), Param((5,))], "layer_norm(%0, %1, %2) {eps=1e-5, axis=2}",
               lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5))
    yield case(
        "layer_norm_2",
        [Param((3, 4, 5)), Param((4, 5)), Param((4, 5))],
        "layer_norm(%0, %1, %2) {eps=1e-5, axis=1}",
        lambda x, w, b: F.layer_norm(x, (4, 5), w, b, 1e-5),
    )
    yield case(
        "group_norm",
        [Param((3, 6, 5)), Param((6,)), Param((6,))],
        "group_norm(%0, %1, %2) {eps=1e-5, axis=1, groups=3}",
        lambda x, w, b: F.group_norm(x, 3, w, b, 1e-5),
    )
    yield case("batch_norm", [Param((3, 6, 5)), Param((6,)), Param((6,))], "batch_norm(%0, %1, %2) {eps=1e-5, axis=1}",
               lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5))
    yield case("rms_norm", [Param((3, 4, 5)), Param((5,))], "rms_norm(%0, %1) {eps=1e-5, axis=2}",
               lambda x, w: F.rms_norm(x, (5,), w, 1e-5))


def contractions():
    yield case("dot", [Param((2, 3, 4)), Param((2, 5, 4))],
               "dot(%0, %1) {batch_a=[0], batch_b=[0], contract_a=[2], contract_b=[2]}",
               lambda a, b: torch.einsum("bik,bjk->bij", a, b))
    yield case("conv_1d", [Param((2, 3, 10)), Param((4, 3, 3))],
               "conv(%0, %1) {stride=[2], pad_lo=[1], pad_hi=[1], dilation=[2], groups=1}",
               lambda x, w: F.conv1d(x, w, stride=2, padding=1, dilation=2))
    yield case("conv_2d", [Param((2, 4, 7, 9)), Param((6, 2, 3, 2))],
               "conv(%0, %1) {stride=[2, 1], pad_lo=[1, 2], pad_hi=[1, 2], dilation=[1, 2], groups=2}",
               lambda x, w: F.conv2d(x, w, stride=(2, 1), padding=(1, 2), dilation=(1, 2), groups=2))
    yield case("conv_3d", [Param((1, 2, 4, 5, 6)), Param((3, 2, 2, 3, 3))],
               "conv(%0, %1) {stride=[1, 2, 1], pad_lo=[0, 1, 1], pad_hi=[0, 1, 1], dilation=[1, 1, 1], groups=1}",
               lambda x, w: F.conv3d(x, w, stride=(1, 2, 1), padding=(0, 1, 1)))


def windows():
    x = Param((2, 3, 7, 8))
    attributes = "window=[3, 2], stride=[2, 2], pad_lo=[1, 1], pad_hi=[1, 1]"
    yield case("max_pool", [x], "max_pool(%%0) {%s}" % attributes, lambda x: F.max_pool2d(x, (3, 2), (2, 2), (1, 1)))
    yield case("avg_pool", [x], "avg_pool(%%0) {%s}" % attributes,
               lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1), count_include_pad=False))
    yield case("avg_pool_padding", [x], "avg_pool(%%0) {%s, include_pad=true}" % attributes,
               lambda x: F.avg_pool2d(x, (3, 2), (2, 2), (1, 1)))
    for size in ((3, 4), (7, 8), (9, 13), (1, 1)):
        yield case("adaptive_%d" % size[0], [x], "adaptive_avg_pool(%0)", lambda x: F.adaptive_avg_pool2d(x, size))
        yield case(
            "nearest_%d" % size[0], [x], "resize_nearest(%0)", lambda x: F.interpolate(x, size=size, mode="nearest")
        )
        yield case("bilinear_%d" % size[0], [x], "resize_bilinear(%0)",
                   lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=False))
        yield case("bilinear_corners_%d" % size[0], [x], "resize_bilinear(%0) {align_corners=true}",
                   lambda x: F.interpolate(x, size=size, mode="bilinear", align_corners=True))
        yield case("bicubic_%d" % size[0], [x], "resize_bicubic(%0)",
                   lambda x: F.interpolate(x, size=size, mode="bicubic", align_corners=False))
        yield case("bicubic_corners_%d" % size[0], [x], "resize_bicubic(%0) {align_corners=true}",
                   lambda x: F.interpolate(x, size=size, mode="bicubic", align_corners=True))


def attention():
    attend = F.scaled_dot_product_attention
    q, k, v = Param((2, 3, 4, 6)), Param((2, 3, 5, 6)), Param((2, 3, 5, 7))
    yield case("sdpa", [q, k, v], "sdpa(%0, %1, %2) {scale=0.3}", lambda q, k, v: attend(q, k, v, scale=0.3))
    yield case("sdpa_mask", [q, k, v, Param((2, 3, 4, 5))], "sdpa(%0, %1, %2, %3) {scale=0.3}",
               lambda q, k, v, m: attend(q, k, v, m, scale=0.3))
    yield case("sdpa_causal", [k, k, v], "sdpa(%0, %1, %2) {scale=0.3, causal=true}",
               lambda q, k, v: attend(q, k, v, scale=0.3, is_causal=True))


def losses():
    for smoothing in (0, 0.1):
        for ignore in (-100, 3):
            attributes = "{ignore_index=%d, label_smoothing=%g}" % (ignore, smoothing)
            name = "cross_entropy_%d_%d" % (10 * smoothing, abs(ignore))
            options = {"ignore_index": ignore, "label_smoothing": smoothing}
            yield case(name, [Param((6, 5)), Index((6,))], "cross_entropy(%0, %1) " + attributes,
                       lambda x, t: F.cross_entropy(x, t, **options))
            yield case(
                name + "_weights",
                [Param((6, 5)), Index((6,)), Given((5,))],
                "cross_entropy(%0, %1, %2) " + attributes,
                lambda x, t, w: F.cross_entropy(x, t, w, **options),
            )


def main():
    families = (elementwise, reductions, norms, contractions, windows, attention, losses)
    cases = [c for family in families for c in family()]
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "ops.json")
    with open(path, "w") as f:
        json.dump({"torch": torch.__version__.split("+")[0], "cases": cases}, f, indent=1)
        f.write("\n")


if __name__ == "__main__":
    main()
