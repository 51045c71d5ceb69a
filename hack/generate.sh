#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Writes all generated files of the source tree around the working directory:
#
#   hack/generate.sh CONTROLLER_GEN
#
# Deep copies go beside the types; custom resource definitions, the manager's
# role and the webhook configurations into config/. Conversions between API
# versions are written by hand.
set -euo pipefail

gen=${1:?usage: hack/generate.sh CONTROLLER_GEN}

# pathsOf DIRECTORY...: those that hold Go code, as controller-gen arguments.
pathsOf() {
  local dir
  for dir in "$@"; do
    if [ -n "$(find "$dir" -name '*.go' -print -quit 2>/dev/null)" ]; then
      echo "paths=./$dir/..."
    fi
  done
}

# A kind that is gone must not leave its files behind.
find api -name 'zz_generated.deepcopy.go' -delete 2>/dev/null || true
rm -rf config/crd/bases

mapfile -t api < <(pathsOf api)
if [ ${#api[@]} -gt 0 ]; then
  "$gen" object:headerFile=hack/boilerplate.go.txt "${api[@]}"
  "$gen" crd:crdVersions=v1 "${api[@]}" output:crd:artifacts:config=config/crd/bases
fi

mapfile -t logic < <(pathsOf controllers webhooks)
if [ ${#logic[@]} -gt 0 ]; then
  rm -f config/rbac/role.yaml config/webhook/manifests.yaml
  "$gen" rbac:roleName=manager-role webhook "${logic[@]}" \
    output:rbac:artifacts:config=config/rbac \
    output:webhook:artifacts:config=config/webhook
fi
