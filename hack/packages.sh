#!/bin/bash
# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Checks that the operating system has the programs that make targets need:
#
#   hack/packages.sh TARGET...
#
# On Debian as root it installs missing packages. Otherwise it prints the missing
# packages and exits with 1. It checks files, not the package manager.
set -euo pipefail

# Debian package, a file or command in it, and the make targets that need it
# (test/archrules checks that each target calls this script).
table() {
  cat <<'T'
gcc                gcc                                     test test-full
libc6-dev          /usr/include/stdio.h                    test test-full
git                git                                     test test-full
qemu-system-x86    qemu-system-x86_64                      test test-full demo test-node-image e2e-cluster
ipxe-qemu          /usr/lib/ipxe/qemu/efi-virtio.rom       test test-full demo test-node-image e2e-cluster
sbsigntool         sbsign                                  test-full
openssl            openssl                                 test-full
ipxe               /usr/lib/ipxe/undionly.kpxe             test test-full demo release e2e-clusterctl
ovmf               /usr/share/OVMF/OVMF_CODE_4M.fd         test test-full demo test-node-image e2e-cluster
mmdebstrap         mmdebstrap                              test test-full demo test-image node-image
uidmap             newuidmap                               test test-full demo test-image node-image
mtools             mcopy                                   test test-full demo test-image node-image
e2fsprogs          mke2fs                                  test test-full demo test-image node-image
grub-common        grub-mkimage                            test test-full demo test-image node-image
grub-pc-bin        /usr/lib/grub/i386-pc/boot.img          test test-full demo test-image node-image
grub-efi-amd64-bin /usr/lib/grub/x86_64-efi/linux.mod      test test-full demo test-image node-image
dpkg               dpkg-deb                                test test-full demo agent-image release e2e-clusterctl
openipmi           ipmi_sim                                test test-full test-bmc
ipmitool           ipmitool                                test test-full test-bmc
python3-pyghmi     /usr/lib/python3/dist-packages/pyghmi   test test-full test-bmc
isc-dhcp-client    dhclient                                test test-full
isc-dhcp-relay     dhcrelay                                test test-full
udhcpc             udhcpc                                  test test-full
busybox            busybox                                 test test-full
dnsmasq-base       dnsmasq                                 test test-full
ca-certificates    /usr/share/ca-certificates/mozilla      test test-full release e2e-clusterctl
tftp-hpa           tftp                                    test test-full
atftp              atftp                                   test test-full
curl               curl                                    test test-full bench-image
systemd            systemd-analyze                         test test-full
zstd               zstd                                    bench-image
qemu-utils         qemu-img                                bench-image
netplan.io         netplan                                 test test-full
python3-jsonschema /usr/lib/python3/dist-packages/jsonschema test test-full
python3-configobj  /usr/lib/python3/dist-packages/configobj test test-full
python3-jinja2     /usr/lib/python3/dist-packages/jinja2   test test-full
python3-jsonpatch  /usr/lib/python3/dist-packages/jsonpatch.py test test-full
python3-oauthlib   /usr/lib/python3/dist-packages/oauthlib test test-full
python3-requests   /usr/lib/python3/dist-packages/requests test test-full
python3-yaml       /usr/lib/python3/dist-packages/yaml     test test-full
iproute2           ip                                      bench-boot
util-linux         nsenter                                 bench-boot
runc               runc                                    e2e-clusterctl
containernetworking-plugins /usr/lib/cni/bridge            e2e-clusterctl
iptables           iptables                                e2e-clusterctl
conntrack          conntrack                               e2e-clusterctl
socat              socat                                   e2e-clusterctl
ethtool            ethtool                                 e2e-clusterctl
T
}

present() {
  case $1 in
    /*) [ -e "$1" ] ;;
    *) command -v "$1" >/dev/null ;;
  esac
}

wanted() { # TARGETS-OF-PACKAGE TARGET...
  local has=" $1 " target
  shift
  for target in "$@"; do
    case $has in *" $target "*) return 0 ;; esac
  done
  return 1
}

missing() { # TARGET...
  local package proof targets
  while read -r package proof targets; do
    if wanted "$targets" "$@" && ! present "$proof"; then
      echo "$package"
    fi
  done < <(table)
}

[ $# -gt 0 ] || { echo "usage: hack/packages.sh TARGET..." >&2; exit 2; }
# Unprivileged users often have no sbin in their PATH.
export PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin

if ! command -v go >/dev/null; then
  echo "packages: Go is missing; go.mod says which version is needed (https://go.dev/dl/)" >&2
  exit 1
fi
# The image builders ask apt for packages: a new machine may have no lists yet.
if [ -e /etc/debian_version ] && [ "$(id -u)" = 0 ] && ! apt-cache show linux-image-amd64 >/dev/null 2>&1; then
  echo "packages: fetching Debian's package lists" >&2
  apt-get -qq update
fi
mapfile -t absent < <(missing "$@")
[ ${#absent[@]} -gt 0 ] || exit 0

if [ ! -e /etc/debian_version ] || [ "$(id -u)" != 0 ]; then
  echo "packages: make $* needs Debian's packages: ${absent[*]}" >&2
  if [ -e /etc/debian_version ]; then
    echo "packages: install them with: sudo apt-get install --no-install-recommends ${absent[*]}" >&2
  fi
  exit 1
fi
echo "packages: installing ${absent[*]}" >&2
export DEBIAN_FRONTEND=noninteractive
apt-get -qq update
apt-get -qq install --yes --no-install-recommends "${absent[@]}" >/dev/null
mapfile -t absent < <(missing "$@")
if [ ${#absent[@]} -gt 0 ]; then
  echo "packages: still missing after the installation: ${absent[*]}" >&2
  exit 1
fi
