# Brings the container images in ARCHIVE into containerd's store, by the containerd
# of the tree "$1" itself, which needs no network and leaves nothing else there.
# What is pinned the kubelet does not remove: a server may have no registry to get
# it from again. Layers stay unpacked only, as with the setting discard_unpacked_layers
# of containerd: their archives would be written to each disk once more.
set -eu
chroot "$1" sh -euc '
  work=/var/lib/import
  export PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
  cat >$work/config.toml <<T
version = 3
root = "/var/lib/containerd"
state = "$work/state"
disabled_plugins = ["io.containerd.grpc.v1.cri", "io.containerd.cri.v1.images", "io.containerd.cri.v1.runtime",
  "io.containerd.nri.v1.nri", "io.containerd.podsandbox.controller.v1.podsandbox", "io.containerd.internal.v1.tracing"]
[grpc]
  address = "$work/containerd.sock"
T
  containerd --config $work/config.toml >$work/log 2>&1 &
  daemon=$!
  ctr() { command ctr --address $work/containerd.sock --namespace k8s.io "$@"; }
  tries=0
  until ctr version >/dev/null 2>&1; do
    tries=$((tries + 1))
    if [ $tries -gt 600 ] || ! kill -0 $daemon 2>/dev/null; then cat $work/log >&2; exit 1; fi
    sleep 0.2
  done
  ctr images import --local --discard-unpacked-layers $work/images.tar >/dev/null || { cat $work/log >&2; exit 1; }
  for name in $(ctr images ls -q); do
    ctr images label $name io.cri-containerd.pinned=pinned >/dev/null
  done
  ctr images ls -q | sort >/usr/share/node-images.txt
  # Whoever gives up a lease can wait until what nothing refers to is gone: the archives.
  lease=$(ctr leases create)
  ctr leases delete --sync $lease >/dev/null
  kill $daemon
  wait $daemon || true
  rm -rf $work /var/lib/containerd/io.containerd.grpc.v1.introspection
'
