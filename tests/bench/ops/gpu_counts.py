#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""What single operations do on a GPU, as the stand-in driver counts it: bytes beside the least, instructions, spills.

    ninja -C build gpu-counts
    python3 tests/bench/ops/gpu_counts.py [--build build] [--only add,softmax] [--types f32,bf16] [--archs 90,80]
                                          [--json FILE] [--markdown FILE] [--table FILE] [--most RATIO] [--spilled N]
                                          [--instructions N] [--beside RATIO] [--compile]

ops.def has the operations; gpu_counts.c says how large their operands are made. Nothing is timed, so that the figures
are the same on each run. --table makes the table of figures that --json wrote. --most fails where a row of those moves
more than so many times the least, --spilled where a kernel spills more bytes than that, --instructions where forward
executes more for an element, --beside where it executes more than so many times what nvcc's kernel does. With
--compile nothing runs: registers and spills are all that is known. They are ptxas's, where there is one. Where there
is nvcc, gpu_plain.cu has rows in plain CUDA, which are counted beside ours and compared with their results.
gpu_counts.json and gpu_counts.md are what was committed last: --types f32,bf16 --archs 90,80."""
import argparse
import glob
import json
import math
import os
import re
import shutil
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.dirname(os.path.dirname(os.path.dirname(HERE)))

def of_cuda(tool):
    usual = "/usr/local/cuda/bin/" + tool
    return shutil.which(tool) or (usual if os.access(usual, os.X_OK) else None)


PTXAS = of_cuda("ptxas")
NVCC = of_cuda("nvcc")
NEWEST_DRIVER = "13000"  # which the stand-in says it is: it takes PTX of the newest nvcc
SKIPPED = 77  # the code by which ctest knows it
HEADING = """<!-- made by gpu_counts.py --markdown -->
Counted by the stand-in driver for sm_90. `once`: bytes of memory that launches read and write, each counted once a
launch, as if caches held what a launch reads again, by the least: operands once and results once. `sectors`: all
sectors of 32 bytes that accesses of warps touch, caches left out, by the same. What forward keeps for the gradients is
not in the least; a table is in it whole, also where few of its rows are taken. All is done by our own kernels, none by
libraries. Instructions are of threads, for an element of the result. Registers and spills, in bytes, are those of the
worst kernel for each GPU that was assembled for.

"""


def arguments():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--build", default=os.path.join(ROOT, "build"))
    p.add_argument("--only", help="comma-separated names of rows")
    p.add_argument("--types", default="f32,bf16")
    p.add_argument("--archs", default="90,80", help="the first is counted, all are assembled")
    p.add_argument("--most", type=float, default=math.inf, help="fails where more than this is moved, of the least")
    p.add_argument("--spilled", type=float, default=math.inf, help="fails where a kernel spills more bytes than this")
    p.add_argument("--instructions", type=float, default=math.inf, help="fails where forward has more for an element")
    p.add_argument("--beside", type=float, default=math.inf, help="fails where forward has more, of nvcc's")
    p.add_argument("--compile", action="store_true", help="nothing runs; of each row registers and spills alone")
    p.add_argument("--table", help="of the figures in this file; nothing is run")
    p.add_argument("--json", help="write all figures here")
    p.add_argument("--markdown", help="write the table here, which is always printed")
    return p.parse_args()


def assembled(folder, part, arch):
    """Registers and spilled bytes of the worst kernels."""
    registers = spilled = 0
    for path in sorted(glob.glob(os.path.join(folder, part + "_*.ptx"))):
        done = subprocess.run([PTXAS, "-v", f"-arch=sm_{arch}", "-o", "/dev/null", path], capture_output=True,
                              text=True)
        if done.returncode:
            sys.exit(f"gpu_counts.py: {done.stderr}")
        registers = max([registers, *map(int, re.findall(r"Used (\d+) registers", done.stderr))])
        spilled = max([spilled, *map(int, re.findall(r"(\d+) bytes spill stores", done.stderr))])
    return {"registers": registers, "spilled": spilled}


def plain_of(folder, arch):
    """What nvcc makes of gpu_plain.cu; None where there is no nvcc."""
    if not NVCC:
        print("gpu_counts.py: no nvcc, so nothing is counted of gpu_plain.cu", file=sys.stderr)
        return None
    made = os.path.join(folder, "plain.ptx")
    done = subprocess.run([NVCC, "-ptx", f"-arch=sm_{arch}", "-o", made, os.path.join(HERE, "gpu_plain.cu")],
                          capture_output=True, text=True)
    if done.returncode:
        sys.exit(f"gpu_counts.py: {done.stderr}")
    return made


def counted(a, name, dtype, plain):
    figures = None
    for arch in a.archs.split(","):
        with tempfile.TemporaryDirectory() as folder:
            environment = {**os.environ, "LD_LIBRARY_PATH": os.path.join(a.build, "ptxsim"), "PTXSIM_SM": arch,
                           "PTXSIM_DRIVER": NEWEST_DRIVER, "TCC_CACHE_DISABLE": "1", "TCC_LIBRARIES": "none"}
            command = [os.path.join(a.build, "bin", "gpu-counts"), *(["--compile"] if a.compile or figures else [])]
            command += [name, dtype, folder, *([plain] if plain and not figures else [])]
            done = subprocess.run(command, env=environment, capture_output=True, text=True)
            if done.returncode:
                said = done.stderr.splitlines()
                said = [line for line in said if line.startswith("gpu-counts:")] or said or ["it died"]
                return {"op": name, "type": dtype, "error": said[-1]}
            figures = figures or json.loads(done.stdout.splitlines()[-1])
            for part in ("forward", "both"):
                if PTXAS and part in figures:
                    figures[part][f"sm_{arch}"] = assembled(folder, part, arch)
    return figures


def ratio(figures, way):
    return (figures[f"read_{way}_bytes"] + figures[f"write_{way}_bytes"]) / figures["least_bytes"]


def spills(figures):
    return {arch: said["spilled"] for arch, said in figures.items() if arch.startswith("sm_") and said["spilled"]}


def line(row, part):
    f = row[part]
    ratios = [f"{ratio(f, way):.2f}" for way in ("once", "sectors")]
    registers = " / ".join(str(said["registers"]) for arch, said in f.items() if arch.startswith("sm_"))
    spilled = ", ".join(f"{arch} {n}" for arch, n in spills(f).items()) or "-"
    return (f"| {row['op']} | {row['type']} | {part} | {f['kernels']} + {f['copies']} | {ratios[0]} | {ratios[1]} "
            f"| {f['instructions'] / f['elements']:.1f} | {registers} | {spilled} |")


def beside_nvcc(results):
    """Rows that have a kernel in plain CUDA, those first which execute most of what it does."""
    rows = []
    for row in results:
        if "plain" in row:
            ours, plain = (row[part]["instructions"] / row["forward"]["elements"] for part in ("forward", "plain"))
            rows.append((ours / plain, f"| {row['op']} | {ours:.1f} | {plain:.1f} | {ours / plain:.2f} |"))
    if not rows:
        return []
    rows.sort(reverse=True)
    mean = math.exp(sum(math.log(r) for r, _ in rows) / len(rows))
    return ["", "Instructions for an element of f32 results, forward, beside gpu_plain.cu as nvcc compiles it. They",
            "are of PTX: what the assembler makes several of, as of a division, counts as one in both.", "",
            "| op | instructions | nvcc's | ratio |", "| --- | --- | --- | --- |", *(text for _, text in rows), "",
            f"geometric mean {mean:.2f}; {sum(r <= 1.3 for r, _ in rows)} of {len(rows)} execute at most 1.3 of nvcc's"]


def above(results):
    """Rows that move more than 1.1 of the least, each with its cause, if ops.def has it."""
    with open(os.path.join(HERE, "ops.def")) as file:
        causes = dict(re.findall(r'^GPU_BOUND\((\w+), "(.*)"\)', file.read(), re.MULTILINE))
    lines = []
    for row in results:
        ratios = [(part, ratio(row[part], "once")) for r, part in parts_of([row]) if r[part]["least_bytes"]]
        if any(r > 1.1 for _, r in ratios):
            moved = ", ".join(f"{part} {r:.2f}" for part, r in ratios)
            lines.append(f"| {row['op']} | {row['type']} | {moved} | {causes.get(row['op'], 'not stated')} |")
    heading = ["", "Above 1.1 of the least:", "", "| op | type | once | why |", "| --- | --- | --- | --- |"]
    return heading + lines if lines else []


def parts_of(results):
    return [(row, part) for row in results for part in ("forward", "both") if part in row]


def table(results):
    lines = ["| op | type | part | kernels + copies | once | sectors | instructions | registers | spills |",
             "| --- | --- | --- | --- | --- | --- | --- | --- | --- |"]
    lines += [line(row, part) for row, part in parts_of(results)]
    for dtype in dict.fromkeys(row["type"] for row in results):
        for part in ("forward", "both"):
            of = [row[part] for row, p in parts_of(results) if row["type"] == dtype and p == part]
            ratios = [ratio(f, "once") for f in of if f["least_bytes"]]
            if ratios:
                mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
                lines.append(f"\n{dtype}, {part}: {sum(r <= 1.1 for r in ratios)} of {len(ratios)} move at most 1.1 of "
                             f"the least, geometric mean {mean:.2f}; {sum(bool(spills(f)) for f in of)} spill")
    lines += [f"\n{row['op']} {row['type']}: {row['error']}" for row in results if "error" in row]
    return "\n".join(lines + above(results) + beside_nvcc(results))


def compiled(results):
    """What is known where nothing ran."""
    of = parts_of(results)
    lines = [f"{row['op']} {row['type']} {part}: spills {spills(row[part])}" for row, part in of if spills(row[part])]
    lines += [f"{row['op']} {row['type']}: {row['error']}" for row in results if "error" in row]
    return "\n".join(lines + [f"{sum(bool(spills(row[part])) for row, part in of)} of {len(of)} spill"])


def beyond(a, results):
    """What moves, spills or executes more than it may, or fails."""
    found = [f"{row['op']} {row['type']}: {row['error']}" for row in results if "error" in row]
    for row, part in parts_of(results):
        moved = ratio(row[part], "once")
        if moved > a.most or max(spills(row[part]).values(), default=0) > a.spilled:
            found.append(f"{row['op']} {row['type']} {part}: {moved} of the least, spills {spills(row[part])}")
        executed = row[part]["instructions"] / row[part]["elements"]
        if part == "forward" and executed > a.instructions:
            found.append(f"{row['op']} {row['type']}: {executed:.2f} instructions for an element")
    for row in (row for row in results if "plain" in row):
        executed = row["forward"]["instructions"] / row["plain"]["instructions"]
        if executed > a.beside:
            found.append(f"{row['op']}: {executed:.2f} of the instructions of nvcc's kernel")
    return found


def main():
    a = arguments()
    if a.table:
        with open(a.table) as file:
            results = json.load(file)
    else:
        listed = subprocess.run([os.path.join(a.build, "bin", "gpu-counts"), "--list"], capture_output=True, text=True,
                                check=True).stdout.split()
        only = a.only.split(",") if a.only else listed
        unknown = set(only) - set(listed)
        if unknown:
            sys.exit(f"gpu_counts.py: no row {', '.join(sorted(unknown))} in ops.def")
        results = []
        with tempfile.TemporaryDirectory() as folder:
            plain = None if a.compile else plain_of(folder, a.archs.split(",")[0])
            for name in listed:
                for dtype in a.types.split(",") if name in only else []:
                    results.append(counted(a, name, dtype, plain))
                    print(name, dtype, results[-1].get("error", ""), file=sys.stderr, flush=True)
    if a.json:
        with open(a.json, "w") as file:
            file.write("[" + ",\n ".join(json.dumps(row) for row in results) + "]\n")
    print((compiled if a.compile else table)(results))
    if a.markdown:
        with open(a.markdown, "w") as file:
            file.write(HEADING + table(results) + "\n")
    found = beyond(a, results)
    if found:
        sys.exit("gpu_counts.py: more than may be:\n" + "\n".join(found))
    if a.spilled < math.inf and not PTXAS:
        print("gpu_counts.py: no ptxas, so nobody knows what spills")
        sys.exit(SKIPPED)
    if a.beside < math.inf and not NVCC:
        sys.exit(SKIPPED)


main()
