#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The segmentation networks that guides measure, trained from scratch on CamVid by tcc-train and by PyTorch: the same
initial weights, pictures in the same order, loss, optimizer, schedule and steps. Mean IoU on the validation part.

    cmake --build build --target tcc-train
    python3 -m venv venv && venv/bin/pip install torch numpy pillow
    venv/bin/python tests/bench/camvid_torch.py --camvid DIR [--networks regseg,pp_liteseg_t] [--size 96x128]
                                                [--steps 200] [--batch 8] [--seeds 3] [--threads 1] [--json FILE]

DIR has train.tar and val.tar with images/NAME.jpg and labels/NAME.png, of which 11 does not count. Pictures are reduced
to --size first, and nothing is varied at random; a seed draws the weights and the order of pictures, which is that of
each epoch. The rate falls to 0 as in the recipes (polynomial, 0.9). A line a run; the last of a network says what the
seeds reach, and how far the losses of the first step are apart. Those of the next are not comparable: from such weights
a change of the last place grows ten thousand times in a step, in PyTorch alone, too. PyTorch's networks are those of
tests/numerics/golden/segmentation.py.
"""
import argparse
import io
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tarfile
import tempfile
import time

import numpy as np
import torch
from PIL import Image

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
sys.path.insert(0, os.path.join(ROOT, "tests", "numerics", "golden"))
import make_segmentation  # noqa: E402
import segmentation  # noqa: E402

CLASSES = IGNORED = make_segmentation.IGNORED = 11
MEAN, STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
NAMES = {"pp_liteseg_t": "pp-liteseg-t", "stdc1_seg": "stdc1", "ddrnet_23_slim": "ddrnet-23-slim",
         "ddrnet_23": "ddrnet-23", "regseg": "regseg", "segformer_b0": "segformer-b0"}
SGD, ADAMW = {"lr": 0.02, "momentum": 0.9, "weight_decay": 5e-4}, {"lr": 2e-4, "weight_decay": 0.0}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--camvid", required=True)
    p.add_argument("--networks", default="regseg,pp_liteseg_t,ddrnet_23_slim,stdc1_seg,segformer_b0")
    p.add_argument("--size", default="96x128")
    p.add_argument("--steps", type=int, default=200)
    p.add_argument("--batch", type=int, default=8)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--tcc-train", default=os.path.join(ROOT, "build", "bin", "tcc-train"))
    p.add_argument("--json", help="write every run's figures here")
    return p.parse_args()


# -- Data --

def read(path, size):
    """Pictures and labels of a part, reduced, in the order of their names."""
    with tarfile.open(path) as tar:
        files = {m.name.removeprefix("./"): tar.extractfile(m).read() for m in tar if m.isfile()}
    names = sorted(pathlib.PurePath(n).stem for n in files if n.split("/")[-2] == "images")
    find = {(n.split("/")[-2], pathlib.PurePath(n).stem): data for n, data in files.items()}
    shape = (size[1], size[0])
    return [(Image.open(io.BytesIO(find["images", n])).convert("RGB").resize(shape, Image.Resampling.BILINEAR),
             Image.open(io.BytesIO(find["labels", n])).resize(shape, Image.Resampling.NEAREST)) for n in names]


def write(part, folder):
    for name in ("images", "labels"):
        (folder / name).mkdir(parents=True)
    for i, pair in enumerate(part):
        for name, picture in zip(("images", "labels"), pair):
            picture.save(folder / name / f"{i:05}.png")


def tensors(part):
    x = torch.tensor(np.stack([np.asarray(picture) for picture, _ in part])).permute(0, 3, 1, 2) / 255
    mean, std = (torch.tensor(v).reshape(1, 3, 1, 1) for v in (MEAN, STD))
    y = torch.tensor(np.stack([np.asarray(labels) for _, labels in part]).astype(np.int64))
    return ((x - mean) / std).float(), y


# -- Networks --

def make(name, seed):
    torch.manual_seed(seed)
    net = segmentation.NETWORKS[name](CLASSES).float()  # the default type is float64 for the losses
    for m in net.modules():
        if isinstance(m, torch.nn.Conv2d):
            torch.nn.init.kaiming_normal_(m.weight, mode="fan_out", nonlinearity="relu")
        elif isinstance(m, torch.nn.Linear):
            torch.nn.init.trunc_normal_(m.weight, std=0.02)
        if isinstance(m, (torch.nn.Conv2d, torch.nn.Linear)) and m.bias is not None:
            torch.nn.init.zeros_(m.bias)
    return net


def save(net, path):
    """As a safetensors file."""
    head, body = {}, b""
    for key, t in net.state_dict().items():
        if key.endswith("tracked"):
            continue
        data = t.detach().contiguous().float().numpy().tobytes()
        head[key] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [len(body), len(body) + len(data)]}
        body += data
    text = json.dumps(head).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + body)


def settings(name):
    kind, weights = segmentation.loss_of(name)
    adam = name.startswith("segformer")
    return kind, weights, "adamw" if adam else "sgd", ADAMW if adam else SGD


# -- Both sides --

def train_theirs(a, name, net, train, val):
    _, _, optimizer, options = settings(name)
    (x, y), (vx, vy) = train, val
    decays = name == "regseg"  # everything, by its recipe
    groups = [{"params": [p for p in net.parameters() if p.dim() > 1 or decays]},
              {"params": [p for p in net.parameters() if p.dim() < 2 and not decays], "weight_decay": 0.0}]
    groups = [g for g in groups if g["params"]]
    o = torch.optim.AdamW(groups, **options) if optimizer == "adamw" else torch.optim.SGD(groups, **options)
    batches, losses = len(x) // a.batch, []
    for step in range(a.steps):
        for g in o.param_groups:
            g["lr"] = options["lr"] * (1 - step / a.steps) ** 0.9
        at = slice(step % batches * a.batch, (step % batches + 1) * a.batch)
        o.zero_grad()
        loss = make_segmentation.loss_of(name, [head.double() for head in net(x[at])], y[at])
        loss.backward()
        o.step()
        losses.append(loss.item())
    net.eval()
    counts = torch.zeros(CLASSES, CLASSES, dtype=torch.long)
    with torch.no_grad():
        for i in range(0, len(vx), a.batch):
            found, real = net(vx[i:i + a.batch])[0].argmax(1), vy[i:i + a.batch]
            counts += torch.bincount((real * CLASSES + found)[real != IGNORED],
                                     minlength=CLASSES ** 2).reshape(CLASSES, CLASSES)
    both = counts.diag().double()
    return losses, (both / (counts.sum(0) + counts.sum(1) - both)).mean().item()


def recipe(a, name, seed):
    kind, weights, optimizer, options = settings(name)
    loss = {"name": kind, "weights": list(weights)} if kind != "cross_entropy" else {"name": kind}
    size = [int(n) for n in a.size.split("x")]
    return json.dumps({
        "model": {"name": NAMES[name]},
        "data": {"kind": "segmentation", "path": "train", "val_path": "val", "classes": CLASSES, "size": size,
                 "ignored_label": IGNORED, "val_size": size, "batch_size": a.batch, "shuffle": False, "mean": MEAN,
                 "std": STD},
        "loss": loss, "optimizer": {"name": optimizer, **options, "decay_all": name == "regseg"},
        "schedule": {"name": "polynomial", "power": 0.9},
        "training": {"max_steps": a.steps, "eval_every": a.steps, "save_every": 0, "log_every": 1, "seed": seed,
                     "metrics": ["class_iou"]}})


def train_ours(a, name, seed, folder):
    (folder / "r.yaml").write_text(recipe(a, name, seed))
    out = subprocess.run([os.path.abspath(a.tcc_train), "r.yaml", "--device", "cpu", "--run-dir", f"run-{name}-{seed}",
                          "init_from=begin.safetensors", f"data.path=train-{seed}"], cwd=folder,
                         env=dict(os.environ, TCC_NUM_THREADS=str(a.threads)), capture_output=True, text=True)
    if out.returncode:
        sys.exit(out.stdout + out.stderr)
    with open(folder / f"run-{name}-{seed}" / "metrics.jsonl", encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    last = [line for line in lines if any("iou" in key for key in line)][-1]
    key = next(key for key in last if re.fullmatch(r"val_(mean_)?iou", key))
    return [line["loss"] for line in lines if "loss" in line], last[key]


def compare(a, name, parts, folder, runs):
    of_network = []
    for seed in range(1, a.seeds + 1):
        order = np.random.default_rng(seed).permutation(len(parts[0]))
        train = [parts[0][i] for i in order]
        if not (folder / f"train-{seed}").exists():
            write(train, folder / f"train-{seed}")
        net, run = make(name, seed), {"network": name, "seed": seed, "steps": a.steps}
        save(net, folder / "begin.safetensors")
        found = {}
        for who in ("traincc", "torch"):
            start = time.process_time() if who == "torch" else os.times().children_user
            losses, iou = (train_ours(a, name, seed, folder) if who == "traincc" else
                           train_theirs(a, name, net, tensors(train), tensors(parts[1])))
            used = (time.process_time() if who == "torch" else os.times().children_user) - start
            found[who] = losses
            run[who] = {"iou": iou, "loss": losses[-1], "processor_s": round(used, 1)}
        run["first_loss"] = abs(found["traincc"][0] / found["torch"][0] - 1)
        print(json.dumps(run), flush=True)
        of_network.append(run)
        runs.append(run)
        if a.json:
            pathlib.Path(a.json).write_text(json.dumps(runs, indent=1) + "\n")
    show = {who: [r[who]["iou"] for r in of_network] for who in ("traincc", "torch")}
    text = ", ".join(f"{who} {statistics.mean(v):.4f} ({min(v):.4f} to {max(v):.4f})" for who, v in show.items())
    print(f"{name}, {a.steps} steps: mean IoU {text}; losses of the first step differ by "
          f"{max(r['first_loss'] for r in of_network):.1e}", flush=True)


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    size, runs = tuple(int(n) for n in a.size.split("x")), []
    parts = [read(os.path.join(a.camvid, f"{part}.tar"), size) for part in ("train", "val")]
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        write(parts[1], folder / "val")
        for network in a.networks.split(","):
            compare(a, network, parts, folder, runs)


if __name__ == "__main__":
    main()
