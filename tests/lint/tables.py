#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""A row or a column that is forgotten in a table does not compile, and a rule that is forgotten does not link:
tables.py [--all] CC SOURCE_DIR FLAGS SYSTEM_INCLUDE_DIR...

Each fault is planted in a copy of the table, and the files that see the table are compiled until one of them has an
error. Faults: a row is missing; of a row, a column is missing; a rule is renamed, so that nobody has written it, which
the object's undefined symbol tells; where the table has a word for "no rule", a row's rule is that. A sample of them
is planted; --all: all of them, and what found each is printed. Values that are no rules (costs, ranges, defaults) are
facts that only tests can judge."""
import argparse
import collections
import os
import re
import subprocess
import sys
import tempfile
from concurrent.futures import ProcessPoolExecutor

# Of each table: the macros that are rows; the columns that name a function; those that may have none, and its word.
TABLES = {
    "ir/ops.def": (["TCC_OP"], [9, 10, 11, 13], {10: "zero", 11: "composite", 13: "none"}),
    "ir/attrs.def": (["F", "C"], [], {}),
    "ir/support/dtype.def": (["TCC_DTYPE"], [], {}),
    "ir/support/network.def": (["X"], [], {}),
    "ir/support/optimizer.def": (["TCC_OPTIMIZER"], [9], {}),
    "ir/support/status.def": (["TCC_STATUS"], [], {}),
    "passes/passes.def": (["TCC_PASS"], [2], {}),
    "codegen/calls.def": (["P", "A", "S", "L", "C"], [4, 5], {}),
    "codegen/emit/instructions.def": (["BINARY", "UNARY", "CONVERSION"], [1], {}),
    "codegen/schedule/params.def": (["TCC_PARAM"], [], {}),
    "frontend/run/options.def": (["TCC_OPTION"], [], {}),
    "tools/recipe.def": (["RECIPE_KEY"], [], {}),
}
# Only a test can tell: the row, and which one does.
BY_TESTS = {("ir/support/network.def", name): "e2e.test_train_ranks" for name in ("nvlink", "ib", "ethernet")}

ROOTS = ["", "frontend/include", "tools", "tests"]
STEP = 24  # of rows, in the sample


def rows(text, macros):
    """(start, end, [(start, end) of each column]) of each row."""
    def spaces(match):
        return re.sub(r"[^\n]", " ", match.group(0))
    code = re.sub(r'"(\\.|[^"\\\n])*"|/\*.*?\*/|#(define|undef) \w+(\([^)]*\))?', spaces, text, flags=re.S)
    for match in re.finditer(r"\b(" + "|".join(macros) + r")\(", code):
        depth, at, begin, columns = 1, match.end(), match.end(), []
        while depth:
            depth += (code[at] in "([{") - (code[at] in ")]}")
            if depth == 0 or (depth == 1 and code[at] == ","):
                columns.append((begin, at))
                begin = at + 1
            at += 1
        yield match.start(), at, columns


def plants(text, macros, rules, none):
    """(kind, number of its row, column, values of the row, (start, end, what stands there instead)) of each fault."""
    found = [(start, end, at, [text[a:b].strip() for a, b in at]) for start, end, at in rows(text, macros)]
    often = collections.Counter((k, v) for *_, values in found for k, v in enumerate(values))
    for i, (start, end, columns, values) in enumerate(found):
        yield "row", i, 0, values, (start, end, "")
        for k, (a, b) in enumerate(columns):
            if len(columns) > 1:
                yield "column", i, k, values, (a - 1, b, "") if k else (a, b + 1, "")
            if k in rules and values[k] not in ("own", none.get(k)):
                yield "rule", i, k, values, (a, b, "planted")
            if k in none and values[k] != none[k] and often[k, values[k]] == 1: # else it is still called
                yield "no rule", i, k, values, (a, b, none[k])


def is_sampled(kind, row, k):
    if kind == "column": # the macro then has too few arguments, whichever it is
        return row == 0 and k < 2
    return row % (STEP if kind == "row" else 4 * STEP) == 1


class Tree:
    """The sources, who includes whom, and in which words they name rows."""

    def __init__(self, source):
        self.source, self.text = source, {}
        for folder in ["frontend", "ir", "passes", "codegen", "runtime", "tools"]:
            for at, _, files in os.walk(os.path.join(source, folder)):
                for path in (os.path.relpath(os.path.join(at, f), source) for f in files):
                    if path.endswith((".c", ".h", ".def")) and "comm_mpi" not in path:
                        with open(os.path.join(source, path), encoding="utf-8") as f:
                            self.text[path] = f.read()
        self.includes = {p: {self.find(p, name) for name in re.findall(r'#include ["<]([^">]+)', text)}
                         for p, text in self.text.items()}

    def find(self, path, name):
        tried = [os.path.normpath(os.path.join(base, name)) for base in (os.path.dirname(path), *ROOTS)]
        tried.append(name.replace("traincc/", "ir/support/"))
        return next((t for t in tried if t in self.text), None)

    def users(self, table):
        """The .c files that see it, and of each word, or end of one behind a _, which of them have it."""
        seen, level = {table}, {table}
        while level:
            level = {p for p, others in self.includes.items() if others & level} - seen
            seen |= level
        files, known = sorted(p for p in seen if p.endswith(".c")), collections.defaultdict(set)
        for file in files:
            for word in set(re.findall(r"\w+", self.text[file])):
                for at in range(len(word)):
                    if not at or word[at - 1] == "_":
                        known[word[at:]].add(file)
        return files, known

    def nearest(self, table, users, values, k):
        """The users, those first that are likely to need the row: they have its rare names, or its rule."""
        files, known = users
        score = collections.Counter({f: 0.1 for f in files if table in self.includes[f]})
        for word in set(re.findall(r"\w+", " ".join(values))):
            for file in known.get(word, ()):
                score[file] += 1 / len(known[word]) ** 2
        for file in known.get(values[k], ()) if k else ():
            score[file] += bool(re.search(r"\b[A-Z_]+\(" + re.escape(values[k]) + r"\b", self.text[file]))
        return sorted(files, key=lambda f: -score[f])

    def lay_out(self, into):
        """Links to all sources; those of public headers in traincc/, too."""
        os.makedirs(os.path.join(into, "traincc"))
        for path in sorted(self.text):
            os.makedirs(os.path.join(into, os.path.dirname(path)), exist_ok=True)
            os.symlink(os.path.join(self.source, path), os.path.join(into, path))
            public = os.path.join(into, "traincc", os.path.basename(path))
            if os.path.dirname(path) in ("frontend/include/traincc", "ir/support") and not os.path.lexists(public):
                os.symlink(os.path.join(into, path), public)


worker = {}


def start(cc, flags, tree, scratch, system):
    into = os.path.join(scratch, str(os.getpid()))
    tree.lay_out(into)
    command = [cc, *flags.split(), "-std=gnu17", "-D_GNU_SOURCE", '-DTCC_VERSION=""', "-Werror"]
    command += ["-I" + os.path.join(into, root) for root in ROOTS] + ["-isystem" + path for path in system]
    worker.update(tree=tree, into=into, command=command)


def compile_file(table, file):
    """What is wrong with it, and its assembler text. What expands a table is compiled whole, for unused functions."""
    out = os.path.join(worker["into"], "out.s")
    whole = table in worker["tree"].includes[file]
    done = subprocess.run(worker["command"] + (["-S", "-O0", "-o", out] if whole else ["-fsyntax-only"]) +
                          [os.path.join(worker["into"], file)], capture_output=True, text=True, check=False)
    if done.returncode:
        return (re.findall(r"error: (.*)", done.stderr) or [done.stderr])[0], ""
    if not whole:
        return None, ""
    with open(out, encoding="utf-8") as f:
        return None, f.read()


def find(job):
    """What finds a fault: ("compiler" or "linker", file, words); None: nothing does."""
    table, kind, (begin, end, instead), files = job
    text = worker["tree"].text[table]
    at = os.path.join(worker["into"], table)
    os.remove(at)
    with open(at, "w", encoding="utf-8") as f:
        f.write(text[:begin] + instead + text[end:])
    found = None
    for file in files:
        said, assembler = compile_file(table, file)
        missing = re.findall(r"\b\w*planted\b", assembler) if kind == "rule" else []
        if said or missing:
            found = ("compiler", file, said) if said else ("linker", file, missing[0])
            break
    os.remove(at)
    os.symlink(os.path.join(worker["tree"].source, table), at)
    if found and compile_file(table, found[1])[0]:
        return "nobody", found[1], "does not compile without the fault: " + compile_file(table, found[1])[0]
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--all", action="store_true")
    parser.add_argument("cc")
    parser.add_argument("source")
    parser.add_argument("flags")
    parser.add_argument("system", nargs="*")
    options = parser.parse_args()
    tree, faults, jobs = Tree(os.path.realpath(options.source)), [], []
    unknown = {p for p in tree.text if p.endswith(".def")} - set(TABLES)
    for table, (macros, rules, none) in TABLES.items():
        users = tree.users(table)
        for kind, row, k, values, edit in plants(tree.text[table], macros, rules, none):
            if options.all or is_sampled(kind, row, k):
                faults.append((table, kind, " ".join(values[:2]), k))
                jobs.append((table, kind, edit, tree.nearest(table, users, values, k)))
    missed, counts = [f"nothing is planted in {path}" for path in unknown], collections.Counter()
    with tempfile.TemporaryDirectory() as scratch, ProcessPoolExecutor(
            2, initializer=start, initargs=(options.cc, options.flags, tree, scratch, options.system)) as pool:
        for (table, kind, name, k), found in zip(faults, pool.map(find, jobs)):
            if not found and kind == "row" and (table, name.split()[0]) in BY_TESTS:
                found = BY_TESTS[table, name.split()[0]], "", ""
            if not found or found[0] == "nobody":
                missed.append(f"{table}: {kind} of {name}, column {k}: {found or 'found by nothing'}")
            else:
                counts[table, kind, found[0]] += 1
            if options.all:
                print(table, kind, name, k, *(found or ("nothing",)), sep="\t", flush=True)
    for (table, kind, by), count in sorted(counts.items()):
        print(f"{table}: {kind}: {count} found by {by}")
    print(*missed, sep="\n")
    sys.exit(bool(missed))


main()
