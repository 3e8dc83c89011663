#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Checks TrainCC on a machine with an NVIDIA GPU: tests/gpu/check.sh [--out DIR] [--only PART,...] [--programs TEST,...]
# [--seconds N] [--warm] Runs from the portable bundle (cmake --build build --target gpu-bundle), which needs Python 3
# there and nothing else, or from a source tree with a build. Each part has a time limit of its own and is reported even
# if a later one dies. Nobody's own caches are used: steps are timed without any, or, with --warm, with caches of the
# report's folder that a run before has filled.
set -eu
exec python3 "$(dirname "$(readlink -f "$0")")/check.py" "$@"
