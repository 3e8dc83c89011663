# SPDX-License-Identifier: MIT
"""The benchmark's models in PyTorch; configs.py says what they are. Parameter names are the customary ones."""
import functools
import math
import os
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
import torch.utils.checkpoint

import configs

sys.path.append(os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "numerics", "golden"))
import segmentation  # noqa: E402


class Block(nn.Module):
    def __init__(self, width, heads, bias, gelu):
        super().__init__()
        self.heads, self.gelu = heads, gelu
        self.ln_1 = nn.LayerNorm(width, bias=bias)
        self.attn = nn.ModuleDict(
            dict(c_attn=nn.Linear(width, 3 * width, bias=bias), c_proj=nn.Linear(width, width, bias=bias))
        )
        self.ln_2 = nn.LayerNorm(width, bias=bias)
        self.mlp = nn.ModuleDict(
            dict(c_fc=nn.Linear(width, 4 * width, bias=bias), c_proj=nn.Linear(4 * width, width, bias=bias))
        )

    def forward(self, x):
        batch, time, width = x.shape
        q, k, v = (t.view(batch, time, self.heads, width // self.heads).transpose(1, 2)
                   for t in self.attn["c_attn"](self.ln_1(x)).split(width, dim=2))
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.attn["c_proj"](y.transpose(1, 2).reshape(batch, time, width))
        return x + self.mlp["c_proj"](F.gelu(self.mlp["c_fc"](self.ln_2(x)), approximate=self.gelu))


class GPT(nn.Module):
    def __init__(self, layers, heads, width, positions, vocab, bias, gelu="none"):
        super().__init__()
        self.transformer = nn.ModuleDict(
            dict(
                wte=nn.Embedding(vocab, width),
                wpe=nn.Embedding(positions, width),
                h=nn.ModuleList(Block(width, heads, bias, gelu) for _ in range(layers)),
                ln_f=nn.LayerNorm(width, bias=bias),
            )
        )
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02 / math.sqrt(2 * layers) if name.endswith("c_proj.weight") else 0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, tokens):
        t = self.transformer
        x = t["wte"](tokens) + t["wpe"].weight[:tokens.shape[1]]
        for block in t["h"]:
            x = block(x)
        return F.linear(t["ln_f"](x), t["wte"].weight).flatten(0, 1)


class BasicBlock(nn.Module):
    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != outputs:
            self.downsample = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x)))))
        return F.relu(y + self.downsample(x))


class ResNet18(nn.Module):
    def __init__(self, width=64, classes=10):
        super().__init__()
        self.conv1 = nn.Conv2d(3, width, 3, 1, 1, bias=False)
        self.bn1 = nn.BatchNorm2d(width)
        inputs = width
        for stage in range(4):
            outputs = width << stage
            blocks = [BasicBlock(inputs, outputs, 1 if stage == 0 else 2), BasicBlock(outputs, outputs, 1)]
            setattr(self, f"layer{stage + 1}", nn.Sequential(*blocks))
            inputs = outputs
        self.fc = nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.relu(self.bn1(self.conv1(x)))
        for stage in (self.layer1, self.layer2, self.layer3, self.layer4):
            x = stage(x)
        return self.fc(x.mean((2, 3)))


class Bottleneck(nn.Module):
    def __init__(self, inputs, width, stride):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inputs, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width)
        self.downsample = nn.Sequential()
        if stride != 1 or inputs != 4 * width:
            self.downsample = nn.Sequential(
                nn.Conv2d(inputs, 4 * width, 1, stride, bias=False), nn.BatchNorm2d(4 * width)
            )

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return F.relu(self.bn3(self.conv3(y)) + self.downsample(x))


class ResNet50(nn.Module):
    def __init__(self, classes=1000):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64)
        inputs, stages = 64, []
        for stage, count in enumerate((3, 4, 6, 3)):
            for block in range(count):
                stages.append(Bottleneck(inputs, 64 << stage, 2 if stage and not block else 1))
                inputs = 256 << stage
        self.stages, self.fc = nn.Sequential(*stages), nn.Linear(inputs, classes)

    def forward(self, x):
        x = F.max_pool2d(F.relu(self.bn1(self.conv1(x))), 3, 2, 1)
        return self.fc(self.stages(x).mean((2, 3)))


class CNN(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv1, self.conv2 = nn.Conv2d(1, 32, 3, padding=1), nn.Conv2d(32, 64, 3, padding=1)
        self.fc1, self.fc2 = nn.Linear(3136, 128), nn.Linear(128, 10)

    def forward(self, x):
        for conv in (self.conv1, self.conv2):
            x = F.max_pool2d(F.relu(conv(x)), 2)
        return self.fc2(F.relu(self.fc1(x.flatten(1))))


class MLP(nn.Module):
    def __init__(self, sizes):
        super().__init__()
        self.count = len(sizes) - 1
        for i in range(self.count):
            setattr(self, f"fc{i + 1}", nn.Linear(sizes[i], sizes[i + 1]))

    def forward(self, x):
        for i in range(1, self.count):
            x = F.relu(getattr(self, f"fc{i}")(x))
        return getattr(self, f"fc{self.count}")(x)


class LSTM(nn.Module):
    def __init__(self, width, classes=10):
        super().__init__()
        self.lstm, self.fc = nn.LSTM(width, width), nn.Linear(width, classes)

    def forward(self, x):
        return self.fc(self.lstm(x)[1][0][0])


# -- Losses of segmentation: as PyTorch takes them without waiting for data or breaking the graph --

def spread(x, width, pad):
    """Maxima and minima of windows that are `width` wide."""
    x = F.pad(x.float()[:, None], (width // 2,) * 4, **pad)
    return F.max_pool2d(x, width, 1)[:, 0], -F.max_pool2d(-x, width, 1)[:, 0]


def edge_dice(heads, labels, ignored, weights):
    most, least = spread(labels, 5, dict(mode="replicate"))
    edge, counts = most != least, labels != ignored
    one_hot = labels[:, None] == torch.arange(ignored, device=labels.device)[:, None, None]
    edges, pixels, loss = edge.sum().clamp(min=1), one_hot.sum((0, 2, 3)), 0
    for weight, x in zip(weights, heads):
        each = F.cross_entropy(x, labels, ignore_index=ignored, reduction="none")
        q = x.softmax(1) * counts[:, None]
        dice = 1 - (2 * (q * one_hot).sum((0, 2, 3)) + 1) / (q.sum((0, 2, 3)) + pixels + 1e-5 + 1)
        loss = loss + weight * (0.5 * each.mean() + 0.5 * (each * edge).sum() / edges + dice.mean())
    return loss


def ohem(x, labels, ignored):
    counts = (labels != ignored).flatten()
    each = F.cross_entropy(x, labels, ignore_index=ignored, reduction="none").flatten()
    each = torch.where(counts, each, -1.0).sort(descending=True).values
    n = counts.sum()
    k = torch.maximum((each > -math.log(0.7)).sum(), torch.minimum((0.0625 * n).long(), n - 1)).clamp(min=0)
    kept = torch.arange(each.numel(), device=x.device) < k
    return torch.where(kept, each, 0.0).sum() / k.clamp(min=1)


def detail(x, labels, ignored):
    most, least = spread(labels, 3, dict(value=-1))
    t = ((most != least) & (labels != ignored))[:, None]
    t = (t | F.interpolate(t[:, :, ::2, ::2].float(), scale_factor=2).bool()).float()
    s = x.sigmoid()
    share = 1 - (2 * (s * t).sum() + 1) / ((s + t).sum() + 1e-5 + 1)
    return F.binary_cross_entropy_with_logits(x, t) + share


def pixel_loss(name):
    """Of a network's heads."""
    ignored, (kind, weights) = configs.PIXEL_CLASSES, segmentation.loss_of(name)
    if kind == "edge_dice":
        return lambda heads, y: edge_dice(heads, y, ignored, weights)
    if kind == "ohem":
        return lambda heads, y: sum(w * ohem(h, y, ignored) for w, h in zip(weights, heads)) + detail(
            heads[3], y, ignored)
    return lambda heads, y: F.cross_entropy(heads[0], y, ignore_index=ignored)


# -- Models by name --

def model(name):
    m = configs.MODELS[name]
    if m["kind"] == "segmentation":
        net = segmentation.NETWORKS[name](configs.PIXEL_CLASSES)
        segmentation.begin(net)
        return net
    if m["kind"] == "gpt":
        return GPT(m["layers"], m["heads"], m["width"], configs.positions(m), m["vocab"], m["bias"])
    return {"cnn": CNN, "resnet18": ResNet18, "resnet50": ResNet50, "mlp": lambda: MLP(m["sizes"]),
            "lstm": lambda: LSTM(m["width"])}[m["kind"]]()


def optimizer(parameters, o, **options):
    parameters = list(parameters)
    groups = [dict(params=[p for p in parameters if p.dim() >= 2], weight_decay=o["weight_decay"]),
              dict(params=[p for p in parameters if p.dim() < 2], weight_decay=0.0)]
    groups = [g for g in groups if g["params"]]
    if o["name"] == "sgd":
        return torch.optim.SGD(parameters if o.get("decay_all", True) else groups, lr=o["lr"], momentum=o["momentum"],
                               nesterov=o["nesterov"], weight_decay=o["weight_decay"], **options)
    return torch.optim.AdamW(groups, lr=o["lr"], betas=o["betas"], eps=o["eps"], **options)


def batch(name):
    m = configs.MODELS[name]
    if m["kind"] == "segmentation":
        x, labels = segmentation.batch(m["batch"], *m["crop"], configs.PIXEL_CLASSES)
        return x.float(), labels
    x, targets = (torch.from_numpy(a) for a in configs.batch(name))
    return x.long() if x.dtype == torch.int32 else x, targets.long().flatten()


def checkpoint_blocks(net):
    """Backward computes the inside of each block again; only what lies between blocks is kept."""
    for block in net.modules():
        if isinstance(block, (Block, BasicBlock, Bottleneck)):
            block.forward = functools.partial(torch.utils.checkpoint.checkpoint, block.forward, use_reentrant=False)


def trainer(name, mode=None, device="cpu", checkpointed=False):
    """A function that does one whole training step and returns the loss: as a float on the CPU, on a GPU where it lies.
    `mode` is torch.compile's, None for eager. Fused optimizers: the fastest that eager has. Of ranks, each has its part
    of the batch."""
    torch.manual_seed(1)
    o, net = configs.MODELS[name]["optimizer"], model(name).to(device)
    if checkpointed:
        checkpoint_blocks(net)
    ranks = torch.distributed.get_world_size() if torch.distributed.is_initialized() else 1
    inputs, targets = (t[:len(t) // ranks].to(device) for t in batch(name))
    if inputs.dim() == 4:
        net, inputs = net.to(memory_format=torch.channels_last), inputs.contiguous(memory_format=torch.channels_last)
    if ranks > 1:
        net = torch.nn.parallel.DistributedDataParallel(net)
    parameters = list(net.parameters())
    opt = optimizer(parameters, o, fused=True)

    criterion = pixel_loss(name) if configs.MODELS[name]["kind"] == "segmentation" else F.cross_entropy
    low = {"bf16": torch.bfloat16, "fp16": torch.float16}.get(os.environ.get("TCC_BENCH_PRECISION"))

    def loss_of(x, y):
        with torch.autocast(device, dtype=low, enabled=low is not None):
            return criterion(net(x), y)

    if mode and ranks > 1:  # as PyTorch's manual has it: DDP's buckets are found where the module itself is compiled
        net = torch.compile(net, mode=mode)
    forward = torch.compile(loss_of, mode=mode) if mode and ranks == 1 else loss_of

    def step():
        loss = forward(inputs, targets)
        loss.backward()
        if o["clip"]:
            torch.nn.utils.clip_grad_norm_(parameters, o["clip"])
        opt.step()
        opt.zero_grad(set_to_none=True)
        return loss.item() if device == "cpu" else loss.detach()

    return step


def tiny_step(mode=None):
    """A step of a tiny model, after which the framework's code and tables are there."""
    net = nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8))
    opt = torch.optim.AdamW(net.parameters(), fused=True)

    def loss_of(x, y):
        return F.cross_entropy(net(x), y)

    (torch.compile(loss_of, mode=mode) if mode else loss_of)(torch.zeros(8, 8), torch.zeros(8).long()).backward()
    opt.step()
