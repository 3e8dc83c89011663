#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes curves.json: PyTorch's loss over 20 training steps of small models, from weights and batches that are formulas.

    python3 tests/numerics/golden/make_golden.py [CASE...]        (Debian: python3-torch; or PyTorch 2 from PyPI)

With names, only these cases are made anew.

No weights are stored, because both sides compute them. All of it is exact in float32:

    hash(name)       FNV-1a, 64 bits, of the bytes of the name: h = 0xcbf29ce484222325; for each byte h = (h ^ byte) *
    0x100000001b3 noise(name, i)   the splitmix64 finalizer of hash(name) + (i + 1) * 0x9e3779b97f4a7c15, modulo 2^64:
                     x ^= x >> 30; x *= 0xbf58476d1ce4e5b9; x ^= x >> 27; x *= 0x94d049bb133111eb; x ^= x >> 31
    uniform(name, i) (noise >> 40) * 2^-23 - 1, in [-1, 1)

A parameter is filled in row-major order under its PyTorch name, linear weights being (outputs, inputs):
    rank 2 and up                uniform * 2^-k, k the smallest with 4^k >= the product of all extents but the first
    rank 1, name ends "weight"   1 + uniform / 4, halved for a batch norm
    rank 1 else                  uniform / 8, plus 3/4 for a batch norm: most values then pass the ReLU, which keeps the
    curves calm running mean and variance    0 and 1 A batch norm is what has a running mean: bn1.weight,
    layer1.0.bn2.bias, layer2.0.downsample.1.weight.
Step s (from 0) uses batch b = s mod the model's `batches` of:
    GPT     token (b, row, t), t = 0..context: (noise("tokens", ((b * batch) + row) * (context + 1) + t) >> 33) mod
    vocab;
            inputs are t < context, targets the tokens one further on
    images  pixel: uniform("images", ((b * batch + row) * channels + c) * height * width + y * width + x);
            label: (noise("labels", b * batch + row) >> 33) mod 10
The loss of a step is that before its update: mean cross-entropy over positions or rows. AdamW and Lion decay
tensors of rank 2 and up; SGD decays all and adds the decay to the gradient; `clip` is the largest global L2 norm of the
gradient (0: none). `groups` are of parameters that are updated otherwise: each belongs to the first whose `match` fits
its name. `losses` are PyTorch's in float32, `losses_f64` the same in float64. The gradient of ReLU jumps, so a rounding
error can grow without bound over the steps; the script therefore also runs from weights shaken by a few parts in 10^7
and refuses a curve that any float32 run leaves by more than 4e-5 relative, because it would say more about rounding
than about the program. """
import fnmatch
import json
import os
import sys

import numpy as np
import torch
import torch.nn.functional as F

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "..", "bench"))
import models_torch  # noqa: E402

STEPS, BATCHES, SHAKES, LIMIT = 20, 4, 10, 4e-5
ADAMW = dict(name="adamw", lr=1e-3, betas=[0.9, 0.99], eps=1e-8, weight_decay=0.1, clip=1.0)
LION = dict(name="lion", lr=1e-4, betas=[0.9, 0.99], weight_decay=0.1, clip=1.0)
ADAFACTOR = dict(name="adafactor", lr=1e-2, eps=1e-3, weight_decay=0.1, clip=1.0)
ADAGRAD = dict(name="adagrad", lr=1e-2, eps=1e-10, weight_decay=0.01, clip=1.0)
SGD = dict(name="sgd", lr=0.05, momentum=0.9, nesterov=False, weight_decay=5e-4, clip=0.0)
NESTEROV = {**SGD, "nesterov": True, "clip": 1.0}
GROUPS = [
    dict(match="transformer.wpe.*", frozen=True),
    dict(match="*.bias", lr_scale=2.0, weight_decay=0.2, betas=[0.8, 0.95]),
    dict(match="transformer.h.0.*", lr_scale=0.25),
]
SGD_GROUPS = [
    dict(match="*.bias", momentum=0.5, weight_decay=0.01),
    dict(match="transformer.h.[1-9].ln_?.*", frozen=True),
    dict(match="*.ln_*", lr_scale=0.5, weight_decay=0.0),
]


def gpt(layers, heads, width, context, batch, bias=False, gelu="none"):
    return dict(
        kind="gpt",
        layers=layers,
        heads=heads,
        width=width,
        context=context,
        vocab=65,
        bias=bias,
        gelu=gelu,
        batch=batch,
        batches=BATCHES,
    )


def resnet(width, batch):
    return dict(kind="resnet18", width=width, batch=batch, input=[3, 32, 32], batches=BATCHES)


CNN = dict(kind="cnn", batch=16, input=[1, 28, 28], batches=1)  # one batch: noise is learned by heart only
CASES = {
    "char_gpt_small.adamw": (gpt(2, 2, 32, 16, 4), ADAMW),
    "char_gpt_small.lion": (gpt(2, 2, 32, 16, 4), LION),
    "char_gpt_small.adafactor": (gpt(2, 2, 32, 16, 4), ADAFACTOR),
    "char_gpt_small.adagrad": (gpt(2, 2, 32, 16, 4), ADAGRAD),
    "resnet18_narrow.adafactor": (resnet(8, 8), {**ADAFACTOR, "lr": 1e-4, "clip": 0.0}),
    "char_gpt_small.sgd": (gpt(2, 2, 32, 16, 4), NESTEROV),
    "gpt2_small.adamw": (gpt(2, 2, 32, 16, 4, bias=True, gelu="tanh"), ADAMW),
    "gpt2_small.adamw_groups": (gpt(2, 2, 32, 16, 4, bias=True, gelu="tanh"), {**ADAMW, "groups": GROUPS}),
    "gpt2_small.sgd_groups": (gpt(2, 2, 32, 16, 4, bias=True, gelu="tanh"), {**NESTEROV, "groups": SGD_GROUPS}),
    "char_gpt.adamw": (gpt(4, 4, 128, 64, 12), ADAMW),
    "cnn.adamw": (CNN, {**ADAMW, "lr": 2e-4, "clip": 0.0}),
    "cnn.sgd": (CNN, {**NESTEROV, "lr": 0.01}),
    "resnet18_narrow.adamw": (resnet(8, 8), {**ADAMW, "lr": 3e-4, "clip": 0.0}),
    "resnet18_narrow.sgd": (resnet(8, 8), {**SGD, "lr": 1e-3}),
    "resnet18.sgd": (resnet(64, 4), {**SGD, "lr": 2e-4}),
}


def noise(name, count, start=0):
    h = 0xcbf29ce484222325
    for byte in name.encode():
        h = (h ^ byte) * 0x100000001b3 % 2**64
    x = np.uint64(h) + np.arange(start + 1, start + count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
    x = (x ^ x >> np.uint64(30)) * np.uint64(0xbf58476d1ce4e5b9)
    x = (x ^ x >> np.uint64(27)) * np.uint64(0x94d049bb133111eb)
    return x ^ x >> np.uint64(31)


def uniform(name, count, start=0):
    return (noise(name, count, start) >> np.uint64(40)).astype(np.float64) * 2.0**-23 - 1


def fill(model):
    state = model.state_dict()
    for name, p in model.named_parameters():
        u, batch_norm = uniform(name, p.numel()), name.rpartition(".")[0] + ".running_mean" in state
        if p.dim() >= 2:
            k, inputs = 0, p[0].numel()
            while 4**k < inputs:
                k += 1
            u = u * 2.0**-k
        elif name.endswith("weight"):
            u = (1 + u / 4) / (2 if batch_norm else 1)
        else:
            u = u / 8 + (0.75 if batch_norm else 0)
        with torch.no_grad():
            p.copy_(torch.from_numpy(u).reshape(p.shape))


def batch(m, b, dtype):
    count = m["batch"]
    if m["kind"] == "gpt":
        row = m["context"] + 1
        tokens = (noise("tokens", count * row, b * count * row) >> np.uint64(33)) % np.uint64(m["vocab"])
        tokens = torch.from_numpy(tokens.astype(np.int64)).reshape(count, row)
        return tokens[:, :-1], tokens[:, 1:].flatten()
    size = int(np.prod(m["input"]))
    images = torch.from_numpy(uniform("images", count * size, b * count * size)).reshape(count, *m["input"])
    labels = (noise("labels", count, b * count) >> np.uint64(33)) % np.uint64(10)
    return images.to(dtype), torch.from_numpy(labels.astype(np.int64))


def build(m):
    if m["kind"] == "gpt":
        return models_torch.GPT(m["layers"], m["heads"], m["width"], m["context"], m["vocab"], m["bias"], m["gelu"])
    return models_torch.CNN() if m["kind"] == "cnn" else models_torch.ResNet18(m["width"])


class Lion:
    """Chen et al. 2023, program 2; PyTorch has none. Tensors of rank 2 and up are decayed."""

    def __init__(self, parameters, o):
        self.parameters, self.o = list(parameters), o
        self.m = [torch.zeros_like(p) for p in self.parameters]

    def zero_grad(self):
        for p in self.parameters:
            p.grad = None

    @torch.no_grad()
    def step(self):
        (beta1, beta2), lr = self.o["betas"], self.o["lr"]
        for p, m in zip(self.parameters, self.m):
            update = torch.sign(beta1 * m + (1 - beta1) * p.grad)
            m.copy_(beta2 * m + (1 - beta2) * p.grad)
            p.sub_(lr * (update + (self.o["weight_decay"] if p.dim() >= 2 else 0.0) * p))


def param_groups(model, o):
    """PyTorch's groups for o["groups"]; frozen parameters are in none."""
    members = {}
    for name, p in model.named_parameters():
        own = next((g for g in o["groups"] if fnmatch.fnmatchcase(name, g["match"])), {})
        p.requires_grad_(not own.get("frozen"))
        decay = o["weight_decay"] if o["name"] == "sgd" or p.dim() >= 2 else 0.0
        values = dict(lr=o["lr"] * own.get("lr_scale", 1), weight_decay=own.get("weight_decay", decay))
        values.update({k: own[k] for k in ("betas", "momentum") if k in own})
        if p.requires_grad:
            members.setdefault(str(values), (values, []))[1].append(p)
    return [dict(params=list(p), **values) for values, p in members.values()]


def make_optimizer(model, o):
    if o["name"] == "lion":
        return Lion(model.parameters(), o)
    if o["name"] == "adafactor":
        return torch.optim.Adafactor(param_groups(model, {**o, "groups": []}), eps=(None, o["eps"]))
    if o["name"] == "adagrad":
        return torch.optim.Adagrad(param_groups(model, {**o, "groups": []}), eps=o["eps"])
    if "groups" not in o:
        return models_torch.optimizer(model.parameters(), o)
    if o["name"] == "sgd":
        return torch.optim.SGD(param_groups(model, o), momentum=o["momentum"], nesterov=o["nesterov"])
    return torch.optim.AdamW(param_groups(model, o), betas=o["betas"], eps=o["eps"])


def curve(m, o, dtype, shake=0):
    model = build(m).to(dtype)
    fill(model)
    if shake:
        torch.manual_seed(shake)
        with torch.no_grad():
            for p in model.parameters():
                p.mul_(1 + 5e-7 * torch.randn(p.shape, dtype=torch.float64))
    optimizer = make_optimizer(model, o)
    losses = []
    for step in range(STEPS):
        inputs, targets = batch(m, step % m["batches"], dtype)
        loss = F.cross_entropy(model(inputs), targets)
        optimizer.zero_grad()
        loss.backward()
        if o["clip"]:
            torch.nn.utils.clip_grad_norm_(model.parameters(), o["clip"])
        optimizer.step()
        losses.append(loss.item())
    return losses


def check(name, m, o):
    """The case with its losses; refuses a curve that rounding bends."""
    single, double = curve(m, o, torch.float32), curve(m, o, torch.float64)
    worst = max(abs(a - b) / abs(b) for run in [single] + [curve(m, o, torch.float32, s) for s in range(1, SHAKES + 1)]
                for a, b in zip(run, double))
    print(f"{name}: {double[0]:.4f} to {double[-1]:.4f}, float32 off by {worst:.1e}", flush=True)
    if worst > LIMIT:
        sys.exit(f"{name}: float32 and float64 differ by {worst:.1e}, more than {LIMIT:.0e}: choose a calmer curve")
    return dict(
        name=name,
        model=m,
        optimizer=o,
        losses=[float(f"{x:.9g}") for x in single],
        losses_f64=[float(f"{x:.9g}") for x in double],
    )


def main():
    path = os.path.join(HERE, "curves.json")
    old = {}
    if sys.argv[1:]:
        with open(path) as f:
            old = {c["name"]: c for c in json.load(f)["cases"] if c["name"] not in sys.argv[1:]}
    cases = [old.get(name) or check(name, m, o) for name, (m, o) in CASES.items()]
    with open(path, "w") as f:
        f.write('{"made_by": "make_golden.py with PyTorch ' + torch.__version__ + '", "cases": [\n')
        f.write(",\n".join(json.dumps(c) for c in cases) + "\n]}\n")


if __name__ == "__main__":
    main()
