#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training steps of TrainCC beside PyTorch eager, torch.compile and jax.jit: the same models, cores and run.

    python3 -m venv /tmp/peers && /tmp/peers/bin/pip install torch jax          (once)
    tests/bench/compare.py --python /tmp/peers/bin/python [--models mlp,char_gpt] [--rounds 3] [--json FILE] [--markdown
    FILE]

Every figure comes from a fresh process (peer.py, or build/bin/tcc-bench); the processes of one model take turns for
`--rounds` rounds, so that a slow minute of the machine meets all alike. A process runs a warm-up and `--steps` whole
training steps (forward, backward, clipping, optimizer; configs.py has the models) and gives its median; the table shows
the median over rounds. Compilers start cold: their caches are off. `ours/best` is our step over the fastest peer's. A
peer that fails is reported and left out; without tcc-bench the peers are measured alone. torch.compile needs a C++
compiler. """
import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, HERE)
import configs  # noqa: E402

PEERS = ("torch-eager", "torch-compile", "jax-jit")
GPU_PEERS = ("torch-eager", "torch-compile", "torch-reduce-overhead", "torch-max-autotune")
OURS = "traincc"


def arguments():
    root = os.path.dirname(os.path.dirname(HERE))
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--python", default=sys.executable, help="the interpreter that has torch and jax")
    p.add_argument("--tcc-bench", default=os.path.join(root, "build", "bin", "tcc-bench"), help="our program")
    p.add_argument(
        "--models",
        default=",".join(name for name in configs.MODELS if name not in configs.GPU_ONLY),
        help="comma-separated names out of configs.py",
    )
    p.add_argument("--device", default="cpu", choices=("cpu", "cuda"))
    p.add_argument(
        "--peers",
        help="comma-separated: traincc, " + ", ".join((*PEERS, *GPU_PEERS[2:])) + "; default: those of the device",
    )
    p.add_argument("--rounds", type=int, default=3)
    p.add_argument("--steps", type=int, default=20, help="timed steps a process, at least 20 for a figure to publish")
    p.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    p.add_argument("--timeout", type=float, default=900, help="seconds a process may take")
    p.add_argument("--json", help="write every process's figures here")
    p.add_argument("--markdown", help="write the table here (it is always printed)")
    return p.parse_args()


def run(a, peer, model, environment):
    if peer == OURS:
        command = [a.tcc_bench, model, str(a.steps)]
    else:
        command = [a.python, os.path.join(HERE, "peer.py"), peer, model, str(a.steps)]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=a.timeout)
    except subprocess.TimeoutExpired:
        return None, f"longer than {a.timeout:.0f} s"
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if done.returncode != 0 or not lines:
        return None, f"exit status {done.returncode}: {(done.stderr.strip().splitlines() or ['no output'])[-1]}"
    return {"peer": peer, "model": model, **json.loads(lines[-1])}, None


def roofline(environment, folder):
    program = os.path.join(folder, "roofline")
    build = [
        os.environ.get("CC", "cc"),
        "-O3",
        "-march=native",
        "-pthread",
        os.path.join(HERE, "roofline.c"),
        "-o",
        program,
    ]
    try:
        subprocess.run(build, check=True, capture_output=True)
        return json.loads(subprocess.run([program], env=environment, check=True, capture_output=True, text=True).stdout)
    except (OSError, subprocess.CalledProcessError, ValueError) as problem:
        return {"problem": str(problem)}


def machine():
    with open("/proc/cpuinfo") as f:
        names = [line.split(":", 1)[1].strip() for line in f if line.startswith("model name")]
    return {
        "cpu": names[0] if names else platform.processor(),
        "cores": len(os.sched_getaffinity(0)),
        "system": platform.platform(),
        "load": os.getloadavg()[0],
    }


def table(results, peers):
    def cell(rows, key, digits):
        values = [r[key] for r in rows if key in r]
        return f"{statistics.median(values):.{digits}f}" if values else "-"

    lines = [
        "| model | peer | step ms | fastest step ms | first step s | peak RSS MB | ours/best |",
        "| --- | --- | --: | --: | --: | --: | --: |",
    ]
    for model in dict.fromkeys(r["model"] for r in results):
        of = {p: [r for r in results if r["peer"] == p and r["model"] == model] for p in peers}
        medians = {p: statistics.median(r["step_ms"] for r in rows) for p, rows in of.items() if rows}
        others = [v for p, v in medians.items() if p != OURS]
        for p in (p for p in peers if of[p]):
            ratio = f"{medians[OURS] / min(others):.2f}" if p == OURS and others else ""
            lines.append(
                f"| {model} | {p} | {cell(of[p], 'step_ms', 2)} | {cell(of[p], 'step_ms_min', 2)} | "
                f"{cell(of[p], 'compile_s', 2)} | {cell(of[p], 'peak_rss_mb', 0)} | {ratio} |"
            )
    return "\n".join(lines)


def main():
    a = arguments()
    models, peers = a.models.split(","), (
        a.peers.split(",") if a.peers else [OURS, *(GPU_PEERS if a.device == "cuda" else PEERS)]
    )
    for name in models:
        if name not in configs.MODELS:
            sys.exit(f"compare.py: no model {name}; there are {', '.join(configs.MODELS)}")
    if OURS in peers and not os.access(a.tcc_bench, os.X_OK):
        print(f"compare.py: no {a.tcc_bench}, measuring the peers alone", file=sys.stderr)
        peers.remove(OURS)
    results, versions, problems = [], {}, []
    with tempfile.TemporaryDirectory() as folder:
        environment = {
            **os.environ,
            "TCC_BENCH_DEVICE": a.device,
            "TCC_NUM_THREADS": str(a.threads),
            "OMP_NUM_THREADS": str(a.threads),
            "TCC_CACHE_DIR": folder,
            "TORCHINDUCTOR_FORCE_DISABLE_CACHES": "1",
            "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, "inductor"),
        }
        ceilings = roofline(environment, folder)
        for model in models:
            for turn in range(a.rounds):
                for peer in peers:
                    figures, problem = run(a, peer, model, environment)
                    if problem:
                        problems.append(f"{peer} on {model}: {problem}")
                        print("compare.py:", problems[-1], file=sys.stderr)
                        continue
                    results.append({"round": turn, **figures})
                    versions[peer] = figures.get("version", "")
                    print(
                        f"{model} {peer} round {turn + 1}: {figures['step_ms']:.2f} ms, "
                        f"first {figures['compile_s']:.2f} s, {figures['peak_rss_mb']:.0f} MB, "
                        f"loss {figures['final_loss']:.4f}",
                        file=sys.stderr,
                    )
    report = {"machine": machine(), "roofline": ceilings, "versions": versions, "threads": a.threads, "steps": a.steps,
              "rounds": a.rounds, "problems": problems, "results": results}
    m = report["machine"]
    text = (
        f"{m['cpu']}, {m['cores']} cores, {a.threads} threads; {json.dumps(ceilings)}; "
        f"{', '.join(f'{p} {v}'.strip() for p, v in versions.items())}; "
        f"median of {a.rounds} processes with {a.steps} steps each.\n\n"
        + table(results, peers)
        + "\n"
    )
    print(text)
    if a.markdown:
        with open(a.markdown, "w") as f:
            f.write(text)
    if a.json:
        with open(a.json, "w") as f:
            json.dump(report, f, indent=1)
            f.write("\n")
    return 1 if problems else 0


sys.exit(main())
