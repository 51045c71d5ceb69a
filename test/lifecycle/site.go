// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/lab/datacenter"
	"github.com/ingot-metal/ingot/lab/server"
	"github.com/ingot-metal/ingot/test/eventually"
)

const (
	imageSize = 3 << 20
	// maxSessions of a BMC: a manager that is killed leaves its session behind, and
	// the emulated BMC ends none by itself, as real ones do after some time.
	maxSessions = 1000
	// diskSize in bytes, sparse: just enough to be chosen as root disk.
	diskSize = inventory.MinRootDiskBytes + 1<<20
)

// SiteOptions describe a site.
type SiteOptions struct {
	// Servers are the names of the servers, which are the names of their hosts and
	// of the machines that ask for them.
	Servers []string
	// Password of every BMC, and UserData of every machine; empty: anything.
	Password, UserData string
	// Capture gets every frame of the servers' network; may be nil.
	Capture io.Writer
	// Configure changes a server and its BMC before they are made; may be nil.
	Configure func(spec *datacenter.ServerSpec)
	// Simulate changes a server before it is made; may be nil.
	Simulate func(name string, c *server.Config)
	// Protocols of the BMCs, by server; Redfish where there is none.
	Protocols map[string]datacenter.Protocol
	// Witness sees the writes to the BMCs, which then speak Redfish; may be nil.
	Witness Witness
}

// A Site is a namespace with a data center: servers with BMCs on one network.
type Site struct {
	Namespace  string
	DataCenter *datacenter.Datacenter
	Client     client.WithWatch
	History    *History
	// Images serves the operating system, and can hold it back.
	Images *ImageServer

	plane                          *Plane
	options                        SiteOptions
	number                         int
	dir, keys, loaders, agentImage string
	bmcURL                         map[string]string
	bmcCA                          []byte
	managers                       []*Manager
}

// NewSite builds a site that ends with the test. No server is registered yet.
func (p *Plane) NewSite(t *testing.T, o SiteOptions) *Site {
	t.Helper()
	p.sites++
	if o.Password == "" {
		o.Password = "password"
	}
	if o.UserData == "" {
		o.UserData = "#cloud-config\n"
	}
	s := &Site{
		Namespace: fmt.Sprintf("site-%d", p.sites), Client: p.Client, Images: newImageServer(t, 1),
		plane: p, options: o, number: p.sites, dir: filepath.Join(p.dir, fmt.Sprint(p.sites)), bmcURL: map[string]string{},
	}
	s.files(t)
	config := datacenter.Config{Dir: filepath.Join(s.dir, "dc"), Password: o.Password, Capture: o.Capture}
	for _, name := range o.Servers {
		spec := datacenter.ServerSpec{
			Name: name, Kind: datacenter.Simulated, DiskBytes: diskSize, MaxSessions: maxSessions, Protocol: o.Protocols[name],
			Simulate: func(c *server.Config) {
				c.Retry, c.DHCPTimeout, c.CallTimeout, c.HeadOnly = 200*time.Millisecond, time.Second, 5*time.Second, true
				if o.Simulate != nil {
					o.Simulate(name, c)
				}
			},
		}
		if o.Configure != nil {
			o.Configure(&spec)
		}
		config.Servers = append(config.Servers, spec)
	}
	var err error
	s.DataCenter, err = datacenter.Start(config)
	check(t, err)
	t.Cleanup(func() { _ = s.DataCenter.Close() })
	for _, server := range s.DataCenter.Servers {
		s.watchBMC(t, server)
	}
	check(t, s.Client.Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: s.Namespace}}))
	s.History = newHistory(t, s.Client, s.Namespace)
	return s
}

// watchBMC puts a proxy before a BMC, if somebody wants to see what is written.
func (s *Site) watchBMC(t *testing.T, one *datacenter.Server) {
	t.Helper()
	address := one.Address()
	if one.BMC != nil && one.Spec.Personality.Quirks.Systems > 1 {
		address += one.BMC.SystemPath()
	}
	s.bmcURL[one.Spec.Name], s.bmcCA = address, s.DataCenter.Authority.PEM()
	if s.options.Witness == nil {
		return
	}
	proxy := newProxy(t, proxyOptions{
		Target:    &url.URL{Scheme: "https", Host: strings.TrimPrefix(address, "redfish://")},
		Transport: insecure(), TLS: true, Describe: describeBMC(one.Spec.Name), Witness: s.options.Witness,
	})
	s.bmcURL[one.Spec.Name] = "redfish://" + strings.TrimPrefix(proxy.URL, "https://")
	s.bmcCA = certificatePEM(proxy.Certificate().Raw)
}

// files makes what a manager needs on its disk.
func (s *Site) files(t *testing.T) {
	t.Helper()
	s.keys, s.loaders, s.agentImage = filepath.Join(s.dir, "keys"), filepath.Join(s.dir, "loaders"), filepath.Join(s.dir, "agent")
	for _, dir := range []string{s.loaders, s.agentImage} {
		check(t, os.MkdirAll(dir, 0o700))
	}
	check(t, token.Generate(s.keys))
	for _, path := range []string{
		filepath.Join(s.loaders, "undionly.kpxe"), filepath.Join(s.loaders, "snponly.efi"),
		filepath.Join(s.agentImage, "vmlinuz"), filepath.Join(s.agentImage, "initramfs.cpio.zst"),
	} {
		check(t, os.WriteFile(path, []byte("simulated "+filepath.Base(path)), 0o600))
	}
}

// subnet of the site: networks are cluster-scoped, and each site has its own.
func (s *Site) subnet(last string) string { return fmt.Sprintf("10.%d.0.%s", 100+s.number, last) }

func (s *Site) bootAddress() string { return s.subnet("2/16") }

// Server by name.
func (s *Site) Server(name string) *datacenter.Server { return s.DataCenter.Server(name) }

// Host by name, as it is now.
func (s *Site) Host(t *testing.T, name string) *infrav1.IngotHost {
	t.Helper()
	host := &infrav1.IngotHost{}
	check(t, s.Client.Get(t.Context(), client.ObjectKey{Namespace: s.Namespace, Name: name}, host))
	return host
}

// patience bounds every wait: far above what a loaded machine needs.
const patience = 3 * time.Minute

// Await waits until nothing is missing, and says how long it took.
func (s *Site) Await(t *testing.T, what string, missing eventually.Missing) {
	t.Helper()
	s.AwaitFor(t, patience, what, missing)
}

// AwaitFor is Await with a bound of its own. It ends early if a manager ends that
// should run.
func (s *Site) AwaitFor(t *testing.T, limit time.Duration, what string, missing eventually.Missing) {
	t.Helper()
	eventually.Wait{Limit: limit, Interval: 100 * time.Millisecond, Report: time.Minute, Broken: s.err}.Until(t, what, missing)
}

// err says whether a manager has ended by itself.
func (s *Site) err() error {
	for _, m := range s.managers {
		if err := m.Err(); err != nil {
			return err
		}
	}
	return nil
}

// An ImageServer serves one image by HTTP on loopback, as an operator's mirror.
type ImageServer struct {
	URL, Checksum string
	// Content is the image, with nothing at the marker's place.
	Content []byte
	held    chan chan struct{}
	fetches atomic.Int32
}

// newImageServer makes an image: boot code's signature, random bytes by the seed,
// nothing at the marker's place.
func newImageServer(t *testing.T, seed byte) *ImageServer {
	t.Helper()
	raw := make([]byte, imageSize)
	_, _ = rand.NewChaCha8([32]byte{seed}).Read(raw[:2<<20])
	clear(raw[agentapi.MarkerOffset : agentapi.MarkerOffset+agentapi.MarkerSize])
	clear(raw[446:510]) // no partitions
	raw[510], raw[511] = 0x55, 0xaa
	sum := sha256.Sum256(raw)
	s := &ImageServer{Content: raw, Checksum: "sha256:" + hex.EncodeToString(sum[:]), held: make(chan chan struct{}, 1)}
	s.held <- nil
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.fetches.Add(1)
		gate := <-s.held
		s.held <- gate
		if gate != nil {
			select {
			case <-gate:
			case <-r.Context().Done():
				return
			}
		}
		http.ServeContent(w, r, "", time.Time{}, bytes.NewReader(raw))
	}))
	t.Cleanup(server.Close)
	s.URL = server.URL + "/disk.raw"
	return s
}

// Fetches is how often the image was asked for.
func (s *ImageServer) Fetches() int { return int(s.fetches.Load()) }

// Hold keeps the image back until Release.
func (s *ImageServer) Hold() { <-s.held; s.held <- make(chan struct{}) }

// Release gives the image to those who wait, and to all who come.
func (s *ImageServer) Release() {
	if gate := <-s.held; gate != nil {
		close(gate)
	}
	s.held <- nil
}
