// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package simulated

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	// Canary is in the user data, and in the BMCs' passwords.
	Canary    = "canary-3f1c7d"
	imageSize = 3 << 20
	diskSize  = 8 << 20
	agentPort = 8843
)

// Options of a rack; the zero value of each has a default.
type Options struct {
	// Servers in the rack; 1.
	Servers int
	// Replicas of the boot server; 1.
	Replicas int
	// Change is called for each server before it is made.
	Change func(i int, cfg *server.Config)
}

// Rack is a segment with a boot server, a manager and servers with BMCs.
type Rack struct {
	Switch   *network.Switch
	Manager  *Manager
	Replicas []*Replica
	Pool     *bmc.Pool
	Units    []*Unit
	// Image is what an install writes, decoded.
	Image []byte

	directory *directory
	kernel    pxe.File
	initrd    pxe.File
	install   agentapi.InstallOrder
}

// Unit is one server with its BMC.
type Unit struct {
	Server *server.Server
	BMC    *labbmc.BMC
	Target bmc.Target
	MAC    net.HardwareAddr
	Serial string
	host   pxe.Host
}

// NewRack builds and starts a rack that ends with the test.
func NewRack(t testing.TB, opts Options) *Rack {
	t.Helper()
	opts.Servers, opts.Replicas = max(opts.Servers, 1), max(opts.Replicas, 1)
	r := &Rack{Switch: network.NewSwitch(), directory: &directory{hosts: map[string]pxe.Host{}}}
	t.Cleanup(func() { _ = r.Switch.Close() })
	r.Pool = bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
	r.startBootServers(t, opts.Replicas)
	ca, err := labbmc.NewAuthority()
	check(t, err)
	for i := range opts.Servers {
		r.addUnit(t, i, ca, opts.Change)
	}
	// The sessions end before the BMCs do.
	t.Cleanup(func() {
		if err := r.Pool.Close(context.Background()); err != nil {
			t.Error(err)
		}
		for _, u := range r.Units {
			if n := u.BMC.Sessions(); n != 0 {
				t.Errorf("%d sessions left open at %s", n, u.Serial)
			}
		}
	})
	return r
}

// makeImage makes an OS image: boot code's signature, random bytes, and nothing at
// the marker's place. It is served compressed by HTTP on loopback.
func (r *Rack) makeImage(t testing.TB) pxe.ImageDirectory {
	r.Image = make([]byte, imageSize)
	src := rand.NewChaCha8([32]byte{1})
	_, _ = src.Read(r.Image[:2<<20])
	clear(r.Image[agentapi.MarkerOffset : agentapi.MarkerOffset+agentapi.MarkerSize])
	r.Image[510], r.Image[511] = 0x55, 0xaa
	clear(r.Image[446:510]) // no partitions
	var packed bytes.Buffer
	w, err := zstd.NewWriter(&packed)
	check(t, err)
	_, err = w.Write(r.Image)
	check(t, err)
	check(t, w.Close())
	sum := sha256.Sum256(packed.Bytes())
	digest := hex.EncodeToString(sum[:])
	origin := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		http.ServeContent(w, req, "", time.Time{}, bytes.NewReader(packed.Bytes()))
	}))
	t.Cleanup(origin.Close)
	r.install = agentapi.InstallOrder{
		ImageURL: "/images/" + digest, // of whichever boot server the agent came from
		Checksum: "sha256:" + digest,
	}
	return pxe.Images{"sha256:" + digest: {URL: origin.URL + "/os.raw.zst", Checksum: "sha256:" + digest}}
}

func (r *Rack) addUnit(t testing.TB, i int, ca *labbmc.Authority, change func(int, *server.Config)) {
	mac := net.HardwareAddr{0x52, 0x54, 0, 0, byte(i >> 8), byte(i)}
	nic, err := network.NewStack(r.Switch, network.StackConfig{Name: fmt.Sprint("server-", i), MAC: mac})
	check(t, err)
	t.Cleanup(func() { _ = nic.Close() })
	serial := fmt.Sprintf("S%04d", i)
	cfg := server.Config{
		Name: serial, NIC: nic, Serial: serial, UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Retry: 50 * time.Millisecond,
		Disks: []server.DiskConfig{
			{Path: filepath.Join(t.TempDir(), "root.raw"), Serial: "ROOT-" + serial, SizeBytes: diskSize},
			{Path: filepath.Join(t.TempDir(), "data.raw"), Serial: "DATA-" + serial, SizeBytes: diskSize},
		},
	}
	if change != nil {
		change(i, &cfg)
	}
	s, err := server.New(cfg)
	check(t, err)
	t.Cleanup(func() { _ = s.Close() })
	b, err := labbmc.Start(labbmc.Config{
		Authority: ca, Machine: s, Username: "admin", Password: Canary,
		System: labbmc.System{UUID: cfg.UUID, Serial: serial, MACs: []string{mac.String()}, Cores: 4, MemoryBytes: 8 << 30},
	})
	check(t, err)
	t.Cleanup(func() { _ = b.Close() })
	u := &Unit{
		Server: s, BMC: b, MAC: mac, Serial: serial,
		Target: bmc.Target{Address: b.Address(), Username: "admin", Password: Canary, CABundle: ca.PEM()},
		host: pxe.Host{
			Namespace: "lab", Name: serial, MAC: mac, Hostname: "node-" + serial,
			Address: netip.PrefixFrom(netip.AddrFrom4([4]byte{192, 168, byte(1 + i>>8), byte(i)}), 16),
			Plan:    pxe.Plan{Kind: pxe.LocalDisk},
		},
	}
	r.Units = append(r.Units, u)
	r.directory.set(u.host)
	r.Manager.onProvisioned(serial, func() { r.Plan(i, pxe.LocalDisk) })
}

// Plan sets what a server boots from the network.
func (r *Rack) Plan(i int, kind pxe.PlanKind) {
	host := r.Units[i].host
	host.Plan = pxe.Plan{Kind: kind}
	if kind == pxe.Agent {
		host.Plan.Agent = pxe.AgentBoot{
			Kernel: r.kernel, Initrds: []pxe.File{r.initrd},
			Pin: r.Manager.Pin(), Token: agentapi.Sensitive(r.Manager.token(host.Name)),
		}
	}
	r.directory.set(host)
}

// Order gives a server its next order; instance and attempt name it.
func (r *Rack) Order(i int, kind agentapi.OrderKind, instance string, attempt int32) {
	u := r.Units[i]
	order := agentapi.Order{Kind: kind, ID: fmt.Sprintf("%s-%d", kind, attempt), InstanceID: instance, Attempt: attempt}
	root := agentapi.DiskRef{Serial: "ROOT-" + u.Serial}
	switch kind {
	case agentapi.Install:
		install := r.install
		install.RootDisk = root
		order.Install = &install
	case agentapi.Clean:
		order.Clean = &agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{root}}
	}
	r.Manager.order(u.Serial, order)
	r.Plan(i, pxe.Agent)
}

// NetworkBoot switches a server off, sets its next boot to the network, and
// switches it on, all through its BMC.
func (r *Rack) NetworkBoot(t testing.TB, i int) {
	t.Helper()
	check(t, r.Pool.Do(t.Context(), r.Units[i].Target, func(ctx context.Context, c bmc.Conn) error {
		if err := c.SetPower(ctx, bmc.ActionForceOff); err != nil {
			return err
		}
		if err := c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE}); err != nil {
			return err
		}
		return c.SetPower(ctx, bmc.ActionOn)
	}))
}

// directory is a pxe.Directory that changes.
type directory struct {
	mu    sync.RWMutex
	hosts map[string]pxe.Host
}

func (d *directory) set(h pxe.Host) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.hosts[h.MAC.String()] = h
}

// Lookup implements pxe.Directory.
func (d *directory) Lookup(mac net.HardwareAddr) (pxe.Host, bool) {
	d.mu.RLock()
	defer d.mu.RUnlock()
	h, ok := d.hosts[mac.String()]
	return h, ok
}

func addFile(t testing.TB, files *pxe.Files, dir, name string, size int) pxe.File {
	path := filepath.Join(dir, name)
	check(t, os.WriteFile(path, bytes.Repeat([]byte{'k'}, size), 0o600))
	f, err := files.Add(path)
	check(t, err)
	return f
}

func check(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
