// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	corev1 "k8s.io/api/core/v1"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/podnet"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/test/nodeimage"
)

const (
	// nodeDeadline bounds power-on to a Node with all its pods, under emulation on
	// a busy machine.
	nodeDeadline = 30 * time.Minute
	// nodeDiskBytes is the server's disk, into which the image's file system grows.
	nodeDiskBytes = 10 << 30
)

// TestNodeImage boots the image of `make node-image` on BIOS and UEFI, as a server
// that Ingot has installed: with a NoCloud seed, whose network data give its address, on
// one card and on a bond of two with a VLAN.
// On it kubeadm makes the control plane of templates/cluster-template.yaml, with
// nothing from any registry: kube-vip brings the endpoint, the Node is Ready with
// name and provider ID of the instance metadata, and all pods of kubeadm run.
//
// INGOT_NODE_VERSION says the version of Kubernetes (make test-node-image).
func TestNodeImage(t *testing.T) {
	version := os.Getenv("INGOT_NODE_VERSION")
	if version == "" {
		t.Skip("set INGOT_NODE_VERSION to the version of a node image, as make test-node-image does")
	}
	for _, firmware := range []struct {
		name string
		kind qemu.Firmware
		disk qemu.DiskModel
		data infrav1.NetworkData
		// links are what the server has then.
		links map[string]string
	}{
		{"BIOS", qemu.BIOS, qemu.VirtioBlk, plainNetwork(), plainLinks},
		{"UEFI with NVMe and a bond", qemu.UEFI, qemu.NVMe, bondedNetwork(), bondedLinks},
	} {
		t.Run(firmware.name, func(t *testing.T) {
			image := nodeImage(t, version)
			userData := controlPlaneUserData(t, version, image)
			sw, stack := startNetwork(t)
			sink := startSink(t, stack)
			vm := newVM(t, sw, qemu.Config{
				Firmware: firmware.kind, MemoryMiB: 3072, CPUs: 2, NICs: cards(len(firmware.data.Ethernets)),
				Disks: []qemu.Disk{{Path: nodeDisk(t, image), Model: firmware.disk}, {Path: seedDisk(t, userData, networkConfig(t, &firmware.data))}},
			})
			runControlPlane(t, vm, sink)
			checkNetwork(t, sink, firmware.links)
			checkBallast(t, sink)
			checkClock(t, sink)
			checkNode(t, sink, version)
			checkPods(t, sink, image)
		})
	}
}

// nodeImage returns the directory of the image of a version.
func nodeImage(t *testing.T, version string) string {
	t.Helper()
	cache, err := tools.CacheDir()
	if err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(cache, "images", "node-"+version, "current")
	if _, err := os.Stat(filepath.Join(dir, "disk.raw.zst")); err != nil {
		t.Fatalf("no image of a node: make node-image KUBERNETES_VERSION=%s: %v", version, err)
	}
	return dir
}

// nodeDisk unpacks the image onto a disk that is larger than it.
func nodeDisk(t *testing.T, image string) string {
	t.Helper()
	start := time.Now()
	in, err := os.Open(filepath.Join(image, "disk.raw.zst"))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	decoder, err := zstd.NewReader(in)
	if err != nil {
		t.Fatal(err)
	}
	defer decoder.Close()
	path := filepath.Join(t.TempDir(), "disk.raw")
	out, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	size, err := io.Copy(holes{out}, decoder)
	if err := errors.Join(err, out.Truncate(nodeDiskBytes), out.Close()); err != nil {
		t.Fatal(err)
	}
	t.Logf("%6.1f s  image of %d MiB unpacked", time.Since(start).Seconds(), size>>20)
	return path
}

// startNetwork is a segment with us at 192.0.2.1.
func startNetwork(t *testing.T) (*network.Switch, *network.Stack) {
	t.Helper()
	sw := network.NewSwitch()
	t.Cleanup(func() { _ = sw.Close() })
	stack, err := network.NewStack(sw, network.StackConfig{Name: "sink", Address: netip.MustParsePrefix("192.0.2.1/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = stack.Close() })
	return sw, stack
}

// newVM makes a server whose card is plugged into the segment.
func newVM(t *testing.T, sw *network.Switch, cfg qemu.Config) *qemu.VM {
	t.Helper()
	dir, err := os.MkdirTemp("", "ingot-vm-") // t.TempDir is too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	var probe qemu.Probe
	cfg.Name, cfg.Dir, cfg.UUID, cfg.Accel = "server-1", dir, "4c4c4544-0000-2010-8020-80c04f202020", probe.Accel(t.Context()).WithRoom(512)
	for i := range cfg.NICs {
		name := fmt.Sprint("nic", i)
		cfg.NICs[i].Socket = filepath.Join(dir, name+".sock")
		if err := sw.ListenUnix(cfg.Name+" "+name, cfg.NICs[i].Socket); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("acceleration %s (KVM: %v)", cfg.Accel.Accelerator, probe.Reason())
	vm, err := qemu.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = vm.Close() })
	return vm
}

// holes writes a file but for blocks of zeroes.
type holes struct{ file *os.File }

func (h holes) Write(b []byte) (int, error) {
	if strings.Trim(string(b), "\x00") == "" {
		_, err := h.file.Seek(int64(len(b)), io.SeekCurrent)
		return len(b), err
	}
	return h.file.Write(b)
}

// seedDisk is a NoCloud seed as a FAT file system (cloud-init's label CIDATA).
func seedDisk(t *testing.T, userData, networkConfig string) string {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "seed.img")
	makeDisk(t, path, 4<<20)
	seed := map[string]string{
		"user-data":      userData,
		"meta-data":      "instance-id: i-1\nlocal-hostname: " + hostName + "\nprovider_id: " + providerID + "\n",
		"network-config": networkConfig,
	}
	for name, content := range seed {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{
		{"mformat", "-i", path, "-v", "CIDATA", "::"},
		{"mcopy", "-i", path, filepath.Join(dir, "user-data"), filepath.Join(dir, "meta-data"), filepath.Join(dir, "network-config"), "::"},
	} {
		if out, err := exec.Command(args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%s: %v: %s", args[0], err, out)
		}
	}
	return path
}

// reportScript runs after kubeadm, as an operator would go on: with a network plugin,
// and then waiting. What it sees it sends to the sink.
const reportScript = `#!/bin/bash
send() { curl -sS --retry 5 --retry-all-errors --max-time 60 -T - http://192.0.2.1:8000/$1; }
explain() {
  { journalctl -b --no-pager -u kubelet -u containerd | tail -n 60; tail -n 40 /var/log/pods/*/*/*.log; ip address
    cat /var/log/cloud-init-output.log; kubectl get pods --all-namespaces -o wide; } 2>&1 | send failure
  exit
}
# In vain after so many seconds: what to do, which fails as long as it is in vain.
try() {
  local end=$((SECONDS + $1))
  shift
  until "$@"; do [ $SECONDS -lt $end ] || explain; sleep 2; done
}
[ -e /run/cluster-api/bootstrap-success.complete ] || explain
export KUBECONFIG=/etc/kubernetes/admin.conf
date | send kubeadm
find /var/cache/apt /var/lib/apt/lists /var/lib/containerd/io.containerd.content.v1.content -type f -size +1M 2>&1 | send ballast
ip -json -details address | send network
systemctl is-active systemd-timesyncd 2>&1 | send clock
try 300 kubectl apply -f /run/podnet.yaml
try 600 kubectl wait --for=condition=Ready node/server-1 --timeout=30s
try 300 kubectl get node server-1 -o json >/run/node
send node </run/node
try 600 kubectl -n kube-system wait --for=condition=Ready pod --all --timeout=30s
try 300 kubectl -n kube-system get pods -o json >/run/pods
send pods </run/pods
`

// controlPlaneUserData is the shipped template's for its first server, with the
// kube-vip that the disk holds.
func controlPlaneUserData(t *testing.T, version, image string) string {
	t.Helper()
	names, err := os.ReadFile(filepath.Join(image, "images.txt"))
	if err != nil {
		t.Fatal(err)
	}
	at := slices.IndexFunc(strings.Fields(string(names)), func(name string) bool { return strings.Contains(name, "/kube-vip:") })
	if at < 0 {
		t.Fatalf("no kube-vip in the image: %s", names)
	}
	plugin, err := podnet.Manifest("10.244.0.0/16", "")
	if err != nil {
		t.Fatal(err)
	}
	userData, err := template(t, "cluster-template.yaml", version, strings.Fields(string(names))[at]).Init(nodeimage.Addition{
		Files: []bootstrapv1.File{
			{Path: "/run/report", Permissions: "0600", Content: reportScript},
			{Path: "/run/podnet.yaml", Permissions: "0644", Content: string(plugin)},
		},
		Before: []string{"curl -sS -T /etc/hostname http://192.0.2.1:8000/cloud-init"},
		// /run is mounted noexec.
		After: []string{"bash /run/report"},
	})
	if err != nil {
		t.Fatal(err)
	}
	return userData
}

// A sink takes what the server sends by PUT, each name once.
type sink struct {
	received map[string]chan []byte
}

// Names that the server sends, in this order.
var reports = []string{"cloud-init", "kubeadm", "ballast", "network", "clock", "node", "pods"}

// startSink listens on port 8000 of the stack's address. What it is sent
// first by a name it keeps.
func startSink(t *testing.T, stack *network.Stack) *sink {
	t.Helper()
	s := &sink{received: map[string]chan []byte{}}
	for _, name := range append([]string{"failure"}, reports...) {
		s.received[name] = make(chan []byte, 1)
	}
	listener, err := stack.ListenTCP(8000)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(s.take)}
	done := make(chan error, 1)
	go func() { done <- server.Serve(listener) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-done; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("sink: %v", err)
		}
	})
	return s
}

func (s *sink) take(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(io.LimitReader(r.Body, 4<<20))
	to, known := s.received[strings.TrimPrefix(r.URL.Path, "/")]
	if err != nil || !known {
		http.Error(w, fmt.Sprint(r.URL.Path, err), http.StatusBadRequest)
		return
	}
	select {
	case to <- body:
	default:
	}
}

// runControlPlane powers the server on, and prints how long each step took.
func runControlPlane(t *testing.T, vm *qemu.VM, s *sink) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), nodeDeadline)
	defer cancel()
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Disks}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if err := vm.PowerOn(ctx); err != nil {
		t.Fatal(err)
	}
	for _, name := range reports {
		select {
		case body := <-s.received[name]:
			t.Logf("%6.1f s  %s", time.Since(start).Seconds(), name)
			s.received[name] <- body // for who checks
		case body := <-s.received["failure"]:
			t.Fatalf("the server failed before %q:\n%s", name, tail(string(body), 60000))
		case <-ctx.Done():
			t.Fatalf("no %q from the server; its console ends in:\n%s", name, tail(console(vm), 6000))
		}
	}
}

// checkBallast: the image has no packages as they were downloaded, and no layers of
// container images but unpacked. Each server would write them to its disk. A directory
// that is elsewhere now is an error of find's, and no empty answer.
func checkBallast(t *testing.T, s *sink) {
	t.Helper()
	if diff := cmp.Diff("", string(<-s.received["ballast"])); diff != "" {
		t.Errorf("large files that nothing reads (-want +got):\n%s", diff)
	}
}

// checkClock: the server's clock is kept: a certificate that another makes is valid at once.
func checkClock(t *testing.T, s *sink) {
	t.Helper()
	if got := strings.TrimSpace(string(<-s.received["clock"])); got != "active" {
		t.Errorf("what keeps the clock is %s", got)
	}
}

// checkNode: the Node is who its instance metadata say, of the image's version.
func checkNode(t *testing.T, s *sink, version string) {
	t.Helper()
	var node corev1.Node
	if err := json.Unmarshal(<-s.received["node"], &node); err != nil {
		t.Fatal(err)
	}
	type identity struct{ Name, ProviderID, Kubelet string }
	want := identity{hostName, providerID, version}
	got := identity{node.Name, node.Spec.ProviderID, node.Status.NodeInfo.KubeletVersion}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("Node (-want +got):\n%s", diff)
	}
	ready := func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	}
	if !slices.ContainsFunc(node.Status.Conditions, ready) {
		t.Errorf("the Node is not Ready: %+v", node.Status.Conditions)
	}
	t.Logf("%s, kernel %s, %s", node.Status.NodeInfo.OSImage, node.Status.NodeInfo.KernelVersion, node.Status.NodeInfo.ContainerRuntimeVersion)
}

// checkPods: what kubeadm and the template run is Ready, from the images in the
// disk.
func checkPods(t *testing.T, s *sink, image string) {
	t.Helper()
	var pods corev1.PodList
	if err := json.Unmarshal(<-s.received["pods"], &pods); err != nil {
		t.Fatal(err)
	}
	names, err := os.ReadFile(filepath.Join(image, "images.txt"))
	if err != nil {
		t.Fatal(err)
	}
	unused := strings.Fields(string(names))
	for _, pod := range pods.Items {
		for _, c := range pod.Status.ContainerStatuses {
			if !c.Ready {
				t.Errorf("container %s of %s is not ready: %+v", c.Name, pod.Name, c.State)
			}
		}
		for _, c := range pod.Spec.Containers {
			unused = slices.DeleteFunc(unused, func(name string) bool { return name == c.Image })
		}
	}
	if len(unused) != 1 || !strings.Contains(unused[0], "/pause:") {
		t.Errorf("images that no container runs: %q, want only that of pause", unused)
	}
}

// makeDisk makes a sparse file of a size in bytes.
func makeDisk(t *testing.T, path string, size int64) {
	t.Helper()
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path, size); err != nil {
		t.Fatal(err)
	}
}

// console is what the server has said on its serial port.
func console(vm *qemu.VM) string {
	b, _ := os.ReadFile(vm.SerialLog()) // none yet: nothing said
	return string(b)
}

func tail(s string, n int) string { return s[max(0, len(s)-n):] }
