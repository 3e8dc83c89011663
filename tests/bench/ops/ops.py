#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Single operations, layers and chains of operations beside PyTorch: forward, and forward with gradients.

    cmake --build build --target bench-ops
    python3 -m venv venv && venv/bin/pip install torch
    venv/bin/python tests/bench/ops/ops.py [--only max_pool_3,exp] [--types f32,bf16] [--threads 1] [--json FILE]
                                           [--markdown FILE] [--seconds 0.3] [--rounds 2] [--no-compile]
                                           [--note "what else the machine does"] [--table FILE] [--most 32768]

ops.def has the operations. All take turns for `--rounds` rounds; a figure is the fastest call of all. The table has
milliseconds, and ours / that of PyTorch eager, or, for chains, of the faster of eager and torch.compile. The rate is
that of our forward: GFLOP/s of products, else GB/s of operands and result. The roofline is the least time in which the
machine copies as many bytes and multiplies as much, by ours: beyond 100 % where caches hold the operands; it is summed
up by kinds of rows. Rows above 1.0 are listed with what bounds them, as ops.def says. --table makes the table of
figures that --json wrote. results.json and results.md are what was committed last:

    venv/bin/python tests/bench/ops/ops.py --rounds 4 --json tests/bench/ops/results.json \\
                                           --markdown tests/bench/ops/results.md

results_threads has two threads, results_small the rows that --most 32768 cuts in the first dimension of their operands,
and in results_v3 both are capped at AVX2: TCC_CPU=x86-64-v3 ATEN_CPU_CAPABILITY=avx2 MKL_ENABLE_INSTRUCTIONS=AVX2
ONEDNN_MAX_CPU_ISA=AVX2."""
import argparse
import itertools
import json
import math
import os
import subprocess
import sys
import textwrap
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

import torch_functions

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))
TYPES = {"f32": torch.float32, "bf16": torch.bfloat16}
WARM_UP = 2


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--bench-ops", default=os.path.join(ROOT, "build", "bin", "bench-ops"), help="our program")
    p.add_argument("--only", help="comma-separated names of rows")
    p.add_argument("--types", default="f32,bf16")
    p.add_argument("--threads", type=int, default=1)
    p.add_argument("--most", type=int, help="elements of an operand; rows that this cuts, alone")
    p.add_argument("--rounds", type=int, default=2)
    p.add_argument("--seconds", type=float, default=0.3, help="for a measurement")
    p.add_argument("--no-compile", action="store_true", help="without torch.compile")
    p.add_argument("--note", default="", help="said above the table")
    p.add_argument("--table", help="of the figures in this file; nothing is measured")
    p.add_argument("--json", help="write all figures here")
    p.add_argument("--markdown", help="write the table here, which is always printed")
    return p.parse_args()


def operand(text, dtype):
    """A tensor of a kind and a shape, and whether its gradient is wanted."""
    kind, dims = text[0], [int(n) for n in text[text.index("[") + 1 : -1].split(",")]
    if kind == "i":
        return torch.randint(int(text[1 : text.index("[")]), dims), False
    values = torch.rand(dims) * 0.999 + 0.0005 if kind in "uw" else torch.rand(dims) * 2 - 1
    return values.to(dtype).requires_grad_(kind in "pu"), kind in "pu"


def fastest(call, seconds):
    for _ in range(WARM_UP):
        call()
    least, begin = math.inf, time.perf_counter()
    while time.perf_counter() - begin < seconds:
        start = time.perf_counter()
        call()
        least = min(least, time.perf_counter() - start)
    return 1e3 * least


def function_of(row, dtype):
    """The row's function of its operands, and the parameters of its layer."""
    names = {"torch": torch, "F": F, "nn": nn, **vars(torch_functions)}
    m = eval(row["module"], names).to(dtype).eval() if row["module"] else None
    return eval(f"lambda x: {row['pytorch']}", {**names, "m": m}), list(m.parameters()) if m else []


def size(tensors):
    return sum(t.numel() * t.element_size() for t in tensors)


def operations(call):
    """Of the products in a call. oneDNN's recurrences are not counted, their parts are."""
    with FlopCounterMode(display=False) as counter, torch.backends.mkldnn.flags(enabled=False):
        call()
    return counter.get_total_flops()


def pytorch(row, dtype, seconds, compiles):
    pairs = [operand(text, dtype) for text in row["operands"].split()]
    function, parameters = function_of(row, dtype)
    x, wanted = [p[0] for p in pairs], [p[0] for p in pairs if p[1]] + parameters
    y = function(x)
    dy = torch.rand_like(y) if wanted and y.is_floating_point() else None
    timed = torch.compile(function) if compiles else function

    def forward():
        with torch.no_grad():
            timed(x)

    def both():
        torch.autograd.grad(timed(x), wanted, dy)

    flops = operations(lambda: function(x))
    result = {"bytes": size([*x, *parameters, y]), "flops": flops, "forward_ms": fastest(forward, seconds)}
    if dy is not None:
        factors = 1 + min(len(wanted), 2)  # each factor's gradient is a product as large
        result |= {"both_bytes": size([*x, *parameters, y, dy, *wanted]), "both_flops": factors * flops,
                   "both_ms": fastest(both, seconds)}
    return result


def copied():
    """GB/s of a copy, read and written."""
    x = torch.rand(1 << 24)
    y = torch.empty_like(x)
    return 2e-6 * x.numel() * x.element_size() / fastest(lambda: y.copy_(x), 0.5)


def program(a):
    return [a.bench_ops, *(["--most", str(a.most)] if a.most else [])]


def listed(a):
    lines = subprocess.run([*program(a), "--list"], capture_output=True, text=True, check=True).stdout
    return [json.loads(line) for line in lines.splitlines()]


def ours(a, row, dtype):
    command = [*program(a), row["name"], dtype, str(a.seconds)]
    environment = {**os.environ, "TCC_NUM_THREADS": str(a.threads), "TCC_CACHE_DISABLE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    if done.returncode:
        return {"error": (done.stderr.strip().splitlines() or ["no output"])[-1]}
    figures = json.loads(done.stdout.splitlines()[-1])
    return {key: figures[key] for key in ("forward_ms", "both_ms") if figures[key]}


def multiplied(a, dtype):
    """GFLOP/s of a product of matrices: the faster of ours and PyTorch's."""
    whole = argparse.Namespace(**{**vars(a), "most": None})
    row = next(row for row in listed(whole) if row["name"] == "matmul")
    counts = pytorch(row, TYPES[dtype], 0.5, False)
    return 1e-6 * counts["flops"] / min(ours(whole, row, dtype)["forward_ms"], counts["forward_ms"])


def least(a, b):
    return {key: min(a.get(key, math.inf), b[key]) if key != "error" else b[key] for key in {**a, **b} if key in b}


def measure(a, row, dtype):
    figures = {"op": row["name"], "type": dtype, "threads": a.threads, "traincc": {}, "pytorch": {}}
    sides = {"pytorch": False, "compiled": True} if row["chain"] and not a.no_compile else {"pytorch": False}
    for _ in range(a.rounds):
        figures["traincc"] = least(figures["traincc"], ours(a, row, dtype))
        for side, compiles in sides.items():
            try:
                figures[side] = least(figures.get(side, {}), pytorch(row, TYPES[dtype], a.seconds, compiles))
            except RuntimeError as error:  # what PyTorch lacks in a type
                figures[side] = {"error": str(error).splitlines()[0]}
    return figures


def peer(figures, key):
    """The faster of eager and compiled."""
    times = [figures[side][key] for side in ("pytorch", "compiled") if figures.get(side, {}).get(key)]
    return min(times, default=None)


def ratio(figures, key):
    a, b = figures["traincc"].get(key), peer(figures, key)
    return a / b if a and b else None


def cell(figures, key):
    values = [figures["traincc"].get(key), *(figures[side].get(key) for side in ("pytorch", "compiled")
                                              if side in figures)]
    if not any(values):
        return figures["traincc"].get("error") or figures["pytorch"].get("error") or "-"
    text = " / ".join(f"{v:.3f}" if v else "-" for v in values)
    return text + (f" = **{ratio(figures, key):.2f}**" if ratio(figures, key) else "")


def rate(figures):
    ms, counts = figures["traincc"].get("forward_ms"), figures["pytorch"]
    if not ms or "bytes" not in counts:
        return "-"
    counted, unit = ("flops", "GFLOP/s") if counts["flops"] else ("bytes", "GB/s")
    return f"{1e-6 * counts[counted] / ms:.0f} {unit}"


def roofline(figures, about, key):
    """The least time that the machine needs, by ours."""
    ms, counts, kind = figures["traincc"].get(key), figures["pytorch"], "both_" if key == "both_ms" else ""
    if not ms or kind + "bytes" not in counts:
        return None
    return 1e-6 * max(counts[kind + "bytes"] / about["copy_gb_s"],
                      counts[kind + "flops"] / about["product_gflop_s"][figures["type"]]) / ms


def percent(share):
    return f"{100 * share:.0f} %" if share else "-"


def mean(numbers):
    return math.exp(sum(map(math.log, numbers)) / len(numbers))


PARTS = (("forward_ms", "forward"), ("both_ms", "with gradients"))


def above(all_figures, rows):
    """Rows that take longer than PyTorch in something, with what bounds them."""
    slower = {}
    for f in all_figures:
        for key, words in PARTS:
            if (ratio(f, key) or 0) > 1.005:
                slower.setdefault(f["op"], []).append(f"{f['type']} {words} {ratio(f, key):.2f}")
    lines = [textwrap.fill(f"- {op}: {', '.join(slower[op])}{': ' if rows[op]['bound'] else ''}{rows[op]['bound']}",
                           118, subsequent_indent="  ") for op in slower]
    return "\n\nAbove 1.0, and what bounds that where it is known:\n\n" + "\n".join(lines) if lines else ""


def kinds(about, rows):
    """Shares of the roofline by kinds of rows."""
    columns = [(dtype, key, words) for dtype in TYPES for key, words in PARTS]
    lines = ["\n\nRows at 60 % of the roofline at least, and the geometric mean of all shares:\n",
             "| kind | " + " | ".join(f"{dtype} {words}" for dtype, _, words in columns) + " |",
             "| --- |" + " --- |" * len(columns)]
    limits = {row["kind"]: row["limit"] for row in rows.values()}
    for kind in limits:
        cells = []
        for dtype, key, _ in columns:
            shares = [s for f in about["results"] if f["type"] == dtype and rows[f["op"]]["kind"] == kind
                      for s in [roofline(f, about, key)] if s]
            cells.append(f"{sum(s >= 0.6 for s in shares)} of {len(shares)}, {percent(mean(shares))}" if shares
                         else "-")
        lines.append(f"| {kind} | " + " | ".join(cells) + " |")
    lines += ["", "What keeps rows from it:", ""]
    lines += [textwrap.fill(f"- {kind}: {why}", 118, subsequent_indent="  ") for kind, why in limits.items() if why]
    return "\n".join(lines)


def table(about, rows):
    all_figures = about["results"]
    lines = ["| op | type | forward, ours / PyTorch / compiled | rate | roofline | with gradients | roofline |",
             "| --- | --- | --- | --- | --- | --- | --- |"]
    for f in all_figures:
        shares = [percent(roofline(f, about, key)) for key, _ in PARTS]
        lines.append(f"| {f['op']} | {f['type']} | {cell(f, 'forward_ms')} | {rate(f)} | {shares[0]} | "
                     f"{cell(f, 'both_ms')} | {shares[1]} |")
    for dtype in sorted({f["type"] for f in all_figures}):
        for key, words in PARTS:
            of_type = [f for f in all_figures if f["type"] == dtype]
            ratios = sorted(r for f in of_type for r in [ratio(f, key)] if r)
            shares = [s for f in of_type for s in [roofline(f, about, key)] if s]
            if not ratios:
                continue
            lines.append(f"\n{dtype}, {words}: {sum(r <= 1 for r in ratios)} of {len(ratios)} at most 1.0, geometric "
                         f"mean {mean(ratios):.2f}, median {ratios[len(ratios) // 2]:.2f}; "
                         f"{sum(s >= 0.6 for s in shares)} of {len(shares)} at 60 % of the roofline")
    return "\n".join(lines) + kinds(about, rows) + above(all_figures, rows)


def heading(about):
    words = f"PyTorch {about['torch']}, threads: {about['threads']}; a copy moves {about['copy_gb_s']:.1f} GB/s, "
    rates = [f"{rate:.0f} GFLOP/s in {dtype}" for dtype, rate in about["product_gflop_s"].items()]
    words += f"a product makes {', '.join(rates)}"
    if about["most"]:
        words += f". Operands are cut to {about['most']} elements where their first dimension permits"
    words = textwrap.fill(f"{words}. {about['note']}".strip(), 120)
    return f"<!-- made by ops.py --markdown -->\n{words}\n\n"


def show(a, about, rows):
    text = table(about, rows)
    print(text)
    if a.markdown:
        with open(a.markdown, "w") as file:
            file.write(heading(about) + text + "\n")


def main():
    a = arguments()
    torch.set_num_threads(a.threads)
    rows = listed(a)
    only = a.only.split(",") if a.only else [row["name"] for row in rows]
    unknown = set(only) - {row["name"] for row in rows}
    if unknown:
        sys.exit(f"ops.py: no row {', '.join(sorted(unknown))} in ops.def")
    by_name = {row["name"]: row for row in rows}
    if a.table:
        with open(a.table) as file:
            return show(a, json.load(file), by_name)
    types = a.types.split(",")
    about = {"torch": torch.__version__, "threads": a.threads, "most": a.most, "note": a.note,
             "copy_gb_s": round(copied(), 1), "product_gflop_s": {t: round(multiplied(a, t)) for t in types},
             "results": []}
    for row, dtype in itertools.product(rows, types):
        if row["name"] in only and (row["divisor"] > 1 or not a.most):
            figures = measure(a, row, dtype)
            about["results"].append(figures)
            print(f"{row['name']} {dtype}: {cell(figures, 'forward_ms')}; {cell(figures, 'both_ms')}", file=sys.stderr,
                  flush=True)
    if a.json:
        with open(a.json, "w") as file:
            json.dump(about, file, indent=1)
            file.write("\n")
    show(a, about, by_name)


main()
