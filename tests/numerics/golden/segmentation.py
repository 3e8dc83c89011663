# SPDX-License-Identifier: MIT
"""The segmentation networks of frontend/models in PyTorch, with super-gradients' names. Dropout is left out: draws
cannot be compared. All channels and names stand here again, for this is what ours are held to. And what they are given:
numbers from a hash of a tensor's name and an element's place, as in tests/bench/segmentation.c."""
import math

import numpy as np
import torch
from torch import nn
import torch.nn.functional as F


def resize(x, size, corners=False):
    return F.interpolate(x, size, mode="bilinear", align_corners=corners)


def sizes(x):
    return x.shape[2:]


class Seq(nn.Module):
    """Convolution and batch norm under "seq", ReLU unless said otherwise."""
    def __init__(self, i, o, k, s=1, g=1, relu=True, bias=False):
        super().__init__()
        self.seq = nn.Sequential()
        self.seq.add_module("conv", nn.Conv2d(i, o, k, s, k // 2, groups=g, bias=bias))
        self.seq.add_module("bn", nn.BatchNorm2d(o))
        self.relu = relu

    def forward(self, x):
        x = self.seq(x)
        return F.relu(x) if self.relu else x


class SegHead(nn.Module):
    def __init__(self, i, middle, classes):
        super().__init__()
        self.seg_head = nn.Sequential(Seq(i, middle, 3), nn.Identity(), nn.Conv2d(middle, classes, 1, bias=False))

    def forward(self, x):
        return self.seg_head(x)


def head(i, middle, classes):
    return nn.Sequential(SegHead(i, middle, classes))


# -- STDC --

class StdcBlock(nn.Module):
    def __init__(self, i, o, stride):
        super().__init__()
        half, self.stride = o // 2, stride
        second = Seq(half, o // 4, 3)
        if stride == 2:
            second = nn.Sequential(Seq(half, half, 3, 2, half, relu=False), second)
        self.conv_list = nn.ModuleList([Seq(i, half, 1), second, Seq(o // 4, o // 8, 3), Seq(o // 8, o // 8, 3)])

    def forward(self, x):
        x = self.conv_list[0](x)
        parts = [F.avg_pool2d(x, 3, 2, 1) if self.stride == 2 else x]
        for conv in list(self.conv_list)[1:]:
            x = conv(x)
            parts.append(x)
        return torch.cat(parts, 1)


class Stdc(nn.Module):
    def __init__(self, blocks):
        super().__init__()
        self.stages = nn.ModuleDict({"block_s2": nn.Sequential(Seq(3, 32, 3, 2)),
                                     "block_s4": nn.Sequential(Seq(32, 64, 3, 2))})
        i = 64
        for name, o, n in zip(("block_s8", "block_s16", "block_s32"), (256, 512, 1024), blocks):
            self.stages[name] = nn.Sequential(*[StdcBlock(o if k else i, o, 1 if k else 2) for k in range(n)])
            i = o

    def forward(self, x):
        maps = []
        for stage in self.stages.values():
            x = stage(x)
            maps.append(x)
        return maps[2:]


STDC = {1: (2, 2, 2), 2: (4, 5, 3)}


class Arm(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv_first = Seq(i, o, 3)
        self.attention_block = nn.Sequential(nn.AdaptiveAvgPool2d(1), Seq(o, o, 1, relu=False), nn.Sigmoid())

    def forward(self, x):
        x = self.conv_first(x)
        return x * self.attention_block(x)


class ContextEmbedding(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.context_embedding = nn.Sequential(nn.AdaptiveAvgPool2d(1), Seq(i, o, 1))

    def forward(self, x):
        return F.interpolate(self.context_embedding(x), sizes(x), mode="nearest")


class ContextPath(nn.Module):
    def __init__(self, variant):
        super().__init__()
        self.backbone = Stdc(STDC[variant])
        self.context_embedding = ContextEmbedding(1024, 128)
        self.arm32, self.arm16 = Arm(1024, 128), Arm(512, 128)
        self.upsample32 = nn.Sequential(nn.Upsample(scale_factor=2), Seq(128, 128, 3))
        self.upsample16 = nn.Sequential(nn.Upsample(scale_factor=2), Seq(128, 128, 3))

    def forward(self, x):
        f8, f16, f32 = self.backbone(x)
        y = self.upsample32(self.arm32(f32) + self.context_embedding(f32))
        return f8, f16, f32, self.upsample16(self.arm16(f16) + y)


class Ffm(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        first = nn.Module()
        first.seq = nn.Sequential()
        first.seq.add_module("conv", nn.Conv2d(o, o // 4, 1, bias=False))
        self.pw_conv, self.attention_block = Seq(i, o, 1), nn.ModuleList(
            [nn.Identity(), first, nn.Conv2d(o // 4, o, 1, bias=False)])

    def forward(self, a, b):
        w = self.pw_conv(torch.cat([a, b], 1))
        y = F.relu(self.attention_block[1].seq(w.mean((2, 3), keepdim=True)))
        return w * torch.sigmoid(self.attention_block[2](y)) + w


class StdcSeg(nn.Module):
    def __init__(self, variant, classes):
        super().__init__()
        self.cp, self.ffm = ContextPath(variant), Ffm(384, 256)
        self.segmentation_head = head(256, 256, classes)
        self.aux_head_s32, self.aux_head_s16 = head(1024, 64, classes), head(512, 64, classes)
        self.detail_head8 = head(256, 64, 1)

    def forward(self, x):
        f8, f16, f32, path = self.cp(x)
        maps = [self.segmentation_head(self.ffm(f8, path)), self.aux_head_s32(f32), self.aux_head_s16(f16),
                self.detail_head8(f8)]
        return [resize(m, sizes(x), True) for m in maps]


# -- PP-LiteSeg --

class Sppm(nn.Module):
    def __init__(self):
        super().__init__()
        self.branches = nn.ModuleList([nn.Sequential(nn.AdaptiveAvgPool2d(n), Seq(1024, 128, 1)) for n in (1, 2, 4)])
        self.conv_out = Seq(128, 128, 3)

    def forward(self, x):
        return self.conv_out(sum(resize(b(x), sizes(x)) for b in self.branches))


class Uafm(nn.Module):
    def __init__(self, i, o):
        super().__init__()
        self.conv_atten = nn.Sequential(Seq(4, 2, 3), Seq(2, 1, 3, relu=False))
        self.conv_out = Seq(i, o, 3)

    def forward(self, x, skip):
        x = resize(x, sizes(skip))
        maps = [m for t in (x, skip) for m in (t.mean(1, keepdim=True), t.max(1, keepdim=True).values)]
        a = torch.sigmoid(self.conv_atten(torch.cat(maps, 1)))
        return self.conv_out(x * a + skip * (1 - a))


class LiteEncoder(nn.Module):
    def __init__(self, stdc, projections):
        super().__init__()
        self.backbone, self.context_module = Stdc(STDC[stdc]), Sppm()
        self.proj_convs = nn.ModuleList([Seq(i, o, 3) for i, o in zip((256, 512, 1024), projections)])

    def forward(self, x):
        maps = self.backbone(x)
        return self.context_module(maps[2]), [conv(m) for conv, m in zip(self.proj_convs, maps)]


class LiteDecoder(nn.Module):
    def __init__(self, inputs, outputs):
        super().__init__()
        self.up_stages = nn.ModuleList([Uafm(i, o) for i, o in zip(inputs, outputs)])


class PpLiteSeg(nn.Module):
    def __init__(self, variant, classes):
        super().__init__()
        stdc, projections, decoder, middle = {"T": (1, (64, 128, 128), (128, 64, 32), 32),
                                              "B": (2, (96, 128, 128), (128, 96, 64), 64)}[variant]
        self.encoder = LiteEncoder(stdc, projections)
        self.decoder = LiteDecoder((128, *decoder[:2]), decoder)
        self.seg_head = head(decoder[2], middle, classes)
        self.aux_heads = nn.ModuleList([head(p, m, classes) for p, m in zip(projections, (32, 64, 64))])

    def forward(self, x):
        y, maps = self.encoder(x)
        for stage, skip in zip(self.decoder.up_stages, reversed(maps)):
            y = stage(y, skip)
        return [resize(m, sizes(x)) for m in (self.seg_head(y), *[h(m) for h, m in zip(self.aux_heads, maps)])]


# -- DDRNet --

def conv_bn(i, o, k, s=1, bias=False):
    return nn.Sequential(nn.Conv2d(i, o, k, s, k // 2, bias=bias), nn.BatchNorm2d(o))


class Basic(nn.Module):
    def __init__(self, i, o, s=1, relu=True):
        super().__init__()
        self.conv1, self.bn1 = conv_bn(i, o, 3, s)
        self.conv2, self.bn2 = conv_bn(o, o, 3)
        self.shortcut = conv_bn(i, o, 1, s) if s > 1 or i != o else nn.Identity()
        self.relu = relu

    def forward(self, x):
        y = self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))) + self.shortcut(x)
        return F.relu(y) if self.relu else y


class Bottleneck(nn.Module):
    def __init__(self, i, o, s=1):
        super().__init__()
        self.conv1, self.bn1 = conv_bn(i, o, 1)
        self.conv2, self.bn2 = conv_bn(o, o, 3, s)
        self.conv3, self.bn3 = conv_bn(o, 2 * o, 1)
        self.shortcut = conv_bn(i, 2 * o, 1, s)

    def forward(self, x):
        y = F.relu(self.bn2(self.conv2(F.relu(self.bn1(self.conv1(x))))))
        return self.bn3(self.conv3(y)) + self.shortcut(x)


def layer(i, o, s=1):
    return nn.Sequential(Basic(i, o, s), Basic(o, o, relu=False))


def bn_conv(i, o, k, *before):
    return nn.Sequential(*before, nn.BatchNorm2d(i), nn.ReLU(), nn.Conv2d(i, o, k, padding=k // 2, bias=False))


class Dappm(nn.Module):
    def __init__(self, i, middle, o):
        super().__init__()
        pools = [(), *[(nn.AvgPool2d(2 * s + 1, s, s),) for s in (2, 4, 8)], (nn.AdaptiveAvgPool2d(1),)]
        self.branches = nn.ModuleList()
        for k, pool in enumerate(pools):
            branch = nn.Module()
            branch.down_scale = bn_conv(i, middle, 1, *pool)
            if k:
                branch.process = bn_conv(middle, middle, 3)
            self.branches.append(branch)
        self.compression, self.shortcut = bn_conv(5 * middle, o, 1), bn_conv(i, o, 1)

    def forward(self, x):
        maps = []
        for k, branch in enumerate(self.branches):
            y = resize(branch.down_scale(x), sizes(x))
            maps.append(branch.process(y + maps[-1]) if k else y)
        return self.compression(torch.cat(maps, 1)) + self.shortcut(x)


class DdrHead(nn.Module):
    def __init__(self, i, middle, classes):
        super().__init__()
        self.bn1, self.conv1 = nn.BatchNorm2d(i), nn.Conv2d(i, middle, 3, padding=1, bias=False)
        self.bn2, self.conv2 = nn.BatchNorm2d(middle), nn.Conv2d(middle, classes, 1)

    def forward(self, x):
        return self.conv2(F.relu(self.bn2(self.conv1(F.relu(self.bn1(x))))))


class DdrNet(nn.Module):
    def __init__(self, slim, classes):
        super().__init__()
        w = 32 if slim else 64
        high = 2 * w
        self._backbone = nn.Module()
        self._backbone.stem = nn.Sequential(conv_bn(3, w, 3, 2, True), conv_bn(w, w, 3, 2, True))
        self._backbone.layer1, self._backbone.layer2 = layer(w, w), layer(w, 2 * w, 2)
        self._backbone.layer3, self._backbone.layer4 = nn.ModuleList([layer(2 * w, 4 * w, 2)]), layer(4 * w, 8 * w, 2)
        self.compression3, self.compression4 = nn.ModuleList([conv_bn(4 * w, high, 1)]), conv_bn(8 * w, high, 1)
        self.down3 = nn.ModuleList([conv_bn(high, 4 * w, 3, 2)])
        self.down4 = nn.ModuleList([conv_bn(high, 4 * w, 3, 2), conv_bn(4 * w, 8 * w, 3, 2)])
        self.layer3_skip, self.layer4_skip = nn.ModuleList([layer(high, high)]), layer(high, high)
        self.layer5_skip = nn.Sequential(Bottleneck(high, high))
        self.layer5 = nn.Sequential(Bottleneck(8 * w, 8 * w, 2))
        self.spp = Dappm(16 * w, 128, 2 * high)
        self.final_layer, self.seghead_extra = DdrHead(2 * high, high, classes), DdrHead(high, high, classes)

    def forward(self, x):
        b, size = self._backbone, sizes(x)
        for conv in b.stem:
            x = F.relu(conv(x))
        x = F.relu(b.layer2(F.relu(b.layer1(x))))
        low, detail = b.layer3[0](x), self.layer3_skip[0](x)
        found = self.compression3[0](F.relu(low))
        low = low + self.down3[0](F.relu(detail))
        detail = early = detail + resize(found, sizes(detail))
        low, detail = b.layer4(F.relu(low)), self.layer4_skip(F.relu(detail))
        found = self.compression4(F.relu(low))
        low = low + self.down4[1](F.relu(self.down4[0](F.relu(detail))))
        detail = detail + resize(found, sizes(detail))
        detail, low = self.layer5_skip(F.relu(detail)), self.spp(self.layer5(F.relu(low)))
        y = self.final_layer(resize(low, sizes(detail)) + detail)
        return [resize(m, size) for m in (y, self.seghead_extra(early))]


# -- RegSeg --

class Split(nn.Module):
    def __init__(self, channels, far):
        super().__init__()
        half = channels // 2
        self.convs = nn.ModuleList([nn.Conv2d(half, half, 3, 1, d, d, half // 16, bias=False) for d in (1, far)])

    def forward(self, x):
        return torch.cat([conv(h) for conv, h in zip(self.convs, x.chunk(2, 1))], 1)


class Excitation(nn.Module):
    def __init__(self, i, middle):
        super().__init__()
        self.se_block = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Conv2d(i, middle, 1), nn.ReLU(),
                                      nn.Conv2d(middle, i, 1), nn.Sigmoid())

    def forward(self, x):
        return x * self.se_block(x)


class DBlock(nn.Module):
    def __init__(self, i, o, stride, far):
        super().__init__()
        grouped = Split(o, far) if far > 1 else nn.Conv2d(o, o, 3, stride, 1, groups=o // 16, bias=False)
        self.d_block_path = nn.Sequential(Seq(i, o, 1), grouped, nn.BatchNorm2d(o), nn.ReLU(), Excitation(o, i // 4),
                                          Seq(o, o, 1, relu=False))
        self.shortcut = nn.Module()
        self.same = stride == 1 and i == o
        if not self.same:
            pool = nn.AvgPool2d(2, 2, ceil_mode=True) if stride > 1 else nn.Identity()
            self.shortcut.shortcut = nn.Sequential(pool, Seq(i, o, 1, relu=False))

    def forward(self, x):
        return F.relu(self.d_block_path(x) + (x if self.same else self.shortcut.shortcut(x)))


class RegSeg(nn.Module):
    BLOCKS = [[(48, 1)], [(128, 1)] * 3,
              [(256, 1)] * 2 + [(256, 2)] + [(256, 4)] * 4 + [(256, 14)] * 6 + [(320, 14)]]

    def __init__(self, classes):
        super().__init__()
        self.stem, self.backbone, i = Seq(3, 32, 3, 2, bias=True), nn.Module(), 32
        self.backbone.stages = nn.ModuleList()
        for stage in self.BLOCKS:
            blocks = {}
            for k, (o, far) in enumerate(stage):
                dilations = [1] if far == 1 else [1, far]
                stride = 1 if k else 2
                name = f"DBlock_in{i}_out{o}_d{dilations}_gw16_s{stride}_se4#{k}"
                blocks[name] = DBlock(i, o, stride, far)
                i = o
            self.backbone.stages.append(nn.ModuleDict(blocks))
        self.decoder = nn.Module()
        self.decoder.projections = nn.ModuleList([Seq(48, 8, 1), Seq(128, 128, 1), Seq(320, 128, 1)])
        self.decoder.conv_bn_relu = Seq(128, 64, 3)
        self.head = nn.Module()
        self.head.head = nn.Sequential(Seq(72, 64, 3), nn.Conv2d(64, classes, 1))

    def forward(self, x):
        y, maps = self.stem(x), []
        for stage in self.backbone.stages:
            for block in stage.values():
                y = block(y)
            maps.append(y)
        d4, d8, d16 = [p(m) for p, m in zip(self.decoder.projections, maps)]
        y = self.decoder.conv_bn_relu(resize(d16, sizes(d8), True) + d8)
        y = self.head.head(torch.cat([resize(y, sizes(d4), True), d4], 1))
        return [resize(y, sizes(x))]


# -- SegFormer --

def tokens(x):
    return x.flatten(2).transpose(1, 2)


class EfficientAttention(nn.Module):
    def __init__(self, c, heads, reduction):
        super().__init__()
        self.heads, self.reduction = heads, reduction
        self.q, self.kv, self.proj = nn.Linear(c, c), nn.Linear(c, 2 * c), nn.Linear(c, c)
        if reduction > 1:
            self.sr, self.norm = nn.Conv2d(c, c, reduction, reduction), nn.LayerNorm(c)

    def forward(self, x, size):
        n, length, c = x.shape
        q = self.q(x).reshape(n, length, self.heads, -1).transpose(1, 2)
        if self.reduction > 1:
            x = self.norm(tokens(self.sr(x.transpose(1, 2).reshape(n, c, *size))))
        k, v = self.kv(x).reshape(n, -1, 2, self.heads, c // self.heads).permute(2, 0, 3, 1, 4)
        a = (q @ k.transpose(-2, -1) * (c // self.heads) ** -0.5).softmax(-1)
        return self.proj((a @ v).transpose(1, 2).reshape(n, length, c))


class MixFfn(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(c, 4 * c), nn.Linear(4 * c, c)
        self.dwconv = nn.Conv2d(4 * c, 4 * c, 3, 1, 1, groups=4 * c)

    def forward(self, x, size):
        x = self.fc1(x)
        x = self.dwconv(x.transpose(1, 2).reshape(x.shape[0], -1, *size))
        return self.fc2(F.gelu(tokens(x)))


class SegFormer(nn.Module):
    def __init__(self, variant, classes):
        super().__init__()
        dims = ((32, 64, 160, 256), (64, 128, 320, 512))[variant]
        self._backbone, self.decode_head, i = nn.Module(), nn.Module(), 3
        for s, (c, heads, r) in enumerate(zip(dims, (1, 2, 5, 8), (8, 4, 2, 1)), 1):
            embed = nn.Module()
            embed.proj = nn.Conv2d(i, c, 3 if i > 3 else 7, 2 if i > 3 else 4, 1 if i > 3 else 3)
            embed.norm = nn.LayerNorm(c)
            blocks = nn.ModuleList()
            for _ in range(2):
                block = nn.Module()
                block.norm1, block.attn = nn.LayerNorm(c), EfficientAttention(c, heads, r)
                block.norm2, block.mlp = nn.LayerNorm(c), MixFfn(c)
                blocks.append(block)
            setattr(self._backbone, f"patch_embed{s}", embed)
            setattr(self._backbone, f"block{s}", blocks)
            setattr(self._backbone, f"norm{s}", nn.LayerNorm(c))
            linear = nn.Module()
            linear.proj = nn.Linear(c, 256)
            setattr(self.decode_head, f"linear_c{s}", linear)
            i = c
        self.decode_head.linear_fuse = Seq(1024, 256, 1)
        self.decode_head.linear_pred = nn.Conv2d(256, classes, 1)

    def forward(self, x):
        y, maps = x, []
        for s in range(1, 5):
            embed = getattr(self._backbone, f"patch_embed{s}")
            y = embed.proj(y)
            size = sizes(y)
            y = embed.norm(tokens(y))
            for block in getattr(self._backbone, f"block{s}"):
                y = y + block.attn(block.norm1(y), size)
                y = y + block.mlp(block.norm2(y), size)
            y = getattr(self._backbone, f"norm{s}")(y).transpose(1, 2).reshape(x.shape[0], -1, *size)
            linear = getattr(self.decode_head, f"linear_c{s}").proj(tokens(y))
            maps.append(linear.transpose(1, 2).reshape(x.shape[0], -1, *size))
        maps = [resize(m, sizes(maps[0])) for m in reversed(maps)]
        y = self.decode_head.linear_pred(self.decode_head.linear_fuse(torch.cat(maps, 1)))
        return [resize(y, sizes(x))]


# name: the network of that many classes
NETWORKS = {
    "pp_liteseg_t": lambda c: PpLiteSeg("T", c),
    "pp_liteseg_b": lambda c: PpLiteSeg("B", c),
    "stdc1_seg": lambda c: StdcSeg(1, c),
    "stdc2_seg": lambda c: StdcSeg(2, c),
    "ddrnet_23_slim": lambda c: DdrNet(True, c),
    "ddrnet_23": lambda c: DdrNet(False, c),
    "regseg": RegSeg,
    "segformer_b0": lambda c: SegFormer(0, c),
    "segformer_b1": lambda c: SegFormer(1, c),
}
# The loss of its heads, and their weights.
LOSSES = {
    "pp_liteseg": ("edge_dice", (1, 1, 1, 1)),
    "stdc": ("ohem", (1, 0.6, 0.4)),  # and that of details
    "ddrnet": ("edge_dice", (1, 0.4)),
    "regseg": ("cross_entropy", (1,)),
    "segformer": ("cross_entropy", (1,)),
}


def loss_of(name):
    return next(loss for family, loss in LOSSES.items() if name.startswith(family))


# -- Numbers --

def drawn(name, count):
    """`count` numbers in [-1, 1): SplitMix64 of FNV-1a of the name, counted on."""
    h = 0xcbf29ce484222325
    for c in name.encode():
        h = (h ^ c) * 0x100000001b3 % 2**64
    with np.errstate(over="ignore"):
        z = np.uint64(h) + np.arange(1, count + 1, dtype=np.uint64) * np.uint64(0x9e3779b97f4a7c15)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xbf58476d1ce4e5b9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94d049bb133111eb)
        z ^= z >> np.uint64(31)
    return (z >> np.uint64(40)).astype(np.float64) / 2**23 - 1  # float32 holds them


def begin(net):
    """Sets parameters: weights as large as He's, factors around 1."""
    with torch.no_grad():
        for name, p in net.named_parameters():
            u = torch.from_numpy(drawn(name, p.numel())).reshape(p.shape)
            if p.dim() > 1:
                u = u * math.sqrt(6 / math.prod(p.shape[1:]))
            else:
                u = 1 + u / 4 if name.endswith("weight") else u / 8
            p.copy_(u.float())


def batch(n, h, w, classes):
    """Images in float64 and labels in squares of 8 x 8, some of which are `classes`: ignored."""
    x = torch.from_numpy(drawn("x", n * 3 * h * w)).reshape(n, 3, h, w) * 2
    blocks = torch.from_numpy(drawn("y", n * (h // 8) * (w // 8))).reshape(n, h // 8, w // 8)
    labels = ((blocks + 1) / 2 * (classes + 1)).long()
    return x, labels.repeat_interleave(8, 1).repeat_interleave(8, 2)
