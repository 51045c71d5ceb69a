#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fails with a reason if the source tree cannot be committed: unformatted Go files, a
# stale go.mod, a Go file without a license line, or stale generated files.
#
#   hack/verify.sh CONTROLLER_GEN CRD_REF_DOCS DIAGRAMS
set -euo pipefail

generators=("$@")
status=0
fail() {
  echo "verify: $*" >&2
  status=1
}

# All committed or untracked files.
mapfile -t files < <(git ls-files --cached --others --exclude-standard | sort -u)
gofiles=()
for file in "${files[@]}"; do
  case $file in *.go) [ ! -e "$file" ] || gofiles+=("$file") ;; esac
done

unformatted=$(gofmt -l "${gofiles[@]}")
[ -z "$unformatted" ] || fail "run gofmt -w on:"$'\n'"$unformatted"

unlicensed=$(grep -L 'SPDX-License-Identifier: Apache-2.0' "${gofiles[@]}" || true)
[ -z "$unlicensed" ] || fail "no license line (hack/boilerplate.go.txt) in:"$'\n'"$unlicensed"

for module in . api; do
  (cd "$module" && go mod tidy -diff) || fail "go.mod or go.sum of $module is stale: run go mod tidy there"
done

# Generate in a copy, so that a failed check changes nothing.
copy=$(mktemp -d)
trap 'rm -rf "$copy"' EXIT
for file in "${files[@]}"; do
  [ ! -f "$file" ] || printf '%s\0' "$file"
done | tar --create --null --files-from=- | tar --extract --directory="$copy"
generated=(api config/crd/bases config/rbac/role.yaml config/webhook/manifests.yaml docs/book/diagrams)
for page in annotations api flags metrics reasons; do
  generated+=("docs/book/reference/$page.md")
done
(cd "$copy" && hack/generate.sh "${generators[@]}")
for path in "${generated[@]}"; do
  [ -e "$path" ] || [ -e "$copy/$path" ] || continue
  diff --recursive --unified --new-file "$path" "$copy/$path" || fail "$path is stale: run make generate"
done

# Links and language need no built site.
found=$(go test ./test/archrules ./hack/prose -run 'TestLinksLeadSomewhere|TestBook|TestComments') ||
  fail "broken links or language:"$'\n'"$found"

[ $status != 0 ] || echo "verify: ${#files[@]} files are correct"
exit $status
