#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""One peer on one model in a process of its own: peer.py PEER MODEL [STEPS]. Prints one JSON line as tcc-bench does.

PEER: torch-eager, torch-compile, torch-reduce-overhead, torch-max-autotune, jax-jit. TCC_BENCH_DEVICE is the device;
TCC_BENCH_PRECISION=bf16 or fp16 runs PyTorch under autocast.
With WORLD_SIZE and RANK it is one of so many ranks of DistributedDataParallel over gloo; rank 0 prints.
compile_s is the time of the first step, in which both compilers compile; peak_rss_mb is the process's ru_maxrss.
step_ms is the median after the warm-up steps, step_ms_min the fastest. A timed step waits for its loss; on a GPU, where
nobody needs to, a window of WINDOW steps waits once. """
import json
import os
import resource
import statistics
import sys
import time

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
WARM_UP, WINDOW = 5, 5
MODES = {"torch-compile": "default", "torch-reduce-overhead": "reduce-overhead", "torch-max-autotune": "max-autotune"}


def main():
    peer, name = sys.argv[1], sys.argv[2]
    steps = int(sys.argv[3]) if len(sys.argv) > 3 else 20
    device = os.environ.get("TCC_BENCH_DEVICE", "cpu")
    threads = int(os.environ.get("TCC_NUM_THREADS", len(os.sched_getaffinity(0))))
    if peer == "jax-jit":
        os.environ["JAX_PLATFORMS"] = "cpu"
        import jax
        import models_jax
        version, step = jax.__version__, models_jax.trainer(name)
    else:
        import torch
        import models_torch
        if "WORLD_SIZE" in os.environ:
            torch.distributed.init_process_group("gloo")
        torch.set_num_threads(threads)
        torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = (
            True  # on a GPU, as tcc-bench allows it
        )
        version, step = torch.__version__, models_torch.trainer(name, MODES.get(peer), device)
    window = 1 if device == "cpu" else WINDOW
    times, losses, loss = [], [], 0.0
    for i in range(WARM_UP + steps):
        start = time.perf_counter()
        for _ in range(window if i else 1):
            loss = step()
        losses.append(float(loss))
        times.append((time.perf_counter() - start) / (window if i else 1))
    rest = times[WARM_UP:]
    figures = dict(
        peer=peer,
        model=name,
        version=version,
        threads=threads,
        step_ms=round(1e3 * statistics.median(rest), 3),
        step_ms_min=round(1e3 * min(rest), 3),
        compile_s=round(times[0], 3),
        peak_rss_mb=round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024, 1),
        first_loss=round(losses[0], 6),
        final_loss=round(losses[-1], 5),
    )
    if device == "cuda":
        figures["peak_device_mb"] = round(torch.cuda.max_memory_allocated() / 2**20, 1)
    if os.environ.get("RANK", "0") == "0":
        print(json.dumps(figures))


main()
