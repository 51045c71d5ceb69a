#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes all generated files of the source tree around the working directory:
#
#   hack/generate.sh CONTROLLER_GEN CRD_REF_DOCS DIAGRAMS
#
# It writes deep copies next to the types; custom resource definitions, the manager's
# role and the webhook configurations to config/; and generated pages and diagrams to
# docs/book. Conversions between API versions are written by hand.
set -euo pipefail

usage="usage: hack/generate.sh CONTROLLER_GEN CRD_REF_DOCS DIAGRAMS"
gen=${1:?$usage} apidocs=${2:?$usage} diagrams=${3:?$usage}

# pathsOf DIRECTORY... prints the directories with Go code as controller-gen arguments.
pathsOf() {
  local dir
  for dir in "$@"; do
    if [ -n "$(find "$dir" -name '*.go' -print -quit 2>/dev/null)" ]; then
      echo "paths=./$dir/..."
    fi
  done
}

# Manifests are written to a new directory that replaces the old one, so that files of
# removed kinds disappear and a failure changes nothing.
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

if [ -n "$(pathsOf api)" ]; then
  # The API types are a separate module.
  (
    cd api
    "$gen" object:headerFile=../hack/boilerplate.go.txt paths=./...
    "$gen" crd:crdVersions=v1 paths=./... output:crd:artifacts:config="$work/bases"
  )
  mkdir -p config/crd
  rm -rf config/crd/bases
  cp -r "$work/bases" config/crd/bases
fi

mapfile -t logic < <(pathsOf controllers internal webhooks cmd/manager)
if [ ${#logic[@]} -gt 0 ]; then
  "$gen" rbac:roleName=manager-role webhook "${logic[@]}" \
    output:rbac:artifacts:config="$work/rbac" \
    output:webhook:artifacts:config="$work/webhook"
  for file in rbac/role.yaml webhook/manifests.yaml; do
    rm -f "config/$file"
    if [ -e "$work/$file" ]; then
      mkdir -p "config/${file%/*}"
      cp "$work/$file" "config/$file"
    fi
  done
fi

# The reference of the book: the API from the types' comments, the other pages by hack/docs.
reference=docs/book/reference
mkdir -p "$reference"
(
  cd api
  "$apidocs" --log-level=ERROR --source-path=./v1beta2 --config=../hack/docs/api/config.yaml \
    --templates-dir=../hack/docs/api --renderer=markdown --output-path="$work/api.md"
)
cp "$work/api.md" "$reference/api.md"
go run ./hack/docs

# Its diagrams. An SVG file without a source disappears.
rm -f docs/book/diagrams/*.svg
mapfile -t sources < <(find docs/book/diagrams -name '*.d2' 2>/dev/null | sort)
[ ${#sources[@]} = 0 ] || "$diagrams" "${sources[@]}"
