#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Downloads the servers for comparisons with Ingot's boot server from the machine's
# Debian sources, unpacks them below INGOT_CACHE, and prints the directory. Nothing is
# installed, and no daemon of the machine is started, stopped or configured.
set -euo pipefail

packages=(kea-dhcp4-server kea-admin dnsmasq-base tftpd-hpa nginx-light)
cache=${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}
if ! command -v apt-get >/dev/null; then
  echo "peers: needs apt, for Debian's packages ${packages[*]}" >&2
  exit 1
fi
# Packages with missing dependencies, one line "name=version" each.
list=$(apt-get -s --no-install-recommends install "${packages[@]}" | sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' | sort)
dir=$cache/peers/$(echo "$list" | sha256sum | cut -c1-16)
if [ ! -e "$dir/complete" ]; then
  rm -rf "$dir.new"
  mkdir -p "$dir.new/deb"
  # Download as this user, because apt's sandbox user cannot write here.
  (cd "$dir.new/deb" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download $list)
  for deb in "$dir.new"/deb/*.deb; do
    dpkg-deb -x "$deb" "$dir.new"
  done
  rm -r "$dir.new/deb"
  # Packages that are installed on the machine are not unpacked.
  touch "$dir.new/complete"
  rm -rf "$dir"
  mv "$dir.new" "$dir"
fi
echo "$dir"
