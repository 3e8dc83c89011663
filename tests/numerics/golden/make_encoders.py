#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes encoders.json, which tests/numerics/test_encoders.c compares with: logits, loss and gradients of BERT, RoBERTa
and DistilBERT by their formulas, under the names of Hugging Face's code, in PyTorch and float64. Texts of the batch
are of different lengths: each is computed alone, without padding.

    python3 tests/numerics/golden/make_encoders.py

Element i of the tensor NAME is sin(1.3 i + s) / 4, s the sum of NAME's bytes, of a norm's weight 1 more. Of each
gradient two numbers are kept: its inner products with cos(i) and with sin(2 i).
"""
import json
import math
import os

import torch
import torch.nn.functional as F

LAYERS, HEADS, WIDTH, HIDDEN, CONTEXT, VOCAB, CLASSES = 2, 2, 8, 12, 6, 20, 3
TEXTS = [[2, 7, 11, 5, 3, 19], [2, 9, 3, 4], [2, 1]]
LABELS = [2, 0, 1]
BERT = ("encoder.layer", ["attention.self.query", "attention.self.key", "attention.self.value"],
        "attention.output.dense", "attention.output.LayerNorm", "intermediate.dense", "output.dense",
        "output.LayerNorm")
DISTILBERT = ("transformer.layer", ["attention.q_lin", "attention.k_lin", "attention.v_lin"], "attention.out_lin",
              "sa_layer_norm", "ffn.lin1", "ffn.lin2", "output_layer_norm")


class Net:
    def __init__(self, family):
        self.family, self.params = family, {}
        self.hidden = 4 * WIDTH if family == "distilbert" else HIDDEN  # which has no option for it
        self.eps = 1e-5 if family == "roberta" else 1e-12

    def param(self, name, *dims):
        if name not in self.params:
            i = torch.arange(math.prod(dims), dtype=torch.float64)
            x = torch.sin(1.3 * i + sum(name.encode())) / 4
            if name.endswith("orm.weight"):
                x = x + 1
            self.params[name] = x.reshape(dims).requires_grad_()
        return self.params[name]

    def dense(self, x, name, out):
        return F.linear(x, self.param(name + ".weight", out, x.shape[-1]), self.param(name + ".bias", out))

    def norm(self, x, name):
        weight, bias = self.param(name + ".weight", WIDTH), self.param(name + ".bias", WIDTH)
        return F.layer_norm(x, [WIDTH], weight, bias, self.eps)

    def embed(self, text):
        at = self.family + ".embeddings."
        first = 2 if self.family == "roberta" else 0
        x = self.param(at + "word_embeddings.weight", VOCAB, WIDTH)[text]
        x = x + self.param(at + "position_embeddings.weight", first + CONTEXT, WIDTH)[first:first + len(text)]
        if self.family != "distilbert":
            x = x + self.param(at + "token_type_embeddings.weight", 1 if first else 2, WIDTH)[0]
        return self.norm(x, at + "LayerNorm")

    def layer(self, x, at, names):
        _, qkv, out, attention_norm, widen, narrow, norm = names
        q, k, v = (self.dense(x, at + n, WIDTH).reshape(len(x), HEADS, -1).transpose(0, 1) for n in qkv)
        weights = torch.softmax(q @ k.transpose(1, 2) / math.sqrt(WIDTH // HEADS), -1)
        x = self.norm(x + self.dense((weights @ v).transpose(0, 1).reshape(len(x), WIDTH), at + out, WIDTH),
                      at + attention_norm)
        y = self.dense(F.gelu(self.dense(x, at + widen, self.hidden)), at + narrow, WIDTH)
        return self.norm(x + y, at + norm)

    def logits(self, text):
        names = DISTILBERT if self.family == "distilbert" else BERT
        x = self.embed(text)
        for i in range(LAYERS):
            x = self.layer(x, f"{self.family}.{names[0]}.{i}.", names)
        x = x[0]
        if self.family == "bert":
            return self.dense(torch.tanh(self.dense(x, "bert.pooler.dense", WIDTH)), "classifier", CLASSES)
        if self.family == "roberta":
            return self.dense(torch.tanh(self.dense(x, "classifier.dense", WIDTH)), "classifier.out_proj", CLASSES)
        return self.dense(torch.relu(self.dense(x, "pre_classifier", WIDTH)), "classifier", CLASSES)


def case(family):
    net = Net(family)
    logits = torch.stack([net.logits(text) for text in TEXTS])
    loss = F.cross_entropy(logits, torch.tensor(LABELS))
    loss.backward()
    gradients = {}
    for name, p in net.params.items():
        g, i = p.grad.flatten(), torch.arange(p.numel(), dtype=torch.float64)
        gradients[name] = [float(g @ torch.cos(i)), float(g @ torch.sin(2 * i)), list(p.shape)]
    return {"family": family, "logits": logits.flatten().tolist(), "loss": loss.item(), "gradients": gradients}


def main():
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "encoders.json")
    with open(path, "w") as out:
        json.dump([case(f) for f in ("bert", "roberta", "distilbert")], out, indent=1)
        out.write("\n")


if __name__ == "__main__":
    main()
