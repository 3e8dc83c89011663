#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes schedules.json: the learning rate, and the momentum, of each step of PyTorch's schedules.

    python3 tests/numerics/golden/make_schedules.py        (PyTorch 2)

A case has the fields of tcc_schedule that differ from their defaults, and the values that the optimizer has before each
step. A warm-up is LinearLR in front of the schedule, by SequentialLR."""
import json
import os
import warnings

import torch
from torch.optim import lr_scheduler as L

warnings.simplefilter("ignore")  # SequentialLR warns of what it does itself
W = 5  # steps of warm-up


def warmed(o, after):
    rise = L.LinearLR(o, 1 / (W + 1), 1, W)
    return L.SequentialLR(o, [rise, after], [W])


CASES = [
    ("constant", 10, dict(lr=0.3, warmup_steps=W), lambda o: warmed(o, L.ConstantLR(o, 1, 1))),
    ("step", 37, dict(lr=0.5, step_size=7, gamma=0.3), lambda o: L.StepLR(o, 7, 0.3)),
    ("step", 37, dict(lr=0.5, step_size=7, gamma=0.3, warmup_steps=W), lambda o: warmed(o, L.StepLR(o, 7, 0.3))),
    ("multi_step", 30, dict(lr=0.2, milestones=[3, 4, 4, 19], gamma=0.7),
     lambda o: L.MultiStepLR(o, [3, 4, 4, 19], 0.7)),
    ("multi_step", 30, dict(lr=0.2, milestones=[8, 21], gamma=0.1, warmup_steps=W),
     lambda o: warmed(o, L.MultiStepLR(o, [8 - W, 21 - W], 0.1))),
    ("linear", 30, dict(lr=0.4, min_lr=0.1, steps=23), lambda o: L.LinearLR(o, 1, 0.25, 23)),
    ("cosine", 24, dict(lr=0.4, min_lr=0.01, steps=23), lambda o: L.CosineAnnealingLR(o, 23, 0.01)),
    ("cosine", 24, dict(lr=0.4, min_lr=0.01, steps=23, warmup_steps=W),
     lambda o: warmed(o, L.CosineAnnealingLR(o, 23 - W, 0.01))),
    ("polynomial", 30, dict(lr=0.4, steps=23, power=2.5), lambda o: L.PolynomialLR(o, 23, 2.5)),
    ("polynomial", 30, dict(lr=0.4, steps=23, power=0.9, warmup_steps=W),
     lambda o: warmed(o, L.PolynomialLR(o, 23 - W, 0.9))),
    ("cyclic", 50, dict(lr=0.1, min_lr=0.01, cycle_up=7, cycle_down=4), lambda o: L.CyclicLR(o, 0.01, 0.1, 7, 4)),
    ("cyclic", 50, dict(lr=0.1, min_lr=0.01, cycle_up=5, cycle_down=5, cycle_mode="triangular2"),
     lambda o: L.CyclicLR(o, 0.01, 0.1, 5, mode="triangular2")),
    ("cyclic", 50, dict(lr=0.1, min_lr=0.01, cycle_up=3, cycle_down=8, cycle_mode="exp_range", gamma=0.97,
                        base_momentum=0.5, max_momentum=0.99),
     lambda o: L.CyclicLR(o, 0.01, 0.1, 3, 8, mode="exp_range", gamma=0.97, base_momentum=0.5, max_momentum=0.99)),
    ("cyclic", 20, dict(lr=0.1, min_lr=0.01, cycle_up=7, cycle_down=4, cycle_momentum=False),
     lambda o: L.CyclicLR(o, 0.01, 0.1, 7, 4, cycle_momentum=False)),
    ("one_cycle", 41, dict(lr=0.1, steps=41), lambda o: L.OneCycleLR(o, 0.1, 41)),
    ("one_cycle", 41, dict(lr=0.1, steps=41, linear=True, pct_start=0.17, div_factor=7, final_div_factor=50),
     lambda o: L.OneCycleLR(o, 0.1, 41, pct_start=0.17, anneal_strategy="linear", div_factor=7, final_div_factor=50)),
    ("one_cycle", 41, dict(lr=0.1, steps=41, three_phase=True, base_momentum=0.7, max_momentum=0.9),
     lambda o: L.OneCycleLR(o, 0.1, 41, three_phase=True, base_momentum=0.7, max_momentum=0.9)),
    ("one_cycle", 11, dict(lr=0.1, steps=11, pct_start=0.0), lambda o: L.OneCycleLR(o, 0.1, 11, pct_start=0.0)),
    ("one_cycle", 11, dict(lr=0.1, steps=11, pct_start=1.0), lambda o: L.OneCycleLR(o, 0.1, 11, pct_start=1.0)),
]


def run(kind, steps, fields, make):
    p = torch.nn.Parameter(torch.zeros(1))
    o = torch.optim.SGD([p], lr=fields["lr"], momentum=0.9)
    schedule = make(o)
    cycles = kind in ("cyclic", "one_cycle") and fields.get("cycle_momentum", True)
    lr, momentum = [], []
    for step in range(steps):
        lr.append(o.param_groups[0]["lr"])
        momentum.append(o.param_groups[0]["momentum"])
        o.step()
        if step + 1 < steps:
            schedule.step()
    return dict(kind=kind, fields=fields, lr=lr, momentum=momentum if cycles else [])


path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "schedules.json")
with open(path, "w") as f:
    rows = [json.dumps(run(*c)) for c in CASES]
    f.write('{"torch": "%s", "cases": [\n%s\n]}\n' % (torch.__version__.split("+")[0], ",\n".join(rows)))
