#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs every fuzz target of the module for a while each and fails if one finds
# something; Go then leaves the input under testdata/fuzz of the package, to be
# committed with the repair.
#
#   hack/fuzz.sh TIME      for example 5s
set -euo pipefail

time=${1:?usage: hack/fuzz.sh TIME}
count=0
while read -r dir; do
  targets=$(go test -list '^Fuzz' "./$dir" | grep '^Fuzz' || true)
  for target in $targets; do
    count=$((count + 1))
    echo "fuzz: ./$dir $target"
    # Minimising inputs that only cover more would eat the time where coverage is
    # not the same twice, as over sockets. What fails is kept as it was found.
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" -fuzzminimizetime 1x "./$dir"
  done
done < <(git grep --untracked -l '^func Fuzz' -- '*_test.go' | xargs -r -n1 dirname | sort -u)
echo "fuzz: $count targets, $time each, nothing found"
