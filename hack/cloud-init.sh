#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Downloads cloud-init of Debian 13 to the cache, and prints its Python directory.
# The package is unpacked, not installed, so that it does not run when this machine
# boots. The version in Debian 12 does not validate network configurations.
#
#   PYTHONPATH=$(hack/cloud-init.sh) python3 -m cloudinit.cmd.main --version
set -euo pipefail

suite=trixie
cache=${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}/cloud-init/$suite
modules=$cache/usr/lib/python3/dist-packages

if [ ! -e "$modules/cloudinit" ]; then
  # Use the mirror of this machine.
  uri=$(apt-get indextargets --format '$(ORIGIN)|$(REPO_URI)' 'Created-By: Packages' | sed -n 's/^Debian|//p' | head -n 1)
  [ -n "$uri" ] || { echo "cloud-init: apt has no Debian repository" >&2; exit 1; }
  mkdir -p "$(dirname "$cache")"
  work=$(mktemp -d "$cache.XXXXXX")
  trap 'rm -rf "$work"' EXIT
  mkdir -p "$work"/lists/partial "$work"/archives/partial
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg] $uri $suite main" >"$work/sources.list"
  cat >"$work/apt.conf" <<CONF
Dir::Etc::SourceList "$work/sources.list";
Dir::Etc::SourceParts "$work/none";
Dir::State::Lists "$work/lists";
Dir::Cache "$work";
APT::Sandbox::User "";
CONF
  export APT_CONFIG=$work/apt.conf
  apt-get -qq update >&2
  (cd "$work" && apt-get -qq download cloud-init >&2 && dpkg-deb -x cloud-init_*.deb root)
  mv -T "$work/root" "$cache" 2>/dev/null || [ -e "$modules/cloudinit" ] # a concurrent run was faster
fi
echo "$modules"
