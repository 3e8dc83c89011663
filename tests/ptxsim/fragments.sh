#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# fragments.inc is what fragments.py makes: fragments.sh SOURCE_DIR
if ! command -v python3 >/dev/null; then
    echo "skipped: no python3 here"
    exit 77
fi
python3 "$1/fragments.py" | cmp - "$1/fragments.inc"
