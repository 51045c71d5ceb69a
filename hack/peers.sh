#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Fetches the servers that Ingot's boot server is compared with from the machine's
# own Debian sources, unpacks them below INGOT_CACHE and prints where. Nothing is
# installed: no daemon of the machine is started, stopped or configured.
set -euo pipefail

packages=(kea-dhcp4-server kea-admin dnsmasq-base tftpd-hpa nginx-light)
cache=${INGOT_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/ingot}
if ! command -v apt-get >/dev/null; then
  echo "peers: needs apt, for Debian's packages ${packages[*]}" >&2
  exit 1
fi
# With what they need and the machine does not have; one line "name=version" each.
list=$(apt-get -s --no-install-recommends install "${packages[@]}" | sed -n 's/^Inst \([^ ]*\) .*(\([^ ]*\) .*/\1=\2/p' | sort)
dir=$cache/peers/$(echo "$list" | sha256sum | cut -c1-16)
if [ ! -e "$dir/complete" ]; then
  rm -rf "$dir.new"
  mkdir -p "$dir.new/deb"
  # Unpacked as this user: apt's own cannot write here, which is no error.
  (cd "$dir.new/deb" && apt-get -qq -o APT::Sandbox::User="$(id -un)" download $list)
  for deb in "$dir.new"/deb/*.deb; do
    dpkg-deb -x "$deb" "$dir.new"
  done
  rm -r "$dir.new/deb"
  # A package that the machine has already is not unpacked.
  touch "$dir.new/complete"
  rm -rf "$dir"
  mv "$dir.new" "$dir"
fi
echo "$dir"
