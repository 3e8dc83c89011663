#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Draws a terminal with what a command printed: terminal.py OUT.svg "$ shown command" < output"""
import html
import sys

COLUMNS, CHAR, LINE, MARGIN = 100, 7.23, 17, 14


def draw(lines):
    width, height = COLUMNS * CHAR + 2 * MARGIN, len(lines) * LINE + 2 * MARGIN + 22
    yield (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height}" '
        f'width="{width:.0f}" height="{height}" '
        'font-family="DejaVu Sans Mono, Menlo, monospace" font-size="12">'
    )
    yield '<!-- SPDX-License-Identifier: MIT -->'
    yield '<title>A run of tcc-train</title>'
    yield f'<rect width="{width:.0f}" height="{height}" rx="8" fill="#0f172a"/>'
    for i, color in enumerate(("#ef4444", "#eab308", "#22c55e")):
        yield f'<circle cx="{MARGIN + 6 + 18 * i}" cy="16" r="5.5" fill="{color}"/>'
    for i, line in enumerate(lines):
        color = "#7dd3fc" if line.startswith("$") else "#e2e8f0"
        place = f'x="{MARGIN}" y="{MARGIN + 34 + i * LINE}"'
        yield f'<text {place} fill="{color}" xml:space="preserve">{html.escape(line[:COLUMNS])}</text>'
    yield '</svg>'


def main():
    shown = [sys.argv[2]] + [line.rstrip() for line in sys.stdin]
    with open(sys.argv[1], "w", encoding="utf-8") as out:
        out.write("\n".join(draw(shown)) + "\n")


main()
