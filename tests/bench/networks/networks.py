#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps of small networks of twelve kinds beside PyTorch, eager and torch.compile.

    cmake --build build --target bench-networks
    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python tests/bench/networks/networks.py [--only vit,nerf] [--types f32,bf16] [--threads 1]
                                                     [--rounds 3] [--seconds 1] [--no-compile] [--json FILE]
                                                     [--markdown FILE] [--note TEXT]

networks.c has the same networks by our public API; the two must have as many parameters. A step is forward, backward
and AdamW; bf16 is mixed precision, which in PyTorch is autocast. All take turns; a figure is the fastest step of all,
and a ratio is ours / the faster of PyTorch's. What was committed last:

    venv/bin/python tests/bench/networks/networks.py --json tests/bench/networks/results.json \\
                                                     --markdown tests/bench/networks/results.md"""
import argparse
import json
import math
import os
import subprocess
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
WARM_UP = 3
AIMS = {"f32": 0.60, "bf16": 0.50}

# What bounds those above, from bench-networks NAME TYPE SECONDS --explain: the share of a step that products,
# convolutions and attention take, and their rate as a share of the machine's (in bf16 twice that of f32).
BOUNDS = {
    ("deeplab", "f32"): "products are 82 % of the step, at 96 % of the machine's rate",
    ("deeplab", "bf16"): "products are 70 % of the step, at 88 % of the machine's rate",
    ("llama", "bf16"): "products are 87 % of the step, at 85 % of the machine's rate",
    ("lstm", "bf16"): "products are 80 % of the step, at 87 % of the machine's rate",
    ("nerf", "bf16"): "products are 95 % of the step, at 83 % of the machine's rate",
}


class ConvNorm(nn.Sequential):
    def __init__(self, a, b, kernel, stride=1, groups=1):
        super().__init__(nn.Conv2d(a, b, kernel, stride, kernel // 2, groups=groups, bias=False), nn.BatchNorm2d(b))


class Residual(nn.Module):
    def __init__(self, inner):
        super().__init__()
        self.inner = inner

    def forward(self, x):
        return x + self.inner(x)


class Mean(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.mean(self.dims)


class Permute(nn.Module):
    def __init__(self, *dims):
        super().__init__()
        self.dims = dims

    def forward(self, x):
        return x.permute(self.dims)


def classifies(net):
    """A network of logits [.., classes] and its loss."""
    def loss(x, y):
        logits = net(x)
        return F.cross_entropy(logits.flatten(0, -2), y.flatten())
    return net, loss


def mobilenet():
    layers, a = [ConvNorm(3, 32, 3, 2), nn.ReLU6()], 32
    for b, stride in ((16, 1), (24, 2), (24, 1), (32, 2), (32, 1), (64, 2), (64, 1)):
        block = nn.Sequential(ConvNorm(a, 4 * a, 1), nn.ReLU6(), ConvNorm(4 * a, 4 * a, 3, stride, 4 * a), nn.ReLU6(),
                              ConvNorm(4 * a, b, 1))
        layers.append(Residual(block) if stride == 1 and a == b else block)
        a = b
    return classifies(nn.Sequential(*layers, ConvNorm(a, 256, 1), nn.ReLU6(), Mean(2, 3), nn.Linear(256, 100)))


def twice(a, b):
    return nn.Sequential(ConvNorm(a, b, 3), nn.ReLU(), ConvNorm(b, b, 3), nn.ReLU())


class UNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = twice(3, 16), twice(16, 32), twice(32, 64)
        self.up_b, self.up_a = nn.ConvTranspose2d(64, 32, 2, 2), nn.ConvTranspose2d(32, 16, 2, 2)
        self.join_b, self.join_a, self.last = twice(64, 32), twice(32, 16), nn.Conv2d(16, 4, 1)

    def forward(self, x):
        a = self.a(x)
        b = self.b(F.max_pool2d(a, 2))
        x = self.join_b(torch.cat((b, self.up_b(self.c(F.max_pool2d(b, 2)))), 1))
        return self.last(self.join_a(torch.cat((a, self.up_a(x)), 1)))


class DeepLab(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(ConvNorm(3, 32, 3, 2), nn.ReLU(), ConvNorm(32, 64, 3, 2), nn.ReLU())
        self.parts = nn.ModuleList(
            nn.Sequential(nn.Conv2d(64, 32, 3 if far else 1, padding=far, dilation=far or 1, bias=False),
                          nn.BatchNorm2d(32), nn.ReLU()) for far in (0, 2, 4, 6))
        self.head = nn.Sequential(ConvNorm(128, 64, 1), nn.ReLU(), nn.Conv2d(64, 4, 1))

    def forward(self, x):
        x = self.stem(x)
        x = self.head(torch.cat([part(x) for part in self.parts], 1))
        return F.interpolate(x, (96, 96), mode="bilinear")


def labels_pixels(net):
    return net, lambda x, y: F.cross_entropy(net(x), y)


class LlamaBlock(nn.Module):
    def __init__(self, width, heads, hidden):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.RMSNorm(width, eps=1e-5), nn.RMSNorm(width, eps=1e-5)
        self.q, self.k, self.v, self.o = (nn.Linear(width, width, bias=False) for _ in range(4))
        self.gate, self.up = nn.Linear(width, hidden, bias=False), nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)

    def forward(self, x, cosine, sine):
        def split(y):
            return y.unflatten(2, (self.heads, -1)).transpose(1, 2)

        def turned(y):
            a, b = y.chunk(2, 3)
            return torch.cat((a * cosine - b * sine, b * cosine + a * sine), 3)

        h = self.norm1(x)
        v = split(self.v(h))
        q, k = turned(split(self.q(h))).to(v.dtype), turned(split(self.k(h))).to(v.dtype)
        h = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.o(h.transpose(1, 2).flatten(2))
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


class Llama(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.norm = nn.Embedding(4096, 256), nn.RMSNorm(256, eps=1e-5)
        self.blocks = nn.ModuleList(LlamaBlock(256, 4, 704) for _ in range(2))
        self.head = nn.Linear(256, 4096, bias=False)

    def forward(self, x, cosine, sine):
        x = self.table(x)
        for block in self.blocks:
            x = block(x, cosine, sine)
        return self.head(self.norm(x))


def llama():
    net = Llama()
    return net, lambda x, y, cosine, sine: F.cross_entropy(net(x, cosine, sine).flatten(0, 1), y.flatten())


class Attention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.inner = nn.MultiheadAttention(width, heads, batch_first=True)

    def forward(self, x):
        return self.inner(x, x, x, need_weights=False)[0]


def vit():
    blocks = []
    for _ in range(4):
        blocks += [Residual(nn.Sequential(nn.LayerNorm(192), Attention(192, 3))),
                   Residual(nn.Sequential(nn.LayerNorm(192), nn.Linear(192, 768), nn.GELU(), nn.Linear(768, 192)))]
    return classifies(nn.Sequential(nn.Conv2d(3, 192, 16, 16), nn.Flatten(2), Permute(0, 2, 1), *blocks,
                                    nn.LayerNorm(192), Mean(1), nn.Linear(192, 100)))


class Lstm(nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.lstm, self.head = nn.Embedding(1000, 128), nn.LSTM(128, 128), nn.Linear(128, 1000)

    def forward(self, x):
        return self.head(self.lstm(self.table(x))[0])


class Dlrm(nn.Module):
    def __init__(self):
        super().__init__()
        self.low = nn.Sequential(nn.Linear(13, 64), nn.ReLU(), nn.Linear(64, 16), nn.ReLU())
        self.tables = nn.Embedding(8000, 16)
        self.high = nn.Sequential(nn.Linear(97, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, x, indices):
        low = self.low(x)
        z = torch.cat((low[:, None], self.tables(indices).to(low.dtype)), 1)
        return self.high(torch.cat((low, (z @ z.transpose(1, 2)).flatten(1)), 1))


def dlrm():
    net = Dlrm()
    return net, lambda x, indices, y: F.binary_cross_entropy_with_logits(net(x, indices), y)


class Graph(nn.Module):
    def __init__(self):
        super().__init__()
        self.send = nn.ModuleList(nn.Linear(64, 64) for _ in range(2))
        self.join = nn.ModuleList(nn.Linear(128, 64) for _ in range(2))
        self.head = nn.Linear(64, 10)

    def forward(self, x, source, target):
        for send, join in zip(self.send, self.join):
            h = F.relu(send(x))
            h = torch.zeros_like(h).index_add(0, target, h[source])
            x = F.relu(join(torch.cat((x.to(h.dtype), h), 1)))
        return self.head(x)


def graph():
    net = Graph()
    return net, lambda x, source, target, y: F.cross_entropy(net(x, source, target), y)


def convnext():
    blocks = [Residual(nn.Sequential(nn.Conv2d(64, 64, 7, padding=3, groups=64), Permute(0, 2, 3, 1), nn.LayerNorm(64),
                                     nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), Permute(0, 3, 1, 2)))
              for _ in range(3)]
    return classifies(nn.Sequential(nn.Conv2d(3, 64, 4, 4), *blocks, Mean(2, 3), nn.LayerNorm(64),
                                    nn.Linear(64, 100)))


class Noised(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.norm1, self.conv1, self.time = nn.GroupNorm(8, a), nn.Conv2d(a, b, 3, padding=1), nn.Linear(64, b)
        self.norm2, self.conv2 = nn.GroupNorm(8, b), nn.Conv2d(b, b, 3, padding=1)
        self.beside = nn.Identity() if a == b else nn.Conv2d(a, b, 1)

    def forward(self, x, time):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(time)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.beside(x)


class Diffusion(nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.a, self.down = nn.Conv2d(3, 32, 3, padding=1), Noised(32, 32), nn.Conv2d(32, 64, 3, 2, 1)
        self.b, self.up, self.c = Noised(64, 64), nn.Conv2d(64, 32, 3, padding=1), Noised(64, 32)
        self.last = nn.Conv2d(32, 3, 3, padding=1)

    def forward(self, x, time):
        a = self.a(self.first(x), time)
        x = self.up(F.interpolate(self.b(self.down(a), time), scale_factor=2))
        return self.last(self.c(torch.cat((a, x), 1), time))


def diffusion():
    net = Diffusion()
    return net, lambda x, time, y: F.mse_loss(net(x, time).float(), y)


def tcn():
    blocks = [Residual(nn.Sequential(nn.ConstantPad1d((2 * far, 0), 0.0), nn.Conv1d(32, 32, 3, dilation=far),
                                     nn.ReLU())) for far in (1, 2, 4, 8)]
    return classifies(nn.Sequential(*blocks, Mean(2), nn.Linear(32, 10)))


class Nerf(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(39 if i == 0 else 167 if i == 3 else 128, 128) for i in range(6))
        self.head = nn.Linear(128, 4)

    def forward(self, x):
        code = torch.cat([x] + [f(x * 2**k) for k in range(6) for f in (torch.sin, torch.cos)], 1)
        x = code
        for i, layer in enumerate(self.layers):
            x = F.relu(layer(torch.cat((x, code.to(x.dtype)), 1) if i == 3 else x))
        return torch.sigmoid(self.head(x))


def nerf():
    net = Nerf()
    return net, lambda x, y: F.mse_loss(net(x).float(), y)


NETWORKS = {"mobilenet": mobilenet, "unet": lambda: labels_pixels(UNet()), "deeplab": lambda: labels_pixels(DeepLab()),
            "llama": llama, "vit": vit, "lstm": lambda: classifies(Lstm()), "dlrm": dlrm, "graph": graph,
            "convnext": convnext, "diffusion": diffusion, "tcn": tcn, "nerf": nerf}


def inputs_of(text):
    for part in text.split():
        dims = [int(n) for n in part[part.index("[") + 1 : -1].split(",")]
        if part[0] == "i":
            yield torch.randint(int(part[1 : part.index("[")]), dims)
        else:
            yield torch.rand(dims) if part[0] == "u" else torch.rand(dims) * 2 - 1


def pytorch(row, dtype, seconds, compiles):
    torch._dynamo.reset()
    net, loss = NETWORKS[row["name"]]()
    x, optimizer = list(inputs_of(row["inputs"])), torch.optim.AdamW(net.parameters(), lr=1e-3, weight_decay=0,
                                                                     fused=True)
    if compiles:
        loss = torch.compile(loss)

    def step():
        optimizer.zero_grad()
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == "bf16"):
            y = loss(*x)
        y.backward()
        optimizer.step()
        return y.item()

    for _ in range(WARM_UP):
        step()
    least, begin = math.inf, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        step()
        least = min(least, time.perf_counter() - start)
    return 1e3 * least, sum(p.numel() for p in net.parameters())


def ours(a, row, dtype):
    environment = {**os.environ, "TCC_NUM_THREADS": str(a.threads), "TCC_CACHE_DISABLE": "1"}
    done = subprocess.run([a.program, row["name"], dtype, str(a.seconds)], env=environment, capture_output=True,
                          text=True, timeout=900)
    if done.returncode:
        sys.exit(f"networks.py: {row['name']} {dtype}: {done.stderr.strip()}")
    figures = json.loads(done.stdout.splitlines()[-1])
    return figures["step_ms"], figures["parameters"]


def measure(a, row, dtype):
    figures = {"network": row["name"], "type": dtype, "threads": a.threads}
    sides = {"traincc_ms": lambda: ours(a, row, dtype),
             "pytorch_ms": lambda: pytorch(row, dtype, a.seconds, False)}
    if not a.no_compile:
        sides["compiled_ms"] = lambda: pytorch(row, dtype, a.seconds, True)
    for _ in range(a.rounds):
        for side, run in sides.items():
            ms, parameters = run()
            if figures.setdefault("parameters", parameters) != parameters:
                sys.exit(f"networks.py: {row['name']} has {figures['parameters']} and {parameters} parameters")
            figures[side] = round(min(figures.get(side, math.inf), ms), 4)
    figures["ratio"] = round(figures["traincc_ms"] / min(figures[s] for s in list(sides)[1:]), 3)
    return figures


def table(results):
    lines = ["| network | type | ours, ms | PyTorch | compiled | ratio |", "| --- | --- | --- | --- | --- | --- |"]
    lines += [f"| {f['network']} | {f['type']} | {f['traincc_ms']:.2f} | {f['pytorch_ms']:.2f} | "
              f"{f.get('compiled_ms', math.nan):.2f} | **{f['ratio']:.2f}** |" for f in results]
    for dtype in sorted({f["type"] for f in results}):
        ratios = [f["ratio"] for f in results if f["type"] == dtype]
        lines.append(f"\n{dtype}: geometric mean {math.exp(sum(map(math.log, ratios)) / len(ratios)):.2f}, "
                     f"{min(ratios):.2f} to {max(ratios):.2f}")
    above = [f for f in results if f["ratio"] > AIMS[f["type"]]]
    lines += ["\nAbove 0.60 in f32 or 0.50 in bf16, and what bounds that where it is known:\n"] if above else []
    for f in above:
        bound = BOUNDS.get((f["network"], f["type"]))
        lines.append(f"- {f['network']} {f['type']} {f['ratio']:.2f}" + (f": {bound}" if bound else ""))
    return "\n".join(lines)


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--program", default=os.path.join(ROOT, "build", "bin", "bench-networks"), help="ours")
    p.add_argument("--only", help="comma-separated names")
    p.add_argument("--types", default="f32,bf16")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--seconds", type=float, default=1, help="for a measurement")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile")
    p.add_argument("--note", default="", help="said above the table")
    p.add_argument("--json", help="write all figures here")
    p.add_argument("--markdown", help="write the table here, which is always printed")
    return p.parse_args()


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    listed = subprocess.run([a.program, "--list"], capture_output=True, text=True, check=True).stdout
    rows = {row["name"]: row for row in map(json.loads, listed.splitlines())}
    names = a.only.split(",") if a.only else list(rows)
    if set(names) - set(rows) or set(rows) != set(NETWORKS):
        sys.exit(f"networks.py: networks.c has {', '.join(rows)}; networks.py has {', '.join(NETWORKS)}")
    results = []
    for name in names:
        for dtype in a.types.split(","):
            results.append(measure(a, rows[name], dtype))
            print(results[-1], file=sys.stderr, flush=True)
    print(table(results))
    if a.json:
        with open(a.json, "w") as file:
            json.dump({"torch": torch.__version__, "note": a.note, "results": results}, file, indent=1)
            file.write("\n")
    if a.markdown:
        with open(a.markdown, "w") as file:
            words = f"PyTorch {torch.__version__}, threads: {a.threads}. {a.note}".rstrip()
            file.write(f"<!-- made by networks.py --markdown -->\n{words}\n\n{table(results)}\n")


main()
