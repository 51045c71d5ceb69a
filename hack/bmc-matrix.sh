#!/bin/sh
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0

# Prints driver × personality × feature from the reports that bmctest.Matrix wrote
# into the directory $1. Fails unless every planned cell holds: it works, or it is
# one that the table in bmc/bmctest/support*.go calls not supported and the driver
# says so.
set -eu
cat "$1"/* | awk '
{
  row = $1 " " $2
  if (!(row in rows)) { rows[row] = ++nrows; name[nrows] = row }
  # A personality may be run in several ways: what fails in one, fails.
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
