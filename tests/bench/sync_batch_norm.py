#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Batch norms over ranks beside PyTorch's SyncBatchNorm under gloo, or where that takes no CPU tensors, beside its
formulas in float64 over the whole batch: outputs, gradients by input, weight and bias, and running statistics, by steps
with ragged parts. Prints the largest difference of each, relative to the largest value, and what one rank of float32
differs by; ends with 1 where a difference is above 40 units of float32's rounding, times the offset's share of values.

    sync_batch_norm.py SYNC_BATCH_NORM     the program of tests/bench/sync_batch_norm.c; needs torch
"""
import subprocess, sys, tempfile

import torch

EPS, LR, ROUNDING = 1e-5, 0.01, 2.0 ** -24


def read(program, ranks, momentum, offset):
    """By name and step: the values of each rank."""
    out = {}
    text = subprocess.run([program, str(ranks), str(momentum), str(offset)], check=True, capture_output=True, text=True)
    for line in text.stdout.splitlines():
        head, values = line.split(" :")
        name, step, rank, *dims = head.split()
        value = torch.tensor([float(v) for v in values.split()], dtype=torch.float64).reshape([int(d) for d in dims])
        out.setdefault((name, int(step)), {})[int(rank)] = value
    return {key: [ranks[r] for r in sorted(ranks)] for key, ranks in out.items()}


class Norm:
    """The whole batch on one rank, in some type."""

    def __init__(self, channels, momentum, dtype):
        self.w, self.b = torch.ones(channels, dtype=dtype), torch.zeros(channels, dtype=dtype)
        self.mean, self.var = torch.zeros(channels, dtype=dtype), torch.ones(channels, dtype=dtype)
        self.momentum, self.dtype = momentum, dtype

    def step(self, x, g):
        x, g = x.to(self.dtype, copy=True).requires_grad_(), g.to(self.dtype)
        w, b = self.w.clone().requires_grad_(), self.b.clone().requires_grad_()
        y = torch.nn.functional.batch_norm(x, self.mean, self.var, w, b, True, self.momentum, EPS)
        (y * g).sum().backward()
        self.w, self.b = self.w - LR * w.grad, self.b - LR * b.grad
        return {"y": y.detach(), "gx": x.grad, "grad.norm.weight": w.grad, "grad.norm.bias": b.grad,
                "norm.weight": self.w, "norm.bias": self.b, "norm.running_mean": self.mean.clone(),
                "norm.running_var": self.var.clone()}


def gloo(rank, size, store, parts, gradients, momentum, results):
    import torch.distributed as dist
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=size)
    norm = torch.nn.SyncBatchNorm(parts[0][rank].shape[1], eps=EPS, momentum=momentum)
    out = []
    try:
        for x, g in zip(parts, gradients):
            mine = x[rank].to(torch.float32, copy=True).requires_grad_()
            norm.zero_grad()
            y = norm(mine)
            (y * g[rank].float()).sum().backward()
            for p in norm.parameters():
                dist.all_reduce(p.grad)
                p.data -= LR * p.grad
            out.append({"y": y.detach(), "gx": mine.grad, "grad.norm.weight": norm.weight.grad.clone(),
                        "grad.norm.bias": norm.bias.grad.clone(), "norm.running_mean": norm.running_mean.clone(),
                        "norm.running_var": norm.running_var.clone()})
        torch.save(out, f"{results}.{rank}")
    except (ValueError, RuntimeError, NotImplementedError) as e:
        open(f"{results}.{rank}.error", "w").write(str(e))
    dist.destroy_process_group()


def with_gloo(got, size, steps, momentum):
    """What SyncBatchNorm gives on each rank, by step; or why it gives nothing."""
    parts = [got["x", s] for s in range(steps)], [got["g", s] for s in range(steps)]
    with tempfile.TemporaryDirectory() as folder:
        results = f"{folder}/out"
        torch.multiprocessing.spawn(gloo, (size, f"{folder}/store", *parts, momentum, results), size)
        try:
            return [torch.load(f"{results}.{r}") for r in range(size)], None
        except FileNotFoundError:
            return None, open(f"{results}.0.error").read()


def difference(a, b):
    return float((a.double() - b.double()).abs().max() / b.double().abs().max().clamp_min(1e-30))


def judge(program, size, momentum, offset, say):
    got = read(program, size, momentum, offset)
    steps = 1 + max(s for _, s in got)
    channels = got["x", 0][0].shape[1]
    exact, single = Norm(channels, momentum, torch.float64), Norm(channels, momentum, torch.float32)
    worst, noise = {}, {}
    for s in range(steps):
        x, g = torch.cat(got["x", s]), torch.cat(got["g", s])
        want, usual = exact.step(x, g), single.step(x, g)
        for name, value in want.items():
            whole = torch.cat(got[name, s]) if name in ("y", "gx") else None
            mine = [whole] if whole is not None else got[name, s]
            worst[name] = max([worst.get(name, 0)] + [difference(m, value) for m in mine])
            noise[name] = max(noise.get(name, 0), difference(usual[name], value))
    allowed = 40 * ROUNDING * (1 + abs(offset))
    print(f"{size} ranks, momentum {momentum}, values around {offset:g}: difference from float64; of one rank of "
          f"PyTorch in float32; at most {allowed:.1e} is allowed")
    for name in worst:
        print(f"  {name:18} {worst[name]:.1e}  {noise[name]:.1e}{'' if worst[name] <= allowed else '  TOO MUCH'}")
    others, why = with_gloo(got, size, steps, momentum)
    if others:
        for name in others[0][0]:
            far = max(difference(got[name, s][r], others[r][s][name]) for s in range(steps) for r in range(size))
            print(f"  {name:18} {far:.1e} from SyncBatchNorm under gloo")
    elif say:
        print(f"  SyncBatchNorm under gloo (torch {torch.__version__}): {why}")
    return all(v <= allowed for v in worst.values())


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    fine = True
    for number, (ranks, share, around) in enumerate([(2, 0.1, 0), (3, 0.3, 0), (4, 1.0, 0), (3, 0.1, 100)]):
        fine &= judge(sys.argv[1], ranks, share, around, number == 0)
    sys.exit(not fine)
