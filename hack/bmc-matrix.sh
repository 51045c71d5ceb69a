#!/bin/sh
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints the matrix of drivers, personalities and features from the reports of
# bmctest.Matrix in the directory $1. Fails unless every planned cell holds: the
# feature works, or bmc/bmctest/support*.go lists it as unsupported and the driver
# reports that.
set -eu
cat "$1"/* | awk '
{
  row = $1 " " $2
  if (!(row in rows)) { rows[row] = ++nrows; name[nrows] = row }
  # A personality may have several runs. One failed run fails the cell.
  if ($4 == "planned") {
    if (!((row, $3) in result)) total++
    if (!($3 in cols)) { cols[$3] = ++ncols; head[ncols] = $3 }
  }
  if (result[row, $3] != "fails" && ($4 != "planned" || !((row, $3) in result))) result[row, $3] = $4
}
END {
  printf "%-31s", ""
  for (c = 1; c <= ncols; c++) printf " %s", head[c]
  print ""
  mark["holds"] = "yes"; mark["unsupported"] = "-"; mark["fails"] = "FAILS"; mark["skipped"] = "skipped"; mark["planned"] = "not run"
  for (r = 1; r <= nrows; r++) {
    printf "%-31s", name[r]
    for (c = 1; c <= ncols; c++) {
      what = result[name[r], head[c]]
      if (what == "holds" || what == "unsupported") held++
      if (what == "unsupported") lacking++
      printf " %-" length(head[c]) "s", mark[what]
    }
    print ""
  }
  printf "-: not supported, %d cells, each with its reason in bmc/bmctest/support*.go\n", lacking
  printf "bmc: %d of %d cells hold\n", held, total
  exit !(total > 0 && held == total)
}'
