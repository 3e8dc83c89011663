#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Training on ranks whose processes end or stop at random moments, and what is left of it.

    ranks_faults.py BIN [--times N] [--ranks N] [--seed N] [--steps N] [--launcher local|openmpi|mpich] [--timeout S]

BIN: the folder of tcc-train. Kills each rank N times (kill -9), stops each one twice (SIGSTOP), and the process that
has started them once, in a run that goes on from its last checkpoint each time. Every end must come within the time
limit, with an error that names the rank, or the signal, and a status that is not 0, and leave no process behind. The
run's last checkpoint must be that of one which nothing has stopped. Of a rank that was killed mpirun itself tells, and
ends the others. A line for each fault; exit status 1 where one ended otherwise.
"""
import argparse, os, pathlib, random, re, shutil, signal, subprocess, sys, tempfile, time

GRACE_S = 15  # beside the time limit: to hear of it, and for the one that has started the ranks to end all
LAUNCHERS = {"openmpi": ("mpirun.openmpi", ["--oversubscribe", "--bind-to", "none", "--quiet"], "OMPI_COMM_WORLD_RANK"),
             "mpich": ("mpirun.mpich", [], "PMI_RANK")}


def write_recipe(folder, steps):
    draw = random.Random(1)
    rows = [(draw.gauss(0, 1), draw.gauss(0, 1)) for _ in range(400)]
    (folder / "points.csv").write_text(
        "x,y,kind\n" + "".join(f"{x:.4f},{y:.4f},{'in' if x * x + y * y < 1.2 else 'out'}\n" for x, y in rows))
    recipe = folder / "r.yaml"
    recipe.write_text(
        "model: {name: mlp, hidden: [64, 64], dropout: 0.1}\n"
        f"data: {{kind: csv, path: {folder}/points.csv, batch_size: 8, val_split: 0.2, drop_last: false}}\n"
        "optimizer: {lr: 3e-3}\n"
        f"training: {{max_steps: {steps}, eval_every: 20, save_every: 25, log_every: 50, clip_grad_norm: 0.5,\n"
        "           ema_decay: 0.9}\n")
    return recipe


class Run:
    def __init__(self, options, folder, steps):
        self.o, self.folder, self.recipe = options, folder, write_recipe(folder, steps)
        self.last = f"checkpoints/step-{steps:06d}"

    def start(self, name):
        run = self.folder / name
        train = [f"{self.o.bin}/tcc-train", "--device", "cpu", "--quiet", str(self.recipe), "--run-dir", str(run),
                 "--comm-timeout", str(self.o.timeout)]
        if any((run / "checkpoints").glob("step-??????.safetensors")):
            train.append("--resume")
        if self.o.launcher == "local":
            command = train + ["--ranks", str(self.o.ranks)]
        else:
            program, given, _ = LAUNCHERS[self.o.launcher]
            command = [program, *given, "-np", str(self.o.ranks), *train]
        self.err = open(self.folder / "err", "w+")
        return subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=self.err, start_new_session=True)

    def said(self):
        self.err.seek(0)
        return self.err.read()

    def whole(self):
        begin = time.monotonic()
        if self.start("whole").wait():
            sys.exit(f"the run that nothing stops has failed: {self.said()}")
        return time.monotonic() - begin


def processes_of(session):
    """The processes of tcc-train in a session, in the order in which they were started."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            stat = (entry / "stat").read_text()
            name, rest = stat[stat.index("(") + 1:stat.rindex(")")], stat[stat.rindex(")") + 2:].split()
            environment = (entry / "environ").read_bytes()
        except OSError:
            continue
        if int(rest[3]) == session and name == "tcc-train" and rest[0] != "Z":
            found.append((int(rest[19]), int(entry.name), environment))
    return [(pid, environment) for _, pid, environment in sorted(found)]


def rank_process(o, launcher, rank):
    """0: that rank is not there (yet)."""
    session = launcher.pid
    if o.launcher == "local":
        pids = [pid for pid, _ in processes_of(session) if pid != session]
        return pids[rank] if len(pids) == o.ranks else 0
    wanted = f"\0{LAUNCHERS[o.launcher][2]}={rank}\0".encode()
    # Open MPI gives each process a session of its own
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "comm").read_text() == "tcc-train\n" and \
                    wanted in b"\0" + (entry / "environ").read_bytes() and \
                    str(o.scratch).encode() in (entry / "cmdline").read_bytes():
                return int(entry.name)
        except OSError:
            pass
    return 0


def left_behind(o):
    left = []
    for entry in pathlib.Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and str(o.scratch).encode() in (entry / "cmdline").read_bytes() and \
                    int(entry.name) != os.getpid() and " Z " not in (entry / "stat").read_text():
                left.append(int(entry.name))
        except OSError:
            pass
    return left


def fault(o, run, rank, signal_number, within_s, draw):
    """One fault: words for what was wrong, or None; and whether the run had come to its end."""
    process = run.start("run")
    time.sleep(draw.random() * within_s)
    at = time.monotonic()
    victim = process.pid if rank == "all" else rank_process(o, process, rank)
    if victim and process.poll() is None:
        try:
            os.kill(victim, signal_number)
        except ProcessLookupError:
            victim = 0
    struck = victim and process.poll() is None
    try:
        status = process.wait(within_s * 20 + o.timeout + GRACE_S)
    except subprocess.TimeoutExpired:
        for pid in left_behind(o):
            os.kill(pid, signal.SIGKILL)
        process.wait()
        return "hangs", False, time.monotonic() - at, ""
    seconds, said = time.monotonic() - at, run.said()
    end = time.monotonic() + 10
    while left_behind(o) and time.monotonic() < end:
        time.sleep(0.05)
    left = left_behind(o)
    for pid in left:
        os.kill(pid, signal.SIGKILL)
    wrong = None
    if left:
        wrong = f"left {len(left)} processes"
    elif status and rank != "all" and (o.launcher == "local" or signal_number == signal.SIGSTOP) and not re.search(
            rf"rank {rank} (is gone|was ended by signal|did not answer)|signal 9|Killed|MPI: not all ranks came", said):
        wrong = f"does not name rank {rank}"
    elif struck and status and seconds > o.timeout + GRACE_S:
        wrong = "took too long"
    return wrong, status == 0, seconds, said


def main():
    p = argparse.ArgumentParser()
    p.add_argument("bin")
    p.add_argument("--times", type=int, default=10)
    p.add_argument("--ranks", type=int, default=3)
    p.add_argument("--seed", type=int, default=1)
    p.add_argument("--steps", type=int, default=3000)
    p.add_argument("--timeout", type=float, default=5)
    p.add_argument("--launcher", default="local", choices=["local", *LAUNCHERS])
    o = p.parse_args()
    o.bin = os.path.abspath(o.bin)
    o.scratch = pathlib.Path(tempfile.mkdtemp(prefix="ranks-faults-"))
    os.environ.update(TCC_CACHE_DIR=str(o.scratch / "cache"), OMPI_ALLOW_RUN_AS_ROOT="1",
                      OMPI_ALLOW_RUN_AS_ROOT_CONFIRM="1")
    draw, run = random.Random(o.seed), Run(o, o.scratch, o.steps)
    run.whole()
    shutil.rmtree(o.scratch / "whole")
    within_s = run.whole()
    faults = [(r, signal.SIGKILL) for r in range(o.ranks) for _ in range(o.times)]
    faults += [(r, signal.SIGSTOP) for r in range(o.ranks) for _ in range(2)]
    faults += [("all", signal.SIGKILL)] if o.launcher == "local" else []
    draw.shuffle(faults)
    failures, resumes = 0, 0
    for rank, number in faults:
        wrong, ended, seconds, said = fault(o, run, rank, number, within_s, draw)
        words = said.strip().splitlines()[:1] or [""]
        name = signal.Signals(number).name
        print(f"rank {rank} {name:8} after {seconds:6.2f} s: {wrong or 'as it must be'}; {words[0]}", flush=True)
        if wrong:
            failures += 1
            print(said)
        resumes += (o.scratch / "run" / "checkpoints").exists()
        if ended:
            failures += not same(o, run)
            shutil.rmtree(o.scratch / "run")
    if run.start("run").wait():
        sys.exit(f"the last resume has failed: {run.said()}")
    failures += not same(o, run)
    print(f"{len(faults)} faults, {failures} failures")
    shutil.rmtree(o.scratch)
    sys.exit(1 if failures else 0)


def same(o, run):
    for ending in (".safetensors", ".state.safetensors"):
        a, b = (o.scratch / name / (run.last + ending) for name in ("whole", "run"))
        if a.read_bytes() != b.read_bytes():
            print(f"the run that was stopped ends otherwise: {b.name}")
            return False
    return True


if __name__ == "__main__":
    main()
