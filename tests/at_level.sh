#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
# Runs a test's command at the level that TCC_CPU says, where the machine has that: at_level.sh TCC_TRAIN COMMAND...
set -eu
train=$1
shift
said=$("$train" --devices 2>&1) || case $said in
*"TCC_CPU: $TCC_CPU is "*) echo "skipped: $said"; exit 77 ;;
*) echo "$said"; exit 1 ;;
esac
exec "$@"
