#!/bin/sh
# Regenerates the images in this directory with qemu-img and qemu-io. FILE is the output of
# content() in stream_test.go: go test ./agent/qcow2 -run TestContent -write FILE; then make.sh FILE
set -eu
cd "$(dirname "$0")"
raw=$1
rm -f ./*.qcow2
qemu-img convert -f raw -O qcow2 -o compat=0.10,cluster_size=4096 "$raw" version2.qcow2
qemu-img convert -f raw -O qcow2 -o cluster_size=4096 "$raw" plain.qcow2
qemu-img convert -f raw -O qcow2 -c -o cluster_size=16384 "$raw" deflate.qcow2
qemu-img convert -f raw -O qcow2 -c -o cluster_size=4096 "$raw" deflate-small.qcow2
qemu-img convert -f raw -O qcow2 -c -o cluster_size=16384,compression_type=zstd "$raw" zstd.qcow2
# Tables behind clusters: a snapshot makes new tables for the existing clusters.
qemu-img convert -f raw -O qcow2 -o cluster_size=4096 "$raw" snapshot.qcow2
qemu-img snapshot -c before snapshot.qcow2
qemu-io -f qcow2 -c 'write -P 0x11 8k 4k' -c 'write -P 0x22 2560k 4k' -c 'write -z 36k 4k' -c 'write -P 0xfe 2560k 512' snapshot.qcow2 >/dev/null
# Small images for the fuzzer.
head -c 10240 "$raw" > "$raw.tiny"
qemu-img convert -f raw -O qcow2 -o cluster_size=512 "$raw.tiny" tiny.qcow2
qemu-img convert -f raw -O qcow2 -c -o cluster_size=512 "$raw.tiny" tiny-deflate.qcow2
qemu-img convert -f raw -O qcow2 -c -o cluster_size=512,compression_type=zstd "$raw.tiny" tiny-zstd.qcow2
