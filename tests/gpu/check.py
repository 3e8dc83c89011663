#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The parts of check.sh. Writes OUT/gpu-check.json after every part, and a short table at the end. Exit status 1 if a
part failed.

device      what the driver and the libraries say
tests       the tests that also run on the stand-in for the driver, now on the chip
libraries   the tests of cuBLASLt and cuDNN, against plain sums, the interpreter, the CPU and our own kernels
sanitizer   compute-sanitizer (memcheck, racecheck) on one of them, where it is installed
bandwidth   fused memory-bound kernels beside a copy, with what is aimed at
matmul      matrix products with work behind them beside the products alone, ours and cuBLASLt's
steps       training steps beside PyTorch eager and torch.compile, the same models, batches and types
guide       steps of the five segmentation networks that the guide to compiling measures, in bf16: eager and all modes,
            ours and PyTorch's
"""
import argparse
import concurrent.futures
import glob
import json
import os
import re
import shutil
import subprocess
import sys
import time

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
BUNDLED = os.path.isdir(os.path.join(ROOT, "tests", "bin"))
PROGRAMS = os.path.join(ROOT, "bin") if BUNDLED else os.path.join(ROOT, "build", "bin")
TESTS = os.path.join(ROOT, "tests", "bin") if BUNDLED else os.path.join(ROOT, "build", "tests")
STEP_MODELS = ("gpt2_1024", "resnet50", "gpt_10m", "char_gpt", "mnist_cnn")
GUIDE_MODELS = ("pp_liteseg_t", "regseg", "segformer_b0", "stdc1_seg", "ddrnet_23")
OURS = "traincc"
OUR_MODES = {OURS: "default", "traincc-eager": "eager", "traincc-reduce-overhead": "reduce-overhead",
             "traincc-max-autotune": "max-autotune"}
TORCH = ("torch-eager", "torch-compile", "torch-reduce-overhead", "torch-max-autotune")
SANITIZED = "test_gpu_pointwise"
TESTS_AT_A_TIME = 12
LIBRARY_TESTS = {
    "cublaslt": ("test_cuda_cublaslt", "test_cuda_matmul"),
    "cudnn": (
        "test_cuda_cudnn",
        "test_cuda_cudnn_graphs",
        "test_cuda_cudnn_norm",
        "test_cuda_cudnn_norm_plans",
        "test_cuda_cudnn_plans",
        "test_cuda_cudnn_sdpa",
        "test_cuda_cudnn_sdpa_plans",
    ),
}

chosen = []  # test programs, by --programs; none: all
caches = {}  # the environment that says which caches programs use


def run(command, seconds, environment=None, folder=ROOT):
    """(exit status or None if it took too long, output, seconds)."""
    start = time.monotonic()
    process = subprocess.Popen(
        command,
        cwd=folder,
        env={**os.environ, **caches, **(environment or {})},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        start_new_session=True,
    )
    try:
        output, _ = process.communicate(timeout=seconds)
        status = process.returncode
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, 9)
        output, status = process.communicate()[0], None
    return status, output, round(time.monotonic() - start, 1)


def json_lines(text):
    lines = []
    for line in text.splitlines():
        if line.startswith("{"):
            try:
                lines.append(json.loads(line))
            except ValueError:
                pass
    return lines


def part_device(seconds, out):
    result = {"ok": True}
    for name, command in (
        (
            "nvidia-smi",
            [
                "nvidia-smi",
                "--query-gpu=name,driver_version,memory.total,clocks.max.sm,compute_cap",
                "--format=csv,noheader",
            ],
        ),
        ("devices", [os.path.join(PROGRAMS, "tcc-train"), "--devices"]),
    ):
        if not shutil.which(command[0]):
            result[name] = "not found"
            continue
        status, text, _ = run(command, seconds / 2)
        result[name] = text.strip().splitlines()
        result["ok"] = result["ok"] and status == 0
    result["ok"] = result["ok"] and any("cuda" in line for line in result.get("devices", []))
    status, text, _ = run(
        [
            sys.executable,
            "-c",
            "import torch; print(torch.__version__, torch.version.cuda, torch.backends.cudnn.version())",
        ],
        120,
    )
    result["torch"] = text.strip().splitlines()[-1] if status == 0 and text.strip() else "not installed"
    return result


def scratch_folder(name, out):
    """A folder of its own for the files of a test program, in which it also finds the folders of the bundle."""
    folder = os.path.join(os.path.abspath(out), "scratch", name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    for part in ("bin", "tests", "tools"):
        os.symlink(os.path.join(ROOT, part), os.path.join(folder, part))
    return folder


def run_test(name, left, out):
    """Runs a test program for `left` seconds at most: passed and failed tests, and those that were skipped
    with their reasons."""
    if left < 1:
        return {"ok": False, "why": "no time was left"}
    if not os.path.exists(os.path.join(TESTS, name)):
        return {"ok": False, "why": "there is no such test program"}
    folder = scratch_folder(name, out)
    status, text, took = run([os.path.join(TESTS, name)], min(left, 200), {"TMPDIR": folder}, folder)
    shutil.rmtree(folder, ignore_errors=True)
    with open(os.path.join(out, name + ".txt"), "w") as f:
        f.write(text)
    wrong = re.findall(r"\[  FAILED  \] ([a-z_]\w*)", text)
    why = (
        "took too long" if status is None else "skipped" if status == 77 else f"exit status {status}" if status else ""
    )
    return {
        "ok": status in (0, 77),
        "passed": len(re.findall(r"\[       OK \]", text)),
        "failed": sorted(set(wrong)),
        "why": why,
        "skipped": len(set(re.findall(r"\[  SKIPPED \] ([a-z_]\w*)", text))),
        "reasons": sorted(set(re.findall(r"(?m)^skipped: (.*)$", text))),
        "notes": sorted(set(re.findall(r"(?m)^\d+ of \d+ forms are refused$", text))),
        "seconds": took,
    }


def run_tests(names, seconds, out):
    """Several test programs at a time: the host compiles for most of their time. {name: result of run_test}."""
    end = time.monotonic() + seconds
    jobs = min(len(os.sched_getaffinity(0)), TESTS_AT_A_TIME)
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        results = pool.map(lambda name: run_test(name, end - time.monotonic(), out), names)
        return dict(zip(names, results))


def part_tests(seconds, out):
    apart = [name for names in LIBRARY_TESTS.values() for name in names]
    paths = glob.glob(os.path.join(TESTS, "test_gpu_*")) + glob.glob(os.path.join(TESTS, "test_cuda_*"))
    names = [n for n in sorted(map(os.path.basename, paths)) if n not in apart and (not chosen or n in chosen)]
    programs = run_tests(names, seconds, out)
    result = {"ok": bool(names) and all(p["ok"] for p in programs.values()), "programs": programs}
    if not names:
        result["why"] = f"no test programs in {TESTS}"
    return result


def part_libraries(seconds, out):
    _, found, _ = run([os.path.join(PROGRAMS, "tcc-train"), "--devices"], 60)
    names = [n for names in LIBRARY_TESTS.values() for n in names if not chosen or n in chosen]
    programs = run_tests(names, seconds, out)
    result = {"ok": all(p["ok"] for p in programs.values()), "programs": programs}
    for library in LIBRARY_TESTS:
        lines = re.findall(rf"(?m)^\s*({library}: .*)$", found)
        result[library] = lines[0] if lines else f"{library}: --devices does not name it"
    return result


def part_sanitizer(seconds, out):
    places = [shutil.which("compute-sanitizer")] + glob.glob("/usr/local/cuda*/bin/compute-sanitizer")
    tool = next((p for p in places if p), None)
    if not tool:
        return {"ok": True, "why": "skipped: no compute-sanitizer here"}
    result = {"ok": True}
    for check in ("memcheck", "racecheck"):
        status, text, took = run(
            [tool, "--tool", check, "--error-exitcode", "9", os.path.join(TESTS, SANITIZED)], seconds / 2
        )
        summary = re.findall(r"=+ (ERROR SUMMARY.*|RACECHECK SUMMARY.*)", text)
        result[check] = {
            "ok": status == 0,
            "summary": summary[-1] if summary else f"exit status {status}",
            "seconds": took,
        }
        result["ok"] = result["ok"] and status == 0
    return result


def part_bandwidth(seconds, out):
    status, text, took = run([os.path.join(PROGRAMS, "gpu-bandwidth"), "256"], seconds)
    kernels = json_lines(text)
    reached = all(k.get("of_copy", 1) >= k.get("aim", 0) for k in kernels)
    result = {"ok": status == 0 and reached, "kernels": kernels, "seconds": took}
    if status != 0:
        result["why"] = (text.strip().splitlines() or ["took too long" if status is None else f"exit status {status}"])[
            -1
        ]
    return result


def part_matmul(seconds, out):
    status, text, took = run([os.path.join(PROGRAMS, "gpu-matmul")], seconds)
    products = json_lines(text)
    reached = all(p["of_plain"] >= p["aim"] for p in products if "aim" in p)
    result = {"ok": status == 0 and bool(products) and reached, "products": products, "seconds": took}
    if status != 0:
        result["why"] = (text.strip().splitlines() or ["took too long" if status is None else f"exit status {status}"])[
            -1
        ]
    return result


def set_caches(warm, out):
    """Nobody's own cache is read or written: figures are cold, or warm by a run before that is not counted."""
    folder = os.path.abspath(os.path.join(out, "cache"))
    shutil.rmtree(folder, ignore_errors=True)
    off = "0" if warm else "1"
    caches.update(
        TCC_CACHE_DIR=os.path.join(folder, "traincc"),
        TCC_CACHE_DISABLE=off,
        TORCHINDUCTOR_CACHE_DIR=os.path.join(folder, "inductor"),
        TRITON_CACHE_DIR=os.path.join(folder, "triton"),
        TORCHINDUCTOR_FORCE_DISABLE_CACHES=off,
    )


def time_step(model, peer, environment, end):
    """(the figures of one process, or None; what went wrong)."""
    left = end - time.monotonic()
    if left < 5:
        return None, "no time was left"
    environment = {"TCC_BENCH_DEVICE": "cuda", **environment}
    if peer in OUR_MODES:
        command = [os.path.join(PROGRAMS, "tcc-bench"), model, "10"]
        environment["TCC_BENCH_MODE"] = OUR_MODES[peer]
    else:
        command = [sys.executable, os.path.join(ROOT, "tests", "bench", "peer.py"), peer, model, "10"]
    warm = caches["TCC_CACHE_DISABLE"] == "0"
    if warm:
        run(command, min(left, 150), environment)
        left = max(end - time.monotonic(), 5)
    status, text, _ = run(command, min(left, 150), environment)
    lines = json_lines(text)
    if status == 0 and lines:
        return {**lines[-1], "peer": peer, "cache": "warm" if warm else "cold"}, None
    return None, "took too long" if status is None else (text.strip().splitlines() or [str(status)])[-1]


def time_steps(pairs, environment, seconds):
    """The report about models and peers, in that order."""
    figures, end, problems, failed = [], time.monotonic() + seconds, [], False
    for model, peer in pairs:
        found, why = time_step(model, peer, environment, end)
        if found:
            figures.append(found)
        else:
            problems.append(f"{model} {peer}: {why}")
            failed = failed or peer == OURS
    ratios = {}
    for model in dict.fromkeys(f["model"] for f in figures):
        ours = [f["step_ms"] for f in figures if f["model"] == model and f["peer"] == OURS]
        others = [f["step_ms"] for f in figures if f["model"] == model and f["peer"] in TORCH]
        if ours and others:
            ratios[model] = round(ours[0] / min(others), 3)
    return {"ok": bool(figures) and not failed, "ratios": ratios, "figures": figures, "problems": problems}


def part_steps(seconds, out):
    return time_steps([(model, peer) for model in STEP_MODELS for peer in (OURS, *TORCH)], {}, seconds)


def part_guide(seconds, out):
    """The columns of the guide's table first."""
    peers = (OURS, "torch-eager", "torch-compile", "traincc-eager", "traincc-reduce-overhead", "torch-reduce-overhead",
             "traincc-max-autotune", "torch-max-autotune")
    pairs = [(model, peer) for peer in peers for model in GUIDE_MODELS]
    return time_steps(pairs, {"TCC_BENCH_PRECISION": "bf16"}, seconds)


PARTS = {
    "device": (part_device, 60),
    "tests": (part_tests, 240),
    "libraries": (part_libraries, 90),
    "sanitizer": (part_sanitizer, 60),
    "bandwidth": (part_bandwidth, 60),
    "matmul": (part_matmul, 120),
    "steps": (part_steps, 240),
    "guide": (part_guide, 240),
}


def table(report):
    lines = ["| part | result |", "| --- | --- |"]
    for name, part in report["parts"].items():
        lines.append(f"| {name} | {'ok' if part['ok'] else 'FAILED'}{' - ' + part['why'] if part.get('why') else ''} |")
    for library in LIBRARY_TESTS:
        if library in report["parts"].get("libraries", {}):
            lines.append(f"| library | {report['parts']['libraries'][library]} |")
    for part in ("tests", "libraries"):
        for name, program in report["parts"].get(part, {}).get("programs", {}).items():
            text = f"{program.get('passed', 0)} passed"
            text += f", failed: {', '.join(program['failed'])}" if program.get("failed") else ""
            text += f", {program['skipped']} skipped" if program.get("skipped") else ""
            more = [program.get("why", "")] + program.get("reasons", []) + program.get("notes", [])
            lines.append(f"| {name} | {'; '.join([text] + [m for m in more if m])} |")
    for k in report["parts"].get("bandwidth", {}).get("kernels", []):
        aim = f", {100 * k['of_copy']:.0f} % of the copy (aim {100 * k['aim']:.0f} %)" if "of_copy" in k else ""
        lines.append(f"| {k['kernel']} {k['mib']} MiB | {k['gb_per_s']:.0f} GB/s{aim} |")
    for p in report["parts"].get("matmul", {}).get("products", []):
        of = f", {100 * p['of_plain']:.0f} % of the product alone" if "of_plain" in p else ""
        of += f" (aim {100 * p['aim']:.0f} %)" if "aim" in p else ""
        rate = f"{p['ms']:.3f} ms, {p['tflop_per_s']:.1f} TFLOP/s{of}" if "ms" in p else p["why"]
        lines.append(f"| {p['matmul']} {p['type']} {p['form']}, {p['by']} | {rate} |")
    for part in (report["parts"].get(name, {}) for name in ("steps", "guide")):
        for f in part.get("figures", []):
            first = f"first {f['compile_s']:.1f} s, {f['cache']}"
            lines.append(f"| {f['model']} {f['peer']} | {f['step_ms']:.2f} ms a step, {first} |")
        for model, ratio in part.get("ratios", {}).items():
            lines.append(f"| {model} ours/best | {ratio:.2f} |")
        for problem in part.get("problems", []):
            lines.append(f"| problem | {problem} |")
    return "\n".join(lines)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument(
        "--out",
        default=os.environ.get("OUT", "gpu-check"),
        help="folder for the report (default: $OUT, else gpu-check)",
    )
    p.add_argument("--only", help="comma-separated parts: " + ", ".join(PARTS))
    p.add_argument("--programs", help="comma-separated: in the parts tests and libraries only these test programs")
    p.add_argument("--seconds", type=float, default=1, help="stretch every part's time limit by this factor")
    p.add_argument(
        "--warm",
        action="store_true",
        help="steps: with caches in OUT/cache, filled by a run that is not counted (default: without caches)",
    )
    a = p.parse_args()
    names = a.only.split(",") if a.only else list(PARTS)
    chosen.extend(a.programs.split(",") if a.programs else [])
    for name in names:
        if name not in PARTS:
            sys.exit(f"check.py: no part {name}; there are {', '.join(PARTS)}")
    os.makedirs(a.out, exist_ok=True)
    set_caches(a.warm, a.out)
    report = {"system": os.uname()._asdict() if hasattr(os.uname(), "_asdict") else list(os.uname()), "parts": {}}
    for name in names:
        function, seconds = PARTS[name]
        print(f"{name} ...", flush=True)
        try:
            report["parts"][name] = function(seconds * a.seconds, a.out)
        except Exception as problem:  # the other parts are reported all the same
            report["parts"][name] = {"ok": False, "why": f"{type(problem).__name__}: {problem}"}
        with open(os.path.join(a.out, "gpu-check.json"), "w") as f:
            json.dump(report, f, indent=1)
            f.write("\n")
    print(table(report))
    return 0 if all(part["ok"] for part in report["parts"].values()) else 1


sys.exit(main())
