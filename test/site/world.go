// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/lab/workload"
)

const (
	// DefaultKubernetes is the version of clusters that ask for none.
	DefaultKubernetes = "v1.36.3"
	// diskSize in bytes, sparse: just enough to be chosen as root disk.
	diskSize = inventory.MinRootDiskBytes + 1<<20
	// maxSessions of a BMC: a manager that is killed leaves its session behind.
	maxSessions = 1000
	// subnet of the servers: in user space only, never routed.
	subnet = "10.77.0"
)

// WorldConfig describes the hardware.
type WorldConfig struct {
	// Racks are called rack-1, rack-2, …; 1 if 0. ServersPerRack: 1 if 0; the
	// servers of rack 1 are r1-s1, r1-s2, ….
	Racks, ServersPerRack int
	// Address of this machine is where BMCs, workload clusters and the image server
	// listen; 127.0.0.1 if invalid. Management clusters with a network of their own
	// need another (lab/node).
	Address netip.Addr
	// Simulate changes a server before it is made, and Configure a server and its BMC; may
	// be nil.
	Simulate  func(name string, c *server.Config)
	Configure func(spec *datacenter.ServerSpec)
	// Report is how often the kubelets of workload clusters report; 0: when they start.
	Report time.Duration
	// Virtual makes the servers virtual ones, with real firmware, that install real
	// images; nil: they are simulated.
	Virtual *Virtual
}

// Virtual says what virtual servers are.
type Virtual struct {
	// Server has what is the same for all of them; its Name is set.
	Server datacenter.ServerSpec
	// Accel runs them.
	Accel qemu.Accel
	// Images are files of disk images by version of Kubernetes, each with its
	// checksum beside it, as sha256sum writes it, under the ending .sha256.
	Images map[string]string
}

// A World is racks of servers that are off, and what runs on them later.
type World struct {
	DataCenter *datacenter.Datacenter
	Workload   *workload.Plane
	// Password of every BMC (user datacenter.Username).
	Password string

	dir     string
	virtual *Virtual          // nil: servers are simulated
	racks   map[string]string // by server
	sites   int
	images  *httptest.Server
	mu      sync.Mutex
	// checksums of the images that were made, by version.
	checksums map[string]string
}

// NewWorld builds a world that ends with the test.
func NewWorld(t testing.TB, cfg WorldConfig) *World {
	t.Helper()
	if !cfg.Address.IsValid() {
		cfg.Address = netip.MustParseAddr("127.0.0.1")
	}
	w := &World{dir: tempDir(t), Password: "a-password", racks: map[string]string{}, checksums: map[string]string{}}
	var err error
	w.Workload, err = workload.Start(t.Context(), workload.Config{Address: cfg.Address, Report: cfg.Report})
	check(t, err)
	t.Cleanup(func() { check(t, w.Workload.Close()) })
	config := datacenter.Config{Dir: filepath.Join(w.dir, "dc"), Password: w.Password, Address: cfg.Address}
	if cfg.Virtual != nil {
		w.virtual, config.Accel = cfg.Virtual, cfg.Virtual.Accel
	}
	for rack := range max(cfg.Racks, 1) {
		for n := range max(cfg.ServersPerRack, 1) {
			name := fmt.Sprintf("r%d-s%d", rack+1, n+1)
			w.racks[name] = fmt.Sprintf("rack-%d", rack+1)
			spec := w.server(name, cfg.Simulate)
			if w.virtual != nil {
				spec = w.virtual.Server
				spec.Name, spec.Kind, spec.MaxSessions = name, datacenter.Virtual, maxSessions
			}
			if cfg.Configure != nil {
				cfg.Configure(&spec)
			}
			config.Servers = append(config.Servers, spec)
		}
	}
	w.DataCenter, err = datacenter.Start(config)
	check(t, err)
	t.Cleanup(func() { check(t, w.DataCenter.Close()) })
	w.images = httptest.NewUnstartedServer(http.FileServer(http.Dir(filepath.Join(w.dir, "images"))))
	check(t, w.images.Listener.Close()) // it is of loopback
	w.images.Listener, err = net.Listen("tcp", netip.AddrPortFrom(cfg.Address, 0).String())
	check(t, err)
	w.images.Start()
	t.Cleanup(w.images.Close)
	return w
}

// server is one that has no patience, and joins workload clusters.
func (w *World) server(name string, simulate func(string, *server.Config)) datacenter.ServerSpec {
	return datacenter.ServerSpec{
		Name: name, Kind: datacenter.Simulated, DiskBytes: diskSize, MaxSessions: maxSessions,
		Simulate: func(c *server.Config) {
			c.Retry, c.DHCPTimeout, c.CallTimeout, c.HeadOnly = 200*time.Millisecond, time.Second, 5*time.Second, true
			c.System = w.Workload.Boot
			if simulate != nil {
				simulate(name, c)
			}
		},
	}
}

// Servers are the names of all servers, sorted.
func (w *World) Servers() []string {
	var names []string
	for name := range w.racks {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// Rack is the rack that a server stands in.
func (w *World) Rack(name string) string { return w.racks[name] }

// Server by name.
func (w *World) Server(name string) *datacenter.Server { return w.DataCenter.Server(name) }

// Image makes an operating system with a version of Kubernetes, once, and says
// where it is served and what it is.
func (w *World) Image(t testing.TB, version string) (url, checksum string) {
	t.Helper()
	w.mu.Lock()
	defer w.mu.Unlock()
	name := version + ".raw.zst"
	if w.virtual != nil && w.checksums[version] == "" {
		w.checksums[version] = w.publish(t, version, name)
	}
	if w.checksums[version] == "" {
		var err error
		image := datacenter.Image{Bytes: 4 << 20, Noise: 1 << 20, Release: version}
		w.checksums[version], err = image.Write(filepath.Join(w.dir, "images", name))
		check(t, err)
	}
	return w.images.URL + "/" + name, w.checksums[version]
}

// publish serves the file of a disk image, and returns its checksum.
func (w *World) publish(t testing.TB, version, name string) string {
	t.Helper()
	file, ok := w.virtual.Images[version]
	if !ok {
		t.Fatalf("no image of a node with Kubernetes %s", version)
	}
	sum, err := os.ReadFile(file + ".sha256")
	check(t, err)
	hex, _, found := strings.Cut(string(sum), " ")
	if !found {
		t.Fatalf("no checksum in %s.sha256", file)
	}
	check(t, os.MkdirAll(filepath.Join(w.dir, "images"), 0o700))
	check(t, os.Symlink(file, filepath.Join(w.dir, "images", name)))
	return "sha256:" + hex
}

// Count is what was asked of one server, since it was built.
type Count struct {
	// Reads and Writes of its BMC; a login or logout is neither.
	Reads, Writes int
	// DiskBytes were written or zeroed; not counted of virtual servers.
	DiskBytes int64
	Powered   bool
}

// Counts are those of all servers, by name.
func (w *World) Counts() map[string]Count {
	counts := map[string]Count{}
	for _, s := range w.DataCenter.Servers {
		count := Count{Reads: s.BMC.Reads(), Powered: s.Powered()}
		for _, write := range s.BMC.Writes() {
			if write.Action != bmc.ActionLogin && write.Action != bmc.ActionLogout {
				count.Writes++
			}
		}
		if s.Simulated != nil {
			for _, d := range s.Simulated.Disks() {
				written, zeroed := d.BytesWritten()
				count.DiskBytes += written + zeroed
			}
		}
		counts[s.Spec.Name] = count
	}
	return counts
}

// tempDir is short, because unix sockets need that, and stays if the test fails.
func tempDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "site-")
	check(t, err)
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		t.Logf("logs are kept in %s", dir)
	})
	return dir
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
