#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the module for TIME, and fails if one finds a fault. Go
# then writes the input to testdata/fuzz of the package; commit it with the fix.
#
#   hack/fuzz.sh TIME      for example 5s
set -euo pipefail

time=${1:?usage: hack/fuzz.sh TIME}
count=0
log=$(mktemp)
trap 'rm -f "$log"' EXIT

# On a busy machine go test may report its own timeout as a failure
# (go.dev/issue/75804: "context deadline exceeded" without an input). Only this
# failure is retried.
fuzz() {
  for _ in 1 2 3; do
    # Minimizing inputs takes too long if the coverage is not deterministic, as with
    # sockets. Failing inputs are not minimized.
    if go test -run '^$' -fuzz "^$2\$" -fuzztime "$time" -fuzzminimizetime 1x "./$1" 2>&1 | tee "$log"; then
      return 0
    fi
    if grep -q 'Failing input written' "$log" || ! grep -q '^ *context deadline exceeded$' "$log"; then
      return 1
    fi
  done
  return 1
}

while read -r dir; do
  targets=$(go test -list '^Fuzz' "./$dir" | grep '^Fuzz' || true)
  for target in $targets; do
    count=$((count + 1))
    echo "fuzz: ./$dir $target"
    fuzz "$dir" "$target" </dev/null
  done
done < <(git grep --untracked -l '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u)
echo "fuzz: $count targets, $time each, nothing found"
