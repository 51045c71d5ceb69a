#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs one part of make test-full. Prints its output if it fails or runs with -v, and a summary:
#
#   hack/part.sh NAME COMMAND...     test-full-NAME: passed in 312 s
set -uo pipefail

name=${1:?usage: hack/part.sh NAME COMMAND...}
shift
log=$(mktemp)
trap 'rm -f "$log"' EXIT
start=$SECONDS
if "$@" >"$log" 2>&1; then
  case " $* " in *" -v "*) grep -vE '^=== ' "$log" ;; esac
  echo "test-full-$name: passed in $((SECONDS - start)) s"
else
  status=$?
  grep -vE '^(=== |ok |\?)' "$log"
  echo "test-full-$name: failed after $((SECONDS - start)) s"
  exit "$status"
fi
