#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes shared.json: what PyTorch gives where several optimizers train one set of parameters in turn.

    python3 tests/numerics/golden/make_shared.py        (Debian: python3-torch; or PyTorch 2 from PyPI)

Element i of parameter number k, in the order of the lists here, begins as ((37 i + 11 k) mod 101) / 101 - 1/2, in
float32. Input number j of step s has elements ((37 i + 11 s + 29 j) mod 101) / 50 - 1. All is computed in float64.

"gan": a critic with a gradient penalty (Gulrajani et al. 2017) and a generator. Both use, and train, the parameter
"gain". The steps are in the order of TURNS. After each there are the loss, for the critic the gradient of its loss by
the real points, and all parameters. "distill": a teacher that is trained on labels, and a student that is trained on
labels and on the teacher, which is frozen in these steps, though its optimizer decays weights.

Arrays are given by their sum, each element weighted by ((37 i + 5) mod 101) / 101 - 1/2. """
import json
import os

import torch
import torch.nn.functional as F

EXTENTS = [(7, 3, 5), (4, 4, 4)]  # rows; features; hidden
TURNS = "ccgcgccg"
LESSONS = "ttssts"
CLASSES, TEMPERATURE = 3, 2.0


def pattern(count, offset):
    return (torch.arange(count, dtype=torch.float64) * 37 + offset) % 101


def begin(k, shape):
    values = pattern(torch.Size(shape).numel(), 11 * k) / 101 - 0.5
    return values.to(torch.float32).to(torch.float64).reshape(shape).requires_grad_()


def data(j, step, *shape):
    values = pattern(torch.Size(shape).numel(), 11 * step + 29 * j).to(torch.float32) / 50 - 1
    return values.to(torch.float64).reshape(shape)


def weighed(a):
    return float((a.detach().flatten() * (pattern(a.numel(), 5) / 101 - 0.5)).sum())


def linear(p, name, x):
    return F.linear(x, p[name + ".weight"], p[name + ".bias"])


def named(shapes):
    return {name: begin(k, shape) for k, (name, shape) in enumerate(shapes.items())}


def of(p, *prefixes):
    return [v for name, v in p.items() if name.startswith(prefixes)]


def gan(rows, features, hidden):
    p = named({
        "gain": (features,),
        "critic.in.weight": (hidden, features), "critic.in.bias": (hidden,),
        "critic.out.weight": (1, hidden), "critic.out.bias": (1,),
        "generator.in.weight": (hidden, features), "generator.in.bias": (hidden,),
        "generator.out.weight": (features, hidden), "generator.out.bias": (features,),
    })  # fmt: skip
    critic = lambda x: linear(p, "critic.out", torch.tanh(linear(p, "critic.in", x * p["gain"])))
    generator = lambda z: linear(p, "generator.out", torch.tanh(linear(p, "generator.in", z))) * p["gain"]
    optimizers = {
        "c": torch.optim.Adam(of(p, "gain", "critic"), lr=0.02, betas=(0.5, 0.9)),
        "g": torch.optim.SGD(of(p, "gain", "generator"), lr=0.05, momentum=0.9),
    }
    steps = []
    for step, turn in enumerate(TURNS):
        real, z = data(0, step, rows, features).requires_grad_(), data(1, step, rows, features)
        where = (data(2, step, rows, 1) + 1) / 2
        for v in p.values():
            v.grad = None
        if turn == "c":
            fake = generator(z).detach()
            between = (where * real.detach() + (1 - where) * fake).requires_grad_()
            slope = torch.autograd.grad(critic(between).sum(), between, create_graph=True)[0]
            penalty = ((slope.pow(2).sum(1).sqrt() - 1) ** 2).mean()
            loss = critic(fake).mean() - critic(real).mean() + 10 * penalty
        else:
            loss = -critic(generator(z)).mean()
        loss.backward()
        optimizers[turn].step()
        steps.append({"loss": loss.item(), "gradient": weighed(real.grad) if turn == "c" else 0,
                      "params": [weighed(v) for v in p.values()]})  # fmt: skip
    return {"rows": rows, "features": features, "hidden": hidden, "turns": TURNS, "names": list(p), "steps": steps}


def distill(rows, features, hidden):
    p = named({
        "teacher.in.weight": (hidden, features), "teacher.in.bias": (hidden,),
        "teacher.out.weight": (CLASSES, hidden), "teacher.out.bias": (CLASSES,),
        "student.weight": (CLASSES, features), "student.bias": (CLASSES,),
    })  # fmt: skip
    teacher = lambda x: linear(p, "teacher.out", torch.tanh(linear(p, "teacher.in", x)))
    optimizers = {
        "t": torch.optim.AdamW(of(p, "teacher"), lr=0.03, weight_decay=0.1),
        "s": torch.optim.AdamW(of(p, "student"), lr=0.05, weight_decay=0.1),
    }
    steps = []
    for step, turn in enumerate(LESSONS):
        x, y = data(0, step, rows, features), torch.arange(rows) % CLASSES
        for v in p.values():
            v.grad = None
        if turn == "t":
            loss = F.cross_entropy(teacher(x), y)
        else:
            logits, t = linear(p, "student", x), TEMPERATURE
            soft = F.softmax(teacher(x).detach() / t, dim=1)
            loss = F.cross_entropy(logits, y) + t * t * F.cross_entropy(logits / t, soft)
        loss.backward()
        optimizers[turn].step()
        steps.append({"loss": loss.item(), "gradient": 0, "params": [weighed(v) for v in p.values()]})
    return {"rows": rows, "features": features, "hidden": hidden, "turns": LESSONS, "names": list(p), "steps": steps}


def rounded(x):
    if isinstance(x, dict):
        return {k: rounded(v) for k, v in x.items()}
    if isinstance(x, list):
        return [rounded(v) for v in x]
    return float(f"{x:.9g}") if isinstance(x, float) else x


if __name__ == "__main__":
    cases = {"gan": [gan(*e) for e in EXTENTS], "distill": [distill(*e) for e in EXTENTS]}
    with open(os.path.join(os.path.dirname(__file__), "shared.json"), "w") as f:
        json.dump(rounded(cases), f, separators=(",", ":"))
        f.write("\n")
