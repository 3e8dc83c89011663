#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""DistilBERT fine-tuned on SST-2 with the techniques that guides recommend, each added to those before it: one table of
time per epoch and memory.

    tests/bench/text_guide.py --train train.tsv.gz --vocab-file vocab.txt [--steps 4] [--padded-steps 16] [--rounds 2]
                              [--threads 1] [--rows nothing,workers,...] [--tcc-train build/bin/tcc-train]
                              [--json FILE] [--markdown FILE]

The file has a line of names, then a label and a sentence each. All rows are of tools/recipes/distilbert.yaml from drawn
weights, which change no time, at 32 sentences an update and 128 tokens at most, on the same first 8,192 sentences of a
fixed shuffle. A row's process makes one step, and one more process that many and --steps more (--padded-steps where
batches have lengths of their own): what it takes more is theirs, so no start and no compilation counts. "ms a step" is
that in processor time, which other work on the machine stretches least; "by the clock" is the mean of the steps' own
times. Rows take turns, and a figure is the median over --rounds. An epoch is 67,349 sentences' updates, by processor
time: it is scaled from the steps, and no epoch was run. Memory is the planned peak of a step.
"""
import argparse
import gzip
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RECIPE = os.path.join(ROOT, "tools", "recipes", "distilbert.yaml")
SENTENCES, PART, BATCH = 67349, 8192, 32
ROWS = {
    "nothing": {"data.num_workers": 0, "data.pin_memory": "false", "training.checkpointing": "none",
                "training.mixed_precision": "none", "data.padding": "fixed"},
    "workers": {"data.num_workers": 2},
    "pinning": {"data.pin_memory": "true"},
    "accumulation": {"data.batch_size": BATCH // 4, "training.batch_accumulate": 4},
    "checkpointing": {"training.checkpointing": "auto", "training.memory_budget": "min"},
    "mixed precision": {"training.mixed_precision": "bf16"},
    "dynamic padding": {"data.padding": "dynamic"},
    "uniform length": {"data.padding": "uniform"},
}


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--train", required=True)
    p.add_argument("--vocab-file", required=True)
    p.add_argument("--tcc-train", default=os.path.join(ROOT, "build", "bin", "tcc-train"))
    p.add_argument("--steps", type=int, default=4)
    p.add_argument("--padded-steps", type=int, default=16)
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--rows", default=",".join(ROWS))
    p.add_argument("--json", help="write every process's figures here")
    p.add_argument("--markdown", help="write the table here (it is always printed)")
    return p.parse_args()


def settings(row):
    """The overrides of a row: its own, and those of all rows before it."""
    all_of = {"training.eval_every": 0, "training.save_every": 0, "training.log_every": 1, "data.max_length": 128,
              "data.batch_size": BATCH, "data.val_split": 0, "init_ignore": "[]"}
    for name, own in ROWS.items():
        all_of.update(own)
        if name == row:
            return all_of
    return sys.exit(f'text_guide: no row "{row}": {", ".join(ROWS)}')


def process(a, row, steps, folder):
    """Processor seconds of a process, and the lines of its log."""
    run = os.path.join(folder, "run")
    shutil.rmtree(run, ignore_errors=True)
    words = [f"{key}={value}" for key, value in settings(row).items()]
    environment = dict(os.environ, TCC_CACHE_DIR=os.path.join(folder, "cache"), TCC_NUM_THREADS=str(a.threads))
    environment.pop("TCC_CACHE_DISABLE", None)
    with open(os.path.join(folder, "said"), "w+", encoding="utf-8") as said:
        p = subprocess.Popen([a.tcc_train, RECIPE, "--run-dir", run, f"data.path={folder}/train.tsv",
                              f"data.vocab_file={a.vocab_file}", f"training.max_steps={steps}", *words],
                             env=environment, stdout=said, stderr=subprocess.STDOUT)
        _, status, used = os.wait4(p.pid, 0)
        if status:
            said.seek(0)
            sys.exit(said.read())
    with open(os.path.join(run, "metrics.jsonl"), encoding="utf-8") as f:
        lines = [json.loads(line) for line in f]
    return used.ru_utime + used.ru_stime, [line for line in lines if "step_ms" in line]


def measure(a, row, folder):
    more = a.padded_steps if settings(row)["data.padding"] != "fixed" else a.steps
    process(a, row, 1, folder)  # which compiles
    few, _ = process(a, row, 1, folder)
    many, lines = process(a, row, 1 + more, folder)
    return {"step_ms": 1e3 * (many - few) / more, "clock_ms": statistics.mean(line["step_ms"] for line in lines[1:]),
            "mib": lines[-1]["peak_bytes"] / (1 << 20), "steps": more}


def table(results):
    lines = ["| with | steps | ms a step | by the clock | s an epoch | over nothing | MiB | over nothing |",
             "| --- | --: | --: | --: | --: | --: | --: | --: |"]
    middle = {row: {key: statistics.median(r[key] for r in runs) for key in runs[0]} for row, runs in results.items()}
    first = middle.get("nothing")
    for row, m in middle.items():
        ratios = [f"{m[key] / first[key]:.2f}" if first else "" for key in ("step_ms", "mib")]
        epoch = m["step_ms"] * (SENTENCES // BATCH) / 1e3
        name = row if row == "nothing" else "+ " + row
        lines.append(f"| {name} | {m['steps']:.0f} | {m['step_ms']:,.0f} | {m['clock_ms']:,.0f} | {epoch:,.0f} | "
                     f"{ratios[0]} | {m['mib']:,.0f} | {ratios[1]} |")
    return "\n".join(lines)


def main():
    a = arguments()
    opened = gzip.open if a.train.endswith(".gz") else open
    with opened(a.train, "rt", encoding="utf-8") as f:
        head, *rows = f.read().splitlines()
    random.Random(1).shuffle(rows)
    results = {}
    with tempfile.TemporaryDirectory() as folder:
        with open(os.path.join(folder, "train.tsv"), "w", encoding="utf-8") as f:
            f.write("\n".join([head, *rows[:PART]]) + "\n")
        for _ in range(a.rounds):
            for row in a.rows.split(","):
                results.setdefault(row, []).append(measure(a, row, folder))
                print(row, json.dumps(results[row][-1]), file=sys.stderr, flush=True)
                if a.json:
                    with open(a.json, "w", encoding="utf-8") as f:
                        f.write(json.dumps(results, indent=1) + "\n")
    print(table(results))
    if a.markdown:
        with open(a.markdown, "w", encoding="utf-8") as f:
            f.write(table(results) + "\n")


if __name__ == "__main__":
    main()
