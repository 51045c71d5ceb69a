# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The first process of a node, in its own namespaces:
#
#   sh -c "$(cat sandbox.sh)" sandbox STATE PAUSE
#
# It makes the directories private that the node's programs write to outside of their state
# directory, creates sandbox-ready, and becomes the program that reaps orphans.
set -eu

# The kubelet sets these for the whole kernel unless they have the required values, so it sees files
# with those values.
for setting in vm/overcommit_memory kernel/panic kernel/panic_on_oops; do
  mount --bind "$1/sysctl/$setting" "/proc/sys/$setting"
done
# Fixed directories of containerd, CNI, iptables and the kubelet: sockets, locks, the namespaces of
# pods, links to logs.
for private in /run /var/lib /var/log; do
  mount -t tmpfs tmpfs "$private"
done
echo 1 >/proc/sys/net/ipv4/ip_forward

: >"$1/sandbox-ready"
exec "$2"
