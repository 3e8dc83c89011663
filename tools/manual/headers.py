# SPDX-License-Identifier: MIT
"""Reads the public headers: what is declared, and the comments that say what it is.

A comment belongs to the declarations that follow it, up to the next comment or empty line; behind a declaration, to
that one. A comment right before another one belongs to all up to the next empty line, and one that is a title between
dashes to all up to the next title."""
import re

TITLE = re.compile(r"-{2,4} (.*?) -{2,4}(?:\n|$)(.*)", re.S)


class Entry:
    """A function, macro or type: its code, and comments from the nearest to the farthest."""

    def __init__(self, kind, name, code, header, comments, title):
        self.kind, self.name, self.code, self.header = kind, name, code, header
        self.comments, self.title = [c for c in comments if c], title
        self.has_own = False  # a comment of its own
        self.macros = []  # of a function: what users write in its place


def clean(comment):
    """The text of a comment, without its stars. Lines keep what they are indented by behind a star."""
    lines = comment.strip()[2:-2].split("\n")
    stars = [re.match(r"\s*\* ?(.*)", line) for line in lines[1:]]
    return "\n".join([lines[0].strip()] + [m.group(1).rstrip() if m else line.strip()
                                           for m, line in zip(stars, lines[1:])]).strip()


def end_of_code(text, at):
    """Behind the semicolon that ends the declaration at `at`."""
    depth = 0
    while at < len(text):
        if text.startswith("/*", at):
            at = text.index("*/", at) + 2
            continue
        depth += {"{": 1, "}": -1}.get(text[at], 0)
        at += 1
        if text[at - 1] == ";" and not depth:
            break
    return at


def items(text):
    """The header in turn: ("blank",), ("comment", text), ("code", text, the comment behind it or "")."""
    at = 0
    while at < len(text):
        blank, space = re.compile(r"\n[ \t]*\n").match(text, at), re.compile(r"\s").match(text, at)
        if blank:
            yield ("blank",)
            at = blank.end() - 1
        elif space:
            at += 1
        elif text.startswith("/*", at):
            end = text.index("*/", at) + 2
            yield "comment", clean(text[at:end])
            at = end
        else:
            directive = re.compile(r"#(?:[^\n]|(?<=\\)\n)*|TCC_API_(?:BEGIN|END)\b").match(text, at)
            end = directive.end() if directive else end_of_code(text, at)
            behind = re.compile(r"[ \t]*(/\*.*?\*/)", re.S).match(text, end)
            yield "code", text[at:end], clean(behind.group(1)) if behind else ""
            at = behind.end() if behind else end


def declared(code):
    """The kind and the name of what code declares; None for what is of no interest."""
    for kind, pattern in (
        ("macro", r"#define ([a-zA-Z]\w*?[a-zA-Z0-9])\b(?!_)"),
        ("function", r"TCC_API [^(]*?(\w+)\("),
        ("struct", r"typedef struct \w+ \{.*\} (\w+);"),
        ("enum", r"typedef enum \w+ \{.*\} (\w+);"),
        ("enum", r"enum \{\s*(?:/\*.*?\*/\s*)?(\w+)"),
        ("opaque", r"typedef struct \w+ (\w+);"),
        ("callback", r"typedef \w+ \(\*(\w+)\)"),
    ):
        found = re.match(pattern, code, re.S)
        if found:
            return kind, found.group(1)
    return None


def read(name, text):
    """The header's own comment, and its entries."""
    about, entries, title, heads, current, previous, taken = "", [], "", [], "", "blank", False
    for item in items(text):
        if item[0] == "blank":
            heads, current, taken = [], "", False
        elif item[0] == "comment":
            taken = False
            section = TITLE.match(item[1])
            if not about:
                about = re.sub(r"SPDX-.*\n?", "", item[1]).strip()
            elif section:
                title = section.group(1)
                heads, current = [section.group(2).strip()], ""
            else:
                heads, current = heads + [current] * (previous == "comment"), item[1]
        elif declared(item[1]) and not re.match(r"#define (TRAINCC|TCC_SUPPORT)_\w+_H\b", item[1]):
            kind, found = declared(item[1])
            own = "" if kind == "macro" and taken else current  # macros behind the functions that they call
            taken = taken or kind == "function"
            entries.append(Entry(kind, found, item[1], name, [item[2], own] + heads[::-1], title))
            entries[-1].has_own = bool(item[2] or own)
        previous = item[0]
    return about, entries


def parameters(code):
    inside = re.search(r"\((.*?)\)\s*(?:__attribute__.*)?;", code, re.S).group(1)
    return [] if inside == "void" else [" ".join(p.split()) for p in re.split(r",(?![^()]*\))", inside)]


def macro_parts(code):
    """The parameters of a macro, the function that it calls and what it gives to it; None for other macros."""
    flat = re.sub(r"\s+", " ", code.replace("\\\n", " "))
    found = re.match(r"#define \w+\(([^)]*)\) (tcc_\w+)\((.*)\)$", flat)
    if not found:
        return None
    given = [re.sub(r"^\((.*)\)$", r"\1", g.strip()) for g in re.split(r",(?![^()]*\))", found.group(3))]
    return [p.strip() for p in found.group(1).split(",")], found.group(2), given


def prototype(macro, function):
    """What a user writes, with the function's types: tcc_tensor tcc_relu(tcc_tensor x); and the options' type if
    options may follow."""
    names, _, given = macro_parts(macro.code)
    types, shown, options = parameters(function.code), [], None
    for i, value in enumerate(given):
        with_options = re.match(r"TCC_WITH_OPTIONS\((\w+),", value)
        behind = len(given) - i - 1
        if with_options:
            options = with_options.group(1)
            shown += types[i:len(types) - 1 - behind] + ["..."]
        elif value == "__VA_ARGS__":
            shown += types[i:len(types) - behind]
        elif value in names:
            shown.append(types[i])
    result = re.match(r"TCC_API (.*?)\w+\(", function.code, re.S).group(1)
    return "%s%s(%s);" % (" ".join(result.split()) + ("" if result.endswith("*") else " "), macro.name,
                          ", ".join(shown)), options


def members(code):
    """Of a struct's or an enum's body: code and comment of each member."""
    body = code[code.index("{") + 1:code.rindex("}")]
    end = "," if re.match(r"(typedef )?enum", code) else ";"
    found, before = [], ""
    for part in re.finditer(r"/\*(?:.*?)\*/|[^/%s]+%s?" % (end, end), body, re.S):
        text = part.group(0)
        if text.startswith("/*"):
            alone = not body[:part.start()].split("\n")[-1].strip()
            if found and not alone:
                found[-1][1].append(clean(text))
            else:
                before = clean(text)
        elif text.strip() and not text.strip().startswith("#"):
            code_of = " ".join(text.replace("TCC_OR_ZERO", "").split()).rstrip(end).strip()
            found.append((re.sub(r" ([,;])", r"\1", code_of), [before] * bool(before)))
            before = ""
    return found
