#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The report of coverage.sh: coverage.py SOURCE OUT <LCOV

A line for each room; for emission, which is codegen/{emit,body,schedule,contract,attention} without the descriptions of
libraries' calls; and for the passes without what prints, dumps and draws. Lines that make an error are no emission, and
are left out of these two, reached or not. Lines of AMX tiles count as reached only where there are such. OUT has each
line that nothing has reached, with its reason where one is known: REASONS below, or that it makes an error."""
import collections
import re
import sys

# Why nothing reaches lines: by regular expressions for a whole file name, a whole function, and a part of the line.
NO_TILES = "needs a processor with AMX tiles"
NO_LLVM = "needs another version of LLVM"
NO_PROCESSOR = "needs a processor of another kind"
DUMPS = "prints, and computes nothing"
TOO_LARGE = "needs tensors larger, or of more loops, than a test can have"
FOLLOWS = "follows an error that is already there"
ALWAYS_FOUND = "the end of a search that always finds something"
NO_VALUE = "a case of an enum, or a type, that no value has here"
REASONS = [
    (r"codegen/emit/bf16_host\.c", r"i8|configure|release|zero|access_rows|load|store|multiply", "", NO_TILES),
    (r"codegen/emit/vector\.c", r"tcc_emit_tile.*", "", NO_TILES),
    (r"codegen/emit/check_host\.c", r"tell_tile|tcc_host_tile_rows", "", NO_TILES),
    (r"codegen/emit/check_host\.c", ".*", "case TILE", NO_TILES),
    (r"codegen/contract/tile\.c", r"tcc_tile_(configure|begin|end)|multiply_tiles", "", NO_TILES),
    (r"codegen/contract/host\.c", r"end_tiles", "", NO_TILES),
    (r"codegen/contract/plan\.c", r"choose_tiles", "", NO_TILES),
    (r"codegen/contract/pack_bf16\.c", r"line_of_pairs|transposed_columns_run|clear_last_step", "", NO_TILES),
    (r"codegen/(contract|attention)/.*", ".*", r"tcc_tile_|tcc_emit_tiles|int rows\[TCC_EMIT_TILES\]|multiply_tiles",
     NO_TILES),
    (r"codegen/emit/bf16_host\.c", ".*", r"\.128\"", NO_PROCESSOR),
    (r"codegen/emit/nvptx\.c", r"bound", "", NO_LLVM),
    (r"codegen/emit/host\.c", r"call_masked", "", NO_LLVM),
    (r"codegen/emit/intrinsic\.c", r"tcc_emit_barrier", "", NO_LLVM),
    (r"codegen/emit/host\.c", r"fill_native", "", NO_PROCESSOR),
    (r"codegen/emit/host\.c", r"find_level", "return NULL", "makes an error"),
    (r"codegen/emit/host\.c", r"tcc_codegen_names_host", "", DUMPS),
    (r"codegen/emit/.*", ".*", r"LLVM(DisposeMessage|GetErrorMessage|ConsumeError)\(|tcc_llvm_target_clear\(out",
     FOLLOWS),
    (r"codegen/emit/types\.c", r"tcc_emit_dtype", "COUNT|return NULL", NO_VALUE),
    (r"codegen/body/emit\.c", r"tcc_body_emit", "case TCC_EXPR_(REDUCE|PORT)", NO_VALUE),
    (r"codegen/body/body\.c", r"trace_node", "return NULL", FOLLOWS),
    (r"codegen/body/iteration\.c", r"divide", "", FOLLOWS),
    (r"codegen/contract/prologue\.c", r"value", "LLVMConstNull", FOLLOWS),
    (r"codegen/schedule/lowering\.c", r"tcc_lowering_keep", "tcc_body_free", FOLLOWS),
    (r"codegen/body/affine\.c", r"tcc_affine_loops", "alias", NO_VALUE),
    (r"codegen/emit/threads\.c", r"shuffle", "LLVMBuildTrunc.*ZExt", NO_VALUE),
    (r"codegen/body/emit\.c", r"emit_within", "IntSGE", TOO_LARGE),
    (r"codegen/contract/launch\.c", r"tcc_contract_add_result", "", TOO_LARGE),
    (r"codegen/emit/check_host\.c", r"trace(_argument)?", "ANYWHERE|return;|^ *}$", TOO_LARGE),
    (r"codegen/contract/epilogue\.c", r"tcc_epilogue_create", "frees it", FOLLOWS),
    (r"codegen/body/iteration\.c", r"tcc_iteration_refine", "return false; /", ALWAYS_FOUND),
    (r"codegen/schedule/reduce_trace\.c", r"tcc_reduce_is_(across|kept)", "return false", ALWAYS_FOUND),
    (r"codegen/emit/llvm\.c", r"tcc_emitter_print_.*|tcc_llvm_assembly_suffix", "", DUMPS),
    (r"codegen/schedule/params\.c", r"print_range", "", DUMPS),
    (r"codegen/.*", ".*", r"tcc_logf\(", DUMPS),
]

ERROR = r"(tcc_enomem|TCC_BUG|tcc_error|tcc_note|tcc_params_refuse|refuse\w*|too_many|out_of_memory|failed|fail)\("
MAKES_ERROR = re.compile(r"^\s*(default: |else if \(.*\) (?=tcc_error))?((else )?return |(const )?tcc_status \w+ = |"
                         r"[\w>.\-]*status = |(\*\w+ = )+)?(\w+ \? )?" + ERROR)
IF_ALL_IS_WELL = re.compile(r"^\s*if \([\w>.\-]*status == TCC_OK\)$")
IF_FAILED = re.compile(r"^\s*if \((error|!.*)\) \{$")
IF_STATUS = re.compile(r"^\s*if \(status != TCC_OK\) \{$")
ERROR_FUNCTION = re.compile(r"(refuse\w*|too_many|out_of_memory|failed|fail|on_diagnostic)$")
EMISSION = re.compile(r"codegen/(emit|body|schedule|contract|attention)/(?!\w*call\.c$)")
COMPUTES = re.compile(r"passes/(?!.*(print|dump|svg)\.c$)")


def indent_of(line):
    return len(line) - len(line.lstrip())


def error_lines(text):
    """The lines of statements that make an error, each to the end of its block, and what is undone before them."""
    found, at = set(), 0
    for i, line in enumerate(text):
        if IF_STATUS.match(line):
            found.update(range(i + 2, text.index(" " * indent_of(line) + "}", i) + 2))
    while at < len(text):
        if not MAKES_ERROR.match(text[at]):
            at += 1
            continue
        if IF_ALL_IS_WELL.match(text[at - 1]):
            at -= 1
        indent, before = indent_of(text[at]), at - 1
        while text[before].strip() and indent_of(text[before]) >= indent:
            before -= 1
        if IF_FAILED.match(text[before]):
            found.update(range(before + 2, at + 1))
        while at < len(text) and (not text[at].strip() or indent_of(text[at]) >= indent):
            found.add(at + 1)
            at += 1
        if at < len(text) and text[at].strip() == "}":
            found.add(at + 1)
    return found


def functions_of(text):
    """The function of each line, by the house style: a definition begins in column 0."""
    name, names = "", []
    for line in text:
        m = re.match(r"(?:[\w*]+ +\**)+(\w+)\(", line)
        if m and not line.rstrip().endswith(";"):
            name = m.group(1)
        names.append(name)
    return names


def reason_of(file, function, text, errors, line):
    if line in errors or ERROR_FUNCTION.match(function):
        return "makes an error"
    for where, what, part, reason in REASONS:
        if re.fullmatch(where, file) and re.fullmatch(what, function) and re.search(part, text):
            return reason
    return ""


def has_tiles():
    """Whether kernels with AMX tiles run here; else they are only made, for other machines."""
    with open("/proc/cpuinfo") as f:
        return "amx_tile" in f.read()


def read(source):
    """file -> {line: whether it was reached}"""
    lines = collections.defaultdict(dict)
    for row in sys.stdin:
        if row.startswith("SF:"):
            file = row[3:].strip().removeprefix(source.rstrip("/") + "/")
        elif row.startswith("DA:"):
            line, hits = row[3:].split(",")[:2]
            lines[file][int(line)] = int(hits) > 0
    return lines


def main():
    source, out = sys.argv[1:]
    total, reached, named = collections.Counter(), collections.Counter(), collections.Counter()
    reasons, tiles = collections.Counter(), has_tiles()
    with open(out, "w") as missed:
        for file, lines in sorted(read(source).items()):
            text = open(f"{source}/{file}").read().split("\n")
            errors, functions = error_lines(text), functions_of(text)
            room, top = file.rpartition("/")[0], file.partition("/")[0]
            for line, hit in sorted(lines.items()):
                keys = [room, f"{top} in all"]
                is_error = line in errors or ERROR_FUNCTION.match(functions[line - 1])
                if EMISSION.match(file) and not is_error:
                    keys.append("emission")
                if COMPUTES.match(file) and not is_error:
                    keys.append("passes that compute")
                reason = reason_of(file, functions[line - 1], text[line - 1], errors, line)
                hit = hit and (tiles or reason != NO_TILES)
                reason = "" if hit else reason
                for key in keys:
                    total[key] += 1
                    reached[key] += hit
                    named[key] += bool(reason)
                if not hit:
                    print(f"{file}:{line}: {reason or text[line - 1].strip()}", file=missed)
                if reason and "emission" in keys:
                    reasons[reason] += 1
    for key in sorted(total):
        share, known = 100 * reached[key] / total[key], 100 * (reached[key] + named[key]) / total[key]
        print(f"{key:22} {reached[key]:6} of {total[key]:6} lines  {share:5.1f} %, with reasons {known:5.1f} %")
    for reason, n in reasons.most_common():
        print(f"    emission: {n} lines: {reason}")


main()
