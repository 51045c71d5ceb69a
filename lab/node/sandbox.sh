# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a node, in namespaces of its own:
#
#   sh -c "$(cat sandbox.sh)" sandbox STATE PAUSE
#
# It makes what the node's programs would write outside their state directory
# private, says that it is done, and becomes the program that reaps orphans.
set -eu

# The kubelet sets these for the whole kernel unless they are as it wants them:
# it is shown files that say so.
for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  mount --bind "$1/sysctl/$setting" "/proc/sys/$setting"
done
# Sockets, locks, the namespaces of pods, links to logs: fixed places of
# containerd, CNI, iptables and the kubelet.
for private in /run /var/lib /var/log; do
  mount -t tmpfs tmpfs "$private"
done
echo 1 >/proc/sys/net/ipv4/ip_forward

: >"$1/sandbox-ready"
exec "$2"
