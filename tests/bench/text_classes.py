#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The network of tools/recipes/imdb-classifier.yaml in PyTorch, with the recipe's settings: time of a step by how texts
are padded, and accuracy.

    tests/bench/text_classes.py --train train.tsv.gz --val test.tsv.gz --vocab-file vocab.txt [--padding uniform]
        [--steps 50] [--epochs 3] [--context 512] [--header] [--init step-000000.safetensors]

Both files have the label in the first column and the text in the last. Texts are tokenized by our library, so tokens
are the same. --init begins with the weights of a run of tcc-train. With --steps only so many steps are made, and an
epoch's time is scaled from them. PyTorch pads each batch to its longest text, without buckets: it runs op by op, and
no shape costs it a compilation.
"""
import argparse
import ctypes
import gzip
import json
import os
import random
import sys
import time

import torch
import torch.nn as nn
import torch.nn.functional as F

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
WINDOW = 50


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--train", required=True)
    p.add_argument("--val", required=True)
    p.add_argument("--vocab-file", required=True)
    p.add_argument("--header", action="store_true", help="the first lines have names")
    p.add_argument("--library", dest="traincc", default=os.path.join(ROOT, "build", "libtraincc.so"))
    p.add_argument("--padding", default="uniform", choices=("fixed", "dynamic", "uniform"))
    p.add_argument("--context", type=int, default=512)
    p.add_argument("--batch-size", type=int, default=32)
    p.add_argument("--epochs", type=int, default=3)
    p.add_argument("--steps", type=int, default=0, help="end after so many; 0: all")
    p.add_argument("--lr", type=float, default=3e-4)
    p.add_argument("--warmup", type=int, default=200)
    p.add_argument("--dropout", type=float, default=0.1)
    p.add_argument("--seed", type=int, default=1337)
    p.add_argument("--init", help="a checkpoint of tcc-train")
    return p.parse_args()


# -- Data --

class Tokenizer:
    """tcc_tokenizer of the library."""

    class Options(ctypes.Structure):
        _fields_ = [("size", ctypes.c_size_t), ("kind", ctypes.c_char_p), ("vocab", ctypes.c_char_p),
                    ("merges", ctypes.c_char_p), ("texts", ctypes.c_void_p), ("n_texts", ctypes.c_int)]

    def __init__(self, library, vocab_file):
        self.lib, self.cx, self.t = ctypes.CDLL(library), ctypes.c_void_p(), ctypes.c_void_p()
        self.lib.tcc_tokenizer_find.restype = self.lib.tcc_tokenizer_vocab_size.restype = ctypes.c_int64
        self.lib.tcc_context_error.restype = ctypes.c_char_p
        options = self.Options(ctypes.sizeof(self.Options), b"wordpiece", vocab_file.encode())
        if self.lib.tcc_context_create(ctypes.byref(self.cx)) or \
                self.lib.tcc_tokenizer_open(self.cx, ctypes.byref(options), ctypes.byref(self.t)):
            sys.exit(self.lib.tcc_context_error(self.cx).decode())
        self.first, self.last = (self.lib.tcc_tokenizer_find(self.t, name) for name in (b"[CLS]", b"[SEP]"))
        self.size = self.lib.tcc_tokenizer_vocab_size(self.t)

    def encode(self, text, most):
        out, count = (ctypes.c_int32 * (most - 2))(), ctypes.c_int64()
        raw = text.encode()
        if self.lib.tcc_tokenizer_encode(self.cx, self.t, raw, ctypes.c_size_t(len(raw)), out,
                                         ctypes.c_int64(most - 2), ctypes.byref(count)):
            sys.exit(self.lib.tcc_context_error(self.cx).decode())
        return [self.first, *out[:min(count.value, most - 2)], self.last]


def read(path, header, tokenizer, context):
    with gzip.open(path, "rt", encoding="utf-8", newline="") as f:
        lines = f.read().replace("\r\n", "\n").split("\n")
    rows = [line.split("\t") for line in lines if line][header:]
    texts = [tokenizer.encode(row[-1].replace("\\t", "\t").replace("\\\\", "\\"), context) for row in rows]
    return texts, [int(row[0]) for row in rows]


def batches(texts, size, padding, rng):
    """Lists of numbers of texts, for an epoch; without rng in their order."""
    order = list(range(len(texts)))
    if rng:
        rng.shuffle(order)
        del order[len(order) // size * size:]
    if padding != "uniform":
        return [order[i:i + size] for i in range(0, len(order), size)]
    out = []
    for start in range(0, len(order), WINDOW * size):
        window = sorted(order[start:start + WINDOW * size], key=lambda i: len(texts[i]))
        of_window = [window[i:i + size] for i in range(0, len(window), size)]
        if rng:
            rng.shuffle(of_window)
        out += of_window
    return out


def tensors(texts, labels, batch, context, padding):
    length = context if padding == "fixed" else max(len(texts[i]) for i in batch)
    x = torch.zeros(len(batch), length, dtype=torch.long)
    mask = torch.zeros(len(batch), length, dtype=torch.bool)
    for row, i in enumerate(batch):
        x[row, :len(texts[i])] = torch.tensor(texts[i])
        mask[row, :len(texts[i])] = True
    return x, mask, torch.tensor([labels[i] for i in batch])


# -- The network, with the names of the checkpoint --

class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.q_lin, self.k_lin, self.v_lin, self.out_lin = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, mask):
        batch, length, width = x.shape
        q, k, v = (lin(x).view(batch, length, self.heads, -1).transpose(1, 2)
                   for lin in (self.q_lin, self.k_lin, self.v_lin))
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask[:, None, None, :],
                                           dropout_p=self.dropout if self.training else 0)
        return self.out_lin(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.attention = Attention(width, heads, dropout)
        self.sa_layer_norm = nn.LayerNorm(width, eps=1e-12)
        self.ffn = nn.ModuleDict(dict(lin1=nn.Linear(width, 4 * width), lin2=nn.Linear(4 * width, width)))
        self.output_layer_norm = nn.LayerNorm(width, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x, mask):
        x = self.sa_layer_norm(x + self.attention(x, mask))
        return self.output_layer_norm(x + self.dropout(self.ffn["lin2"](F.gelu(self.ffn["lin1"](x)))))


class Classifier(nn.Module):
    def __init__(self, vocab, context, dropout, layers=2, heads=4, width=256, classes=2):
        super().__init__()
        embeddings = nn.ModuleDict(dict(word_embeddings=nn.Embedding(vocab, width),
                                        position_embeddings=nn.Embedding(context, width),
                                        LayerNorm=nn.LayerNorm(width, eps=1e-12)))
        stack = nn.ModuleDict(dict(layer=nn.ModuleList(Layer(width, heads, dropout) for _ in range(layers))))
        self.distilbert = nn.ModuleDict(dict(embeddings=embeddings, transformer=stack))
        self.pre_classifier, self.classifier = nn.Linear(width, width), nn.Linear(width, classes)
        self.dropout = nn.Dropout(dropout)
        for name, p in self.named_parameters():
            if p.dim() >= 2:
                nn.init.normal_(p, std=0.02)
            elif name.endswith("bias"):
                nn.init.zeros_(p)

    def forward(self, x, mask):
        e = self.distilbert["embeddings"]
        h = e["word_embeddings"](x) + e["position_embeddings"].weight[:x.shape[1]]
        h = self.dropout(e["LayerNorm"](h))
        for layer in self.distilbert["transformer"]["layer"]:
            h = layer(h, mask)
        return self.classifier(self.dropout(F.relu(self.pre_classifier(h[:, 0]))))


def load(net, path):
    with open(path, "rb") as f:
        header = json.loads(f.read(int.from_bytes(f.read(8), "little")))
        data = f.read()
    state = {name: torch.frombuffer(bytearray(data[slice(*about["data_offsets"])]), dtype=torch.float32)
             .reshape(about["shape"]) for name, about in header.items() if name != "__metadata__"}
    net.load_state_dict(state)


# -- Training --

def evaluate(net, texts, labels, a):
    net.eval()
    hits = 0
    with torch.no_grad():
        for batch in batches(texts, a.batch_size, a.padding, None):
            x, mask, y = tensors(texts, labels, batch, a.context, a.padding)
            hits += int((net(x, mask).argmax(1) == y).sum())
    net.train()
    return hits / len(labels)


def main():
    a = arguments()
    torch.manual_seed(a.seed)
    rng = random.Random(a.seed)
    tokenizer = Tokenizer(a.traincc, a.vocab_file)
    train, labels = read(a.train, a.header, tokenizer, a.context)
    val, val_labels = ([], []) if a.steps else read(a.val, a.header, tokenizer, a.context)
    net = Classifier(tokenizer.size, a.context, a.dropout)
    if a.init:
        load(net, a.init)
    groups = [{"params": [p for p in net.parameters() if p.dim() >= 2], "weight_decay": 0.01},
              {"params": [p for p in net.parameters() if p.dim() < 2], "weight_decay": 0.0}]
    optimizer = torch.optim.AdamW(groups, lr=a.lr)
    an_epoch = len(train) // a.batch_size
    total = a.epochs * an_epoch
    done, spent, tokens = 0, 0.0, 0
    for epoch in range(a.epochs):
        for batch in batches(train, a.batch_size, a.padding, rng):
            if a.steps and done > a.steps:
                break
            start = time.perf_counter()
            x, mask, y = tensors(train, labels, batch, a.context, a.padding)
            rate = min((done + 1) / a.warmup, 1) if done < a.warmup else (total - done) / (total - a.warmup)
            for group in optimizer.param_groups:
                group["lr"] = a.lr * rate
            loss = F.cross_entropy(net(x, mask), y)
            optimizer.zero_grad(set_to_none=True)
            loss.backward()
            torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
            optimizer.step()
            if done:  # the first warms up
                spent += time.perf_counter() - start
                tokens += x.numel()
            else:
                print(f"step 0  loss {loss.item():.4f}")
            done += 1
        if not a.steps:
            print(f"epoch {epoch + 1}  val_accuracy {evaluate(net, val, val_labels, a):.4f}", flush=True)
    print(json.dumps({"padding": a.padding, "steps": done - 1, "ms_per_step": round(1e3 * spent / (done - 1), 1),
                      "tokens_per_step": tokens // (done - 1), "s_per_epoch": round(spent / (done - 1) * an_epoch)}))


if __name__ == "__main__":
    main()
