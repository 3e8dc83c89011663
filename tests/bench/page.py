#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Makes BENCHMARKS.md of results/*.json: page.py [--check] RESULTS_DIR PAGE

A result is one measurement: its machine (machines.json), date, commit, command, columns and rows. Those with "on_page"
are on the page: "peers" have a row a model and peer, and make the summary together; each of the others has a table.
--check says whether the page is what the results make.
"""
import json
import pathlib
import sys
import textwrap

MOST_LINES = 200
HEAD = """# Benchmarks

Made by `tests/bench/page.py` of `tests/bench/results/*.json`, which have the machine, date, commit and command of each
figure, and more figures than this page; ARCHITECTURE.md explains them. `tests/bench/compare.py` measures a whole
training step - forward, backward, clipping, optimizer - beside PyTorch and JAX with the same model (`configs.py`),
batch and machine, each peer in a process of its own: the median of 20 steps after 5 of warm-up. Machines are noisy:
read the ratios. Run a table's command on a quiet machine, write its medians to a result, and make the page again:
`tests/bench/page.py tests/bench/results BENCHMARKS.md`.
"""


def table(columns, rows):
    """Lines of a table; columns of numbers are to the right."""
    def number(text):
        return not text or text[0].isdigit() or text[0] in "+-*."
    right = [all(number(str(row[i])) for row in rows) for i in range(len(columns))]
    yield "| " + " | ".join(columns) + " |"
    yield "| " + " | ".join("--:" if r else "---" for r in right) + " |"
    for row in rows:
        yield "| " + " | ".join(str(cell) for cell in row) + " |"


def summary(results, machines):
    """A line a model and machine: ours beside the fastest peer."""
    rows = []
    for result in results:
        models = list(dict.fromkeys(row[0] for row in result["rows"]))
        for model in models:
            steps = {row[1]: float(row[2]) for row in result["rows"] if row[0] == model}
            ours = steps.pop("traincc")
            best = min(steps, key=steps.get)
            texts = {row[1]: row[2] for row in result["rows"] if row[0] == model}
            rows.append([model, machines[result["machine"]]["name"], texts["traincc"], texts[best], best,
                         f"{ours / steps[best]:.2f}", result["date"]])
    columns = ["model", "machine", "ours, ms", "best peer, ms", "which", "ours/best", "date"]
    return table(columns, sorted(rows, key=lambda row: row[0]))


def page(folder):
    machines = json.loads((folder / "machines.json").read_text())
    files = [path for path in folder.glob("*.json") if path.name != "machines.json"]
    results = sorted((json.loads(path.read_text()) for path in files), key=lambda result: result["order"])
    results = [result for result in results if result["on_page"]]
    peers = [result for result in results if result["kind"] == "peers"]
    named = {result["machine"] for result in results}
    lines = HEAD.splitlines() + ["", "| machine | what it is |", "| --- | --- |"]
    lines += [f"| {machine['name']} | {machine['what']} |" for key, machine in machines.items() if key in named]
    lines += ["", "## " + peers[0]["section"], ""] + list(summary(peers, machines))
    section = peers[0]["section"]
    for result in results:
        if result["kind"] == "peers":
            continue
        if result["section"] != section:
            section = result["section"]
            lines += ["", "## " + section]
        measured = [machines[result["machine"]]["name"], result["date"], result["commit"], f"`{result['command']}`"]
        caption = f"{result['title'][0].upper()}{result['title'][1:]} ({', '.join(measured)}):"
        lines += [""] + textwrap.wrap(caption, 120, break_on_hyphens=False, break_long_words=False) + [""]
        lines += table(result["columns"], result["rows"])
    return "\n".join(lines) + "\n"


def main():
    check = sys.argv[1:2] == ["--check"]
    folder, path = (pathlib.Path(name) for name in sys.argv[1 + check:3 + check])
    text = page(folder)
    lines = text.count("\n")
    if lines > MOST_LINES:
        sys.exit(f"lint: {path} would have {lines} lines, more than {MOST_LINES}")
    if not check:
        path.write_text(text)
    elif path.read_text() != text:
        sys.exit(f"lint: {path} is not what its results make: tests/bench/page.py {folder} {path}")
    else:
        print(f"{path} has {lines} lines, made of its results")


main()
