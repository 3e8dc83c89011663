#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Pictures and texts as they are downloaded, trained by tcc-train from a recipe of a few lines and by PyTorch with
equal settings: the same network, optimizer, batches and steps. Prints what both reach on the data that is held out,
over a few seeds.

    sets_torch.py TCC_TRAIN DATA [SEEDS]     needs numpy and torch

DATA has the folders mnist, fashion-mnist (four idx files, gzipped), cifar10 (binary batches, gzipped) and
tinyshakespeare (input.txt).
"""
import gzip, os, subprocess, sys, tempfile

import numpy as np
import torch
import torch.nn.functional as F

import models_torch

STEPS, BATCH, CONTEXT = 300, 64, 64
LAYERS, HEADS, WIDTH = 2, 2, 64


def idx(path):
    with gzip.open(path) as f:
        bytes = f.read()
    dims = [int.from_bytes(bytes[4 + 4 * i:8 + 4 * i], "big") for i in range(bytes[3])]
    return np.frombuffer(bytes, np.uint8, offset=4 + 4 * len(dims)).reshape(dims)


def idx_folder(folder):
    return [(torch.tensor(idx(f"{folder}/{part}-images-idx3-ubyte.gz")[:, None] / np.float32(255)),
             torch.tensor(idx(f"{folder}/{part}-labels-idx1-ubyte.gz").astype(np.int64))) for part in ("train", "t10k")]


def cifar_folder(folder):
    def read(names):
        rows = np.concatenate([np.frombuffer(gzip.open(f"{folder}/{n}").read(), np.uint8).reshape(-1, 3073)
                               for n in names])
        return (torch.tensor(rows[:, 1:].reshape(-1, 3, 32, 32) / np.float32(255)),
                torch.tensor(rows[:, 0].astype(np.int64)))
    names = sorted(n for n in os.listdir(folder) if n.startswith("data_batch"))
    return [read(names), read(["test_batch.bin.gz"])]


class Flat(models_torch.MLP):
    def forward(self, x):
        return super().forward(x.flatten(1))


def pictures_in_torch(read, folder, make, seed):
    torch.manual_seed(seed)
    (x, y), (vx, vy) = read(folder)
    mean, std = x.mean((0, 2, 3), keepdim=True), x.std((0, 2, 3), keepdim=True)
    model = make()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    order = torch.randperm(len(x))
    for step in range(STEPS):
        at = order[step * BATCH:(step + 1) * BATCH]
        optimizer.zero_grad()
        F.cross_entropy(model((x[at] - mean) / std), y[at]).backward()
        optimizer.step()
    with torch.no_grad():
        right = sum((model((vx[i:i + 500] - mean) / std).argmax(1) == vy[i:i + 500]).sum().item()
                    for i in range(0, len(vx), 500))
    return right / len(vx)


def tokens_in_torch(tokens, vocab, seed):
    torch.manual_seed(seed)
    tokens = torch.tensor(tokens.astype(np.int64))
    train, held = tokens[:int(0.9 * len(tokens))], tokens[int(0.9 * len(tokens)):]
    model = models_torch.GPT(LAYERS, HEADS, WIDTH, CONTEXT, vocab, False)
    decays = [[p for p in model.parameters() if p.dim() >= 2], [p for p in model.parameters() if p.dim() < 2]]
    optimizer = torch.optim.AdamW([{"params": decays[0], "weight_decay": 0.1},
                                   {"params": decays[1], "weight_decay": 0}], lr=1e-3, betas=(0.9, 0.99))
    window = torch.arange(CONTEXT)
    for _ in range(STEPS):
        at = torch.randint(len(train) - CONTEXT - 1, (BATCH, 1)) + window
        optimizer.zero_grad()
        F.cross_entropy(model(train[at]), train[at + 1].flatten()).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
    starts = torch.arange(0, len(held) - CONTEXT - 1, CONTEXT)[:, None] + window
    with torch.no_grad():
        sums = [F.cross_entropy(model(held[at]), held[at + 1].flatten()).item() * len(at) for at in starts.split(64)]
    return sum(sums) / len(starts)


def with_traincc(program, folder, recipe, key, seed):
    with open(f"{folder}/r.yaml", "w") as f:
        f.write(recipe + f"training: {{max_steps: {STEPS}, seed: {seed}, log_every: 1000, clip_grad_norm: "
                f"{1.0 if 'gpt' in recipe else 0}}}\nsample: {{length: 0}}\n")
    out = subprocess.run([program, "--device", "cpu", "--run-dir", f"{folder}/run{seed}", f"{folder}/r.yaml"],
                         check=True, capture_output=True, text=True).stdout
    return float(out.rsplit(key, 1)[1].split()[0])


def main():
    program, data = os.path.abspath(sys.argv[1]), os.path.abspath(sys.argv[2])
    seeds = int(sys.argv[3]) if len(sys.argv) > 3 else 3
    adam = "optimizer: {name: adam, lr: 1e-3}\n"
    adamw = "optimizer: {name: adamw, lr: 1e-3, betas: [0.9, 0.99], weight_decay: 0.1}\n"
    text = np.frombuffer(open(f"{data}/tinyshakespeare/input.txt", "rb").read(), np.uint8)
    characters = np.unique(text, return_inverse=True)[1]
    gpt = f"model: {{name: gpt, layers: {LAYERS}, heads: {HEADS}, width: {WIDTH}, context: {CONTEXT}}}\n"
    cnn, mlp = models_torch.CNN, lambda: Flat([3072, 256, 10])
    with tempfile.TemporaryDirectory() as folder:
        np.save(f"{folder}/bytes.npy", text.astype(np.uint16))
        sets = [(name, f"model: {{name: cnn}}\ndata: {{kind: idx, path: {data}/{name}, batch_size: {BATCH}}}\n{adam}",
                 "val_accuracy ", lambda s, name=name: pictures_in_torch(idx_folder, f"{data}/{name}", cnn, s))
                for name in ("mnist", "fashion-mnist")]
        sets.append(("cifar10", f"model: {{name: mlp, hidden: [256]}}\n"
                     f"data: {{kind: cifar, path: {data}/cifar10, batch_size: {BATCH}}}\n{adam}", "val_accuracy ",
                     lambda s: pictures_in_torch(cifar_folder, f"{data}/cifar10", mlp, s)))
        for name, kind, path, tokens, vocab in (
                ("shakespeare", "text", f"{data}/tinyshakespeare/input.txt", characters, int(characters.max()) + 1),
                ("bytes.npy", "tokens", f"{folder}/bytes.npy", text, int(text.max()) + 1)):
            sets.append((name, f"{gpt}data: {{kind: {kind}, path: {path}, batch_size: {BATCH}}}\n{adamw}", "val_loss ",
                         lambda s, t=tokens, v=vocab: tokens_in_torch(t, v, s)))
        print(f"{'set':<15}{'measure':<10}{'tcc-train':>25}{'PyTorch':>25}")
        for name, recipe, key, theirs in sets:
            ours = [with_traincc(program, folder, recipe, key, s) for s in range(seeds)]
            others = [theirs(s) for s in range(seeds)]
            show = lambda v: f"{np.mean(v):.4g} ({min(v):.4g}-{max(v):.4g})"
            print(f"{name:<15}{key[4:-1]:<10}{show(ours):>25}{show(others):>25}", flush=True)


main()
