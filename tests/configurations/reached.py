#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Which tests config.sanitizers can do without: each line of the product that they reach is reached by a test that
stays, too. Tests of less than two seconds all stay; of the others, those that reach most in a second.

    reached.py FOLDER > reached.cmake

builds with clang in FOLDER and runs each test alone: half an hour on one processor. FOLDER/profiles/TEST has what a
test reached and what it said; a test that has this is not run again. Those that fail stay.
"""
import glob
import json
import os
import resource
import shutil
import subprocess
import sys

SOURCE = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
PARTS = ("codegen", "frontend", "ir", "passes", "runtime", "tools")
HEAD = """\
# Written by reached.py: tests that config.sanitizers does without, since the others reach each line of the product that
# these reach. It is made anew when those others lose cases, and from time to time."""
FEW_SECONDS = 2
LEFT_OUT = "fuzz|gpu|numbers"  # config.sanitizers does without them for other reasons (tests/CMakeLists.txt)


def tool(name):
    for version in ("-19", "-20", "-21", ""):
        if shutil.which(name + version):
            return name + version
    sys.exit(f"reached.py: {name} of LLVM 19 or newer is needed")


def build(folder):
    # counters are in the file at once: many tests end processes
    flags = "-O1 -g1 -fno-sanitize-coverage=trace-cmp -fprofile-instr-generate -fcoverage-mapping " \
            "-mllvm -runtime-counter-relocation=true"
    subprocess.run(["cmake", "-G", "Ninja", "-S", SOURCE, "-B", folder, f"-DCMAKE_C_COMPILER={tool('clang')}",
                    f"-DCMAKE_CXX_COMPILER={tool('clang++')}", "-DCMAKE_BUILD_TYPE=Debug",
                    "-DCMAKE_EXE_LINKER_FLAGS=-fuse-ld=lld", f"-DCMAKE_C_FLAGS_DEBUG={flags}",
                    "-DTCC_SANITIZE=address,undefined,fuzzer-no-link", "-DTCC_TEST_CONFIGURATIONS=OFF"],
                   check=True, stdout=subprocess.DEVNULL)
    subprocess.run(["ninja", "-C", folder, "--quiet", "all", "reached_tests"], check=True, stdout=subprocess.DEVNULL)


def run(test, folder):
    """Processor seconds, or None where the test fails."""
    properties = {p["name"]: p["value"] for p in test["properties"]}
    environment = os.environ | dict(e.split("=", 1) for e in properties.get("ENVIRONMENT", []))
    environment["LLVM_PROFILE_FILE"] = f"{folder}/profiles/{test['name']}/%m%c.profraw"
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with open(f"{folder}/profiles/{test['name']}/log", "wb") as log:
        status = subprocess.run(test["command"], cwd=properties["WORKING_DIRECTORY"], env=environment, stdout=log,
                                stderr=subprocess.STDOUT).returncode
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if status not in (0, 77):
        return None
    return after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime


def reached(name, folder):
    """Lines, each as a text."""
    profile = f"{folder}/profiles/{name}/profile"
    raw = glob.glob(f"{folder}/profiles/{name}/*.profraw")
    if not raw:
        return set()
    subprocess.run([tool("llvm-profdata"), "merge", "-sparse", "-o", profile, *raw], check=True)
    # a function has the same counters in every program, so that these stand for all
    report = subprocess.run([tool("llvm-cov"), "export", "-format=lcov", "-instr-profile", profile,
                             f"{folder}/libtraincc.so", "-object", f"{folder}/bin/tcc-train", "-object",
                             f"{folder}/bin/tcc-opt", *(f"{SOURCE}/{part}" for part in PARTS)],
                            check=True, capture_output=True, text=True).stdout
    found, file = set(), ""
    for line in report.split("\n"):
        kind, _, rest = line.partition(":")
        if kind == "SF":
            file = os.path.relpath(rest, SOURCE)
        elif kind == "DA":
            place, count = rest.split(",")[:2]
            if count != "0":
                found.add(f"{file}:{place}")
    os.unlink(profile)
    return found


def choose(tests):
    """Names that stay, of {name: (seconds, reached)}."""
    stay = [name for name in tests if tests[name][0] < FEW_SECONDS]
    left = set().union(*(r for _, r in tests.values())).difference(*(tests[name][1] for name in stay))
    while left:
        best = max(tests, key=lambda name: len(tests[name][1] & left) / max(tests[name][0], 0.1))
        left -= tests[best][1]
        stay.append(best)
    for name in sorted(stay, key=lambda name: -tests[name][0]):  # what later ones made needless
        others = set().union(*(tests[other][1] for other in stay if other != name))
        if tests[name][0] >= FEW_SECONDS and tests[name][1] <= others:
            stay.remove(name)
    return stay


def main():
    if len(sys.argv) != 2 or sys.argv[1].startswith("-"):
        sys.exit(__doc__)
    folder = os.path.abspath(sys.argv[1])
    build(folder)
    shown = subprocess.run(["ctest", "--test-dir", folder, "--show-only=json-v1", "-LE", LEFT_OUT], check=True,
                           capture_output=True, text=True).stdout
    tests = {}
    for test in json.loads(shown)["tests"]:
        name = test["name"]
        kept = f"{folder}/profiles/{name}/reached.json"
        if not os.path.exists(kept):
            shutil.rmtree(os.path.dirname(kept), ignore_errors=True)
            os.makedirs(os.path.dirname(kept))
            seconds = run(test, folder)
            with open(kept, "w") as file:
                json.dump((seconds, sorted(reached(name, folder))), file)
        with open(kept) as file:
            seconds, lines = json.load(file)
        if seconds is None:
            print(f"{name} fails: {os.path.dirname(kept)}/log", file=sys.stderr)
        else:
            tests[name] = (seconds, set(lines))
    stay = choose(tests)
    spared = sum(seconds for name, (seconds, _) in tests.items() if name not in stay)
    print(HEAD)
    print(f"# They would take {spared:.0f} of {sum(seconds for seconds, _ in tests.values()):.0f} s.\nset(reached")
    print("\n".join(f"    {name}" for name in tests if name not in stay) + ")")


if __name__ == "__main__":
    main()
