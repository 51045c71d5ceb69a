#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes all generated files of the source tree around the working directory:
#
#   hack/generate.sh CONTROLLER_GEN
#
# It writes deep copies next to the types, and custom resource definitions, the
# manager's role and the webhook configurations to config/. Conversions between API
# versions are written by hand.
set -euo pipefail

gen=${1:?usage: hack/generate.sh CONTROLLER_GEN}

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
