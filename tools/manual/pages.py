# SPDX-License-Identifier: MIT
"""Makes Doxygen's input for the reference manual: a page for each function as users write it, for each type and for
each header. pages.py HEADERS EXAMPLES [OUT]; without OUT it only says which functions lack a comment or an example."""
import os
import re
import sys
import textwrap

import headers

# What examples find ready, by the name that examples.h gives it.
GIVEN = {
    "t": "the trace of the model's function",
    "cx": "a context",
    "model": "a small model that was trained for a step on `batch`, its `batch_count` arrays",
    "batch": "",
    "data": "a data set of a short text",
    "loader": "a loader of `data`",
    "tokenizer": "a tokenizer of characters",
    "metrics": "the open metrics of a run",
    "ir": "a parsed graph",
}
ERRORS_OF_TRACES = ("Wrong shapes, element types and other arguments are kept with the line of this call, and returned "
                    "by the call that traces: see tensor.h.")


class Manual:
    def __init__(self, folder, examples):
        self.about, self.entries, self.order = {}, {}, []
        self.folder, self.examples, self.problems = folder, {}, []
        for name in sorted(os.listdir(folder)):
            if not name.endswith(".h"):
                continue
            with open(os.path.join(folder, name), encoding="utf-8") as f:
                self.about[name], entries = headers.read(name, f.read())
            for e in entries if name != "api.h" else []:
                known = self.entries.get(e.name)
                if known and known.header == name:
                    continue  # once more, for C++
                if known:  # tcc_split is a type and a macro: the type's page has another name
                    kind = e if known.kind in ("macro", "function") else known
                    kind.name += "_type"
                    self.entries[kind.name] = kind
                if e.name not in self.entries or known:
                    self.entries[e.name] = e
                    self.order.append(e)
        for name in sorted(os.listdir(examples)):
            if not name.endswith(".c"):
                continue
            with open(os.path.join(examples, name), encoding="utf-8") as f:
                text = f.read()
            own = re.findall(r"^(?:static|typedef) (?:[^;{]*?[ *])?(\w+)(?: = |\[|\(| \{)", text, re.M)
            whole = r"^(?:static|typedef) [^\n]*\b%s\b(?:[^\n]*;$|.*?^\}[^\n]*$)"
            own = {n: re.search(whole % n, text, re.M | re.S).group(0) for n in own}
            for m in re.finditer(r"^(?:TRACED|EXAMPLE)\((\w+)\) \{(?:\n(.*?)^\}| ([^\n]*) \}$)", text, re.M | re.S):
                body = textwrap.dedent((m.group(2) or "") + (m.group(3) or "")).rstrip("\n")
                before = [code for n, code in own.items() if re.search(r"\b%s\b" % n, body)]
                self.examples[m.group(1)] = (name, "\n\n".join(before + [body]))
        self.join_macros()

    def join_macros(self):
        """A function that a macro calls is on the macro's page."""
        self.calls = {}
        for e in self.order:
            parts = headers.macro_parts(e.code) if e.kind == "macro" else None
            if parts and parts[1] in self.entries:
                self.entries[parts[1]].macros.append(e.name)
                self.calls[e.name] = self.entries[parts[1]]
        self.pages = [e for e in self.order if not e.macros]
        self.page_of = {e.name: e.name for e in self.pages}
        for e in self.order:
            if e.macros:
                self.page_of[e.name] = e.macros[0]

    def comments(self, e):
        """Of a macro without a comment of its own, those of the function that it calls."""
        return e.comments if e.has_own or e.name not in self.calls else self.calls[e.name].comments

    def is_function(self, e):
        return e.kind == "function" or (e.kind == "macro" and re.match(r"#define \w+\(", e.code))

    def check(self):
        """Says what to add where."""
        for e in self.pages:
            if not self.is_function(e):
                continue
            stem = e.header[:-2]
            if not self.comments(e) and not e.title:
                self.problems.append("%s: %s has no comment. Say in one above its declaration, or behind it, what it "
                                     "does, its shapes and its errors" % (e.header, e.name))
            if e.name not in self.examples:
                self.problems.append("%s: %s has no example. Add to tools/manual/%s.c: %s(%s) { one line that uses it; "
                                     "one that shows what comes out }" %
                                     (e.header, e.name, stem, "TRACED" if self.is_traced(e) else "EXAMPLE", e.name))
        for name, (file, _) in self.examples.items():
            if name not in self.page_of:
                self.problems.append("tools/manual/%s: %s is declared in no public header" % (file, name))
            elif self.page_of[name] != name:
                self.problems.append("tools/manual/%s: the example of %s goes under %s, which users write" %
                                     (file, name, self.page_of[name]))
        return not self.problems

    def is_traced(self, e):
        function = self.calls.get(e.name, e)
        return "tcc_trace *" in function.code or "tcc_tensor " in function.code

    # -- Texts --

    def escape(self, text):
        text = re.sub(r"([\\@<>&#%$])", r"\\\1", text).replace("--", r"\--").replace('"', "&quot;")
        return re.sub(r"`([^`]+)`", r"<code>\1</code>", text)

    def link(self, text, but=""):
        """Names of pages become links."""

        def reference(m):
            word = m.group(0)
            page = self.page_of.get(word) if not word.endswith(".h") else header_id(word)
            known = word in self.about if word.endswith(".h") else page
            if not known or page == but:
                return word
            return '@ref %s "%s"' % (page, word)

        return re.sub(r"\b(?:(?:tcc|TCC)_\w+|[a-z_]+\.h)\b", reference, text)

    def prose(self, comment, but=""):
        """Paragraphs; lines that are indented stay as they are."""
        out, lines, code = [], [], []

        def flush():
            if lines:
                out.append(self.link(self.escape(" ".join(lines)), but))
            if code:
                out.append("@code{.unparsed}\n%s\n@endcode" % textwrap.dedent("\n".join(code)))
            lines.clear()
            code.clear()

        for line in comment.split("\n"):
            if line.startswith("  "):
                if lines:
                    flush()
                code.append(line)
            elif not line and code:
                code.append("")
            else:
                if code or not line:
                    flush()
                if line:
                    lines.append(line)
        flush()
        return "\n\n".join(out)

    def brief(self, e):
        """The first sentence."""
        users = [u for u in self.related(e, "") if u != e.header] if not self.is_function(e) else []
        fallback = e.title or ("Of " + users[0] if users else "In " + e.header)
        text = re.split(r"(?<=[^.][.;])\s|\n\n", (self.comments(e) or [fallback])[0], maxsplit=1)[0]
        return " ".join(text.split()).rstrip(".;:")

    def synopsis(self, e):
        function, options = self.calls.get(e.name), None
        lines = ["#include <traincc/%s>" % e.header, ""]
        if function:
            shown, options = headers.prototype(e, function)
            lines += [wrap(shown), ""]
        if function or e.kind == "function":
            code = (function or e).code
            code = " ".join(code.replace("TCC_API ", "").split())
            lines += [wrap(re.sub(r"\s*__attribute__\(\(.*\)\)", "", code))]
        elif e.kind == "macro":
            lines += [re.match(r"#define (\w+(?:\([^)]*\))?)", e.code).group(1)]
        else:
            lines += [re.match(r"[^{;]*\{?", e.code).group(0)]
            if "{" in lines[-1]:
                lines += ["    %s%s" % (m, "," if "enum" in lines[-1] else ";") for m, _ in self.members(e)]
                lines += [e.code[e.code.rindex("}"):]]
            else:
                lines[-1] += ";"
        return "\n".join(lines).rstrip(), options

    def member_list(self, e, skip_size=False):
        out = ['<dl class="members">']
        for code, comments in self.members(e):
            if skip_size and code == "size_t size":
                continue
            text = " ".join(self.prose(c, e.name) for c in comments) or "&nbsp;"
            out.append("<dt><code>%s</code></dt><dd>%s</dd>" % (self.escape(code), text))
        return "\n".join(out + ["</dl>"])

    def members(self, e):
        table = re.search(r'#include "(\w+\.def)"', e.code)
        if not table:
            return headers.members(e.code)
        with open(os.path.join(self.folder, table.group(1)), encoding="utf-8") as f:
            rows = re.findall(r'^TCC_\w+\((\w+), ([^,]+),(.*)\)$', f.read(), re.M)
        form = "{0}, {1} bytes" if table.group(1) == "dtype.def" else "{0}: {1}"
        return [("TCC_" + n, [form.format(v.strip('"'), rest.strip().split(", ")[0].strip('"'))])
                for n, v, rest in rows]

    # -- Pages --

    def entry_page(self, e):
        synopsis, options = self.synopsis(e)
        description = [c for c in self.comments(e)]
        errors = []
        for i, c in enumerate(description):
            found = re.search(r"(?:^|\s)(Errors(?::| are| as|,)[^\n]*(?:\n(?!\n).*)*)", c)
            if found:
                errors.append(re.sub(r"^Errors: ", "", found.group(1)))
                description[i] = c[:found.start()].rstrip() + c[found.end():]
        if self.is_function(e) and "tcc_loc at" in self.calls.get(e.name, e).code:
            errors.append(ERRORS_OF_TRACES)
        out = ["@page %s %s" % (e.name, e.name), self.link(self.escape(self.brief(e)), e.name) + ".", ""]
        out += section(e, "Synopsis", "@code{.c}\n%s\n@endcode" % synopsis)
        body = "\n\n".join(self.prose(c, e.name) for c in description if c)
        if re.search(r"[:;.]", e.title):  # more than a title
            body += "\n\n<em>%s:</em> %s." % (self.link(e.header), self.prose(e.title, e.name).rstrip("."))
        if body.strip():
            out += section(e, "Description", body)
        if options:
            out += section(e, "Options", "Members of %s, which are given by name behind the arguments; what is left "
                           "out is 0." % self.link(options) + "\n" + self.member_list(self.entries[options], True))
        elif e.kind in ("struct", "enum"):
            out += section(e, "Members", self.member_list(e))
        if errors:
            out += section(e, "Errors", "\n\n".join(self.prose(text, e.name) for text in errors))
        if e.name in self.examples:
            out += section(e, "Example", self.example(e))
        related = self.related(e, synopsis)
        if related:
            out += section(e, "See also", ", ".join(self.link(r, e.name) for r in related))
        return out

    def example(self, e):
        code = self.examples[e.name][1]
        used = [self.prose("`%s` is %s" % (name, text)) for name, text in GIVEN.items()
                if text and re.search(r"\b%s\b" % name, code)]
        return (", ".join(used) + ".\n" if used else "") + "@code{.c}\n%s\n@endcode" % code

    def related(self, e, synopsis):
        """The types of a prototype, and of a type the functions that have it."""
        if e.kind in ("struct", "enum", "opaque", "callback"):
            users = [p.name for p in self.pages if self.is_function(p) and
                     re.search(r"\b%s\b" % e.name, self.calls.get(p.name, p).code)]
            return users[:12] + [e.header]
        types = dict.fromkeys(re.findall(r"\btcc_\w+\b", synopsis))
        return [t for t in types if t in self.page_of and self.entries[t].kind != "function" and
                self.entries[t].kind != "macro" and self.page_of[t] != e.name] + [e.header]

    def header_page(self, name):
        page = header_id(name)
        out = ["@page %s %s" % (page, name), self.prose(self.about[name]), ""]
        title, opened = None, False
        for e in self.pages:
            if e.header != name:
                continue
            if e.title != title or not opened:
                title = e.title
                out += ["</ul>"] * opened
                heading, _, rest = title.partition(":")
                heading = heading.split(". ")[0]
                heading = self.escape((heading or "Contents").replace("`", ""))
                out += ["@section %s_%d %s" % (page, len(out), heading)]
                out += [self.prose(title), ""] * bool(rest or "." in title) + ['<ul class="pages">']
                opened = True
            out += ["<li>@subpage %s <span>%s</span></li>" % (e.name, self.link(self.escape(self.brief(e))))]
        return out + ["</ul>"] * opened

    def main_page(self, version):
        lines = ["@mainpage TrainCC %s" % version,
                 "Every function, macro and type of the public headers. Each function has an example that is compiled "
                 "and run with the tests; a comment behind a line is what comes out of it. A model is a C function, "
                 "which is traced:",
                 "@code{.c}\n%s\n@endcode" % self.examples["tcc_model_create"][1], '<ul class="pages">']
        for name, about in self.about.items():
            if name != "api.h":
                first = re.split(r"(?<=[^.])\.\s|\n\n", about, maxsplit=1)[0]
                lines.append("<li>@subpage %s <span>%s</span></li>" %
                             (header_id(name), self.escape(" ".join(first.split()).rstrip("."))))
        return lines + ["</ul>"]

    def write(self, folder, version):
        os.makedirs(folder, exist_ok=True)
        pages = [self.main_page(version)] + [self.header_page(n) for n in self.about if n != "api.h"]
        pages += [self.entry_page(e) for e in self.pages]
        with open(os.path.join(folder, "manual.dox"), "w", encoding="utf-8") as f:
            for page in pages:
                for line in "\n".join(page).split("\n"):
                    f.write(("/// " + line).rstrip() + "\n")
                f.write("\n")


def header_id(name):
    return "traincc_" + name.replace(".", "_")


def wrap(code):
    """Lines of a prototype, which are broken behind commas."""
    start, given = code.split("(", 1)
    glued = start.replace(" ", "\0") + "(" + re.sub(r"(?<!,) ", "\0", given)
    lines = textwrap.wrap(glued, 84, subsequent_indent=" " * (len(start) + 1), break_long_words=False,
                          break_on_hyphens=False)
    return "\n".join(lines).replace("\0", " ")


def section(e, title, text):
    return ["@section of_%s_%s %s" % (e.name, title.lower().replace(" ", "_"), title), text, ""]


def main():
    if len(sys.argv) not in (3, 5):
        sys.exit("usage: pages.py HEADERS EXAMPLES [OUT VERSION]")
    manual = Manual(sys.argv[1], sys.argv[2])
    complete = manual.check()
    print("\n".join(manual.problems) if manual.problems else "%d pages, %d examples" %
          (len(manual.pages), len(manual.examples)))
    if len(sys.argv) == 5:
        manual.write(*sys.argv[3:])
        return 0  # what lacks is an error of the tests, not of the build
    return 0 if complete else 1


if __name__ == "__main__":
    sys.exit(main())
