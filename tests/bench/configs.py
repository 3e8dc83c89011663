# SPDX-License-Identifier: MIT
"""The models that the benchmark compares, once for all peers: sizes, batch, optimizer. tcc_bench.c follows the same
table.

GPT: pre-norm decoder, LayerNorm eps 1e-5, erf GELU, learned positions, head tied to the token embedding, no dropout;
`bias` is the bias of linears and norms. Loss: mean cross-entropy over all positions. The gradient is clipped to a
global L2 norm of 1 and AdamW decays tensors of two or more dimensions only. Weights N(0, 0.02), residual projections
N(0, 0.02 / sqrt(2 layers)). mnist_cnn: conv 3x3 1->32 pad 1, ReLU, max pool 2, conv 3x3 32->64 pad 1, ReLU, max pool 2,
linear 3136->128, ReLU, linear 128->10. resnet18_cifar: 3x3 stem without pooling, stages 64/128/256/512 of two basic
blocks, 1x1 convolution shortcuts, batch norm with running statistics (momentum 0.1, eps 1e-5); decay applies to every
parameter. resnet50: the ImageNet network, bottleneck blocks with the stride in the 3x3 convolution, 224 x 224 images,
1000 classes. mlp: 784-1024-1024-10 with ReLU. lstm_1000: one layer of width 128 over 1,000 steps, x (T, N, width); its
last state goes through a linear to 10 classes.

pp_liteseg_t, stdc1_seg, ddrnet_23, regseg, segformer_b0: segmentation networks with all their heads and losses, 19
classes and an ignored one, in the batches and crops that they are trained with on Cityscapes; without dropout, and
without an average of parameters. They begin with the same numbers on both sides, so that the first losses can be
compared. TCC_BENCH_CROP=256x512 is another height and width.

A step is forward, backward, clipping where the model has it, and the
optimizer; the batch is already in memory. TCC_BENCH_BATCH is another batch size. """
import os

ADAMW_GPT = dict(name="adamw", lr=1e-3, betas=(0.9, 0.99), eps=1e-8, weight_decay=0.1, clip=1.0)
ADAM = dict(name="adamw", lr=1e-3, betas=(0.9, 0.999), eps=1e-8, weight_decay=0.0, clip=0.0)
SGD = dict(name="sgd", lr=0.1, momentum=0.9, nesterov=False, weight_decay=5e-4, clip=0.0)

# A rate at which weights that nobody trained before stay finite for as long as is measured.
SGD_PIXELS = dict(SGD, lr=1e-3, decay_all=False)


def gpt(layers, heads, width, context, batch, vocab, bias):
    return dict(
        kind="gpt",
        layers=layers,
        heads=heads,
        width=width,
        context=context,
        batch=batch,
        vocab=vocab,
        bias=bias,
        optimizer=ADAMW_GPT,
    )


def pixels(batch, height, width, optimizer):
    return dict(kind="segmentation", batch=batch, crop=(height, width), optimizer=optimizer)


MODELS = {
    "char_gpt": gpt(4, 4, 128, 64, 12, 65, False),
    "gpt_10m": gpt(6, 6, 384, 256, 8, 65, False),
    "gpt2_124m": gpt(12, 12, 768, 64, 4, 50257, True),
    "gpt2_1024": gpt(12, 12, 768, 1024, 16, 50257, True),
    "mnist_cnn": dict(kind="cnn", batch=64, optimizer=ADAM),
    "resnet18_cifar": dict(kind="resnet18", batch=32, optimizer=SGD),
    "resnet50": dict(kind="resnet50", batch=128, optimizer=SGD),
    "mlp": dict(kind="mlp", sizes=(784, 1024, 1024, 10), batch=128, optimizer=ADAM),
    "lstm_1000": dict(kind="lstm", steps=1000, width=128, batch=32, optimizer=ADAM),
    "pp_liteseg_t": pixels(8, 768, 768, SGD_PIXELS),
    "stdc1_seg": pixels(4, 768, 1536, SGD_PIXELS),
    "ddrnet_23": pixels(6, 1024, 1024, SGD_PIXELS),
    "regseg": pixels(4, 1024, 1024, dict(SGD_PIXELS, decay_all=True)),
    "segformer_b0": pixels(2, 1024, 1024, ADAM),
}
SEGMENTATION = [name for name, sizes in MODELS.items() if sizes["kind"] == "segmentation"]
if os.environ.get("TCC_BENCH_BATCH"):
    for sizes in MODELS.values():
        sizes["batch"] = int(os.environ["TCC_BENCH_BATCH"])
if os.environ.get("TCC_BENCH_CROP"):
    for name in SEGMENTATION:
        MODELS[name]["crop"] = tuple(int(side) for side in os.environ["TCC_BENCH_CROP"].split("x"))
GPU_ONLY = ("gpt2_1024", "resnet50", *SEGMENTATION)  # hours on a CPU
PIXEL_CLASSES = 19
# Positions that GPT-2's table holds; the others' equals the context.
GPT2_POSITIONS = 1024


def batch(name, seed=1):
    """A batch of random data as numpy arrays: (tokens, targets) or (images NCHW / rows, labels)."""
    import numpy as np
    m, rng = MODELS[name], np.random.default_rng(seed)
    if m["kind"] == "gpt":
        text = rng.integers(0, m["vocab"], (m["batch"], m["context"] + 1), dtype=np.int32)
        return text[:, :-1].copy(), text[:, 1:].copy()
    if m["kind"] == "lstm":
        x = rng.standard_normal((m["steps"], m["batch"], m["width"]), dtype=np.float32)
        return x, rng.integers(0, 10, m["batch"], dtype=np.int32)
    shape = {"cnn": (1, 28, 28), "resnet18": (3, 32, 32), "resnet50": (3, 224, 224), "mlp": (784,)}[m["kind"]]
    classes = 1000 if m["kind"] == "resnet50" else 10
    return rng.standard_normal((m["batch"], *shape), dtype=np.float32), rng.integers(
        0, classes, m["batch"], dtype=np.int32
    )


def positions(m):
    return GPT2_POSITIONS if m["vocab"] == 50257 else m["context"]
