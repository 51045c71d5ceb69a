// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootconfig

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// benchHosts is a common number in comparisons of DHCP servers.
const benchHosts = 10_000

func benchMAC(i int) net.HardwareAddr {
	return net.HardwareAddr{0x52, 0x54, 0, byte(i >> 16), byte(i >> 8), byte(i)}
}

// largeInventory returns a directory on controller-runtime's cache, with hosts that boot their disks or the
// agent.
func largeInventory(b *testing.B, agent bool) *Directory {
	b.Helper()
	objects := []client.Object{&infrav1.IngotNetwork{ObjectMeta: metav1.ObjectMeta{Name: "net"}, Spec: infrav1.IngotNetworkSpec{
		Subnet: "10.0.0.0/16", Gateway: "10.0.255.254", DNSServers: []string{"10.0.255.1", "10.0.255.2"}, Domain: "example"}}}
	for i := range benchHosts {
		host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("h%d", i)}}
		host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = benchMAC(i).String(), "net"
		if agent {
			host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInspect, ID: orderID, Attempt: 1}
		}
		hardware := &infrav1.IngotHardware{ObjectMeta: host.ObjectMeta}
		hardware.Spec.Address = &infrav1.RecordedAddress{NetworkName: "net", MAC: host.Spec.BootMACAddress, IP: fmt.Sprintf("10.0.%d.%d", i/250, i%250+1)}
		objects = append(objects, host, hardware)
	}
	d, _ := following(b, objects...)
	d.Server, d.Clock = "10.0.255.3:8843", clock.RealClock{}
	return d
}

// following returns a directory that follows a cache of these objects, and the watches that change them, by
// kind.
func following(t testing.TB, objects ...client.Object) (*Directory, map[string]*watch.FakeWatcher) {
	t.Helper()
	hosts, hardwares, networks, clusters := &infrav1.IngotHostList{}, &infrav1.IngotHardwareList{}, &infrav1.IngotNetworkList{}, &infrav1.IngotClusterList{}
	for _, object := range objects {
		switch o := object.(type) {
		case *infrav1.IngotHost:
			hosts.Items = append(hosts.Items, *o)
		case *infrav1.IngotHardware:
			hardwares.Items = append(hardwares.Items, *o)
		case *infrav1.IngotNetwork:
			networks.Items = append(networks.Items, *o)
		}
	}
	c, changes := newCache(t, map[string]client.ObjectList{"IngotHost": hosts, "IngotHardware": hardwares, "IngotNetwork": networks, "IngotCluster": clusters})
	keys, err := token.NewKeys(bytes.Repeat([]byte{7}, token.MinKeyBytes))
	if err != nil {
		t.Fatal(err)
	}
	d := New(Options{Cache: c, Keys: keys, Pins: []token.Pin{token.PinOf([]byte("a"))}, Server: "192.0.2.1:8843",
		Kernel: pxe.File{Name: "vmlinuz"}, Initrds: []pxe.File{{Name: "initramfs"}}, Clock: testclock.NewFakePassiveClock(now), Log: logr.Discard()})
	if err := d.Follow(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	if _, ok := d.objects.(stores); !ok {
		t.Fatalf("it reads by %T", d.objects)
	}
	return d, changes
}

// newCache returns a cache that lists from memory, with its watches.
func newCache(t testing.TB, lists map[string]client.ObjectList) (cache.Cache, map[string]*watch.FakeWatcher) {
	t.Helper()
	scheme := testscheme.Scheme(t)
	mapper, changes := meta.NewDefaultRESTMapper(nil), map[string]*watch.FakeWatcher{}
	for kind := range lists {
		scope := meta.RESTScopeNamespace
		if kind == "IngotNetwork" {
			scope = meta.RESTScopeRoot
		}
		mapper.Add(infrav1.GroupVersion.WithKind(kind), scope)
		changes[kind] = watch.NewFake()
	}
	informer := func(_ toolscache.ListerWatcher, object runtime.Object, resync time.Duration, indexers toolscache.Indexers) toolscache.SharedIndexInformer {
		kind := strings.TrimPrefix(fmt.Sprintf("%T", object), "*v1beta2.")
		source := &toolscache.ListWatch{
			ListFunc:  func(metav1.ListOptions) (runtime.Object, error) { return lists[kind], nil },
			WatchFunc: func(metav1.ListOptions) (watch.Interface, error) { return changes[kind], nil },
		}
		return toolscache.NewSharedIndexInformer(toolscache.ToListWatcherWithWatchListSemantics(source, unsupported{}), object, resync, indexers)
	}
	c, err := cache.New(&rest.Config{Host: "http://127.0.0.1:1"}, cache.Options{Scheme: scheme, Mapper: mapper, HTTPClient: http.DefaultClient, NewInformer: informer})
	if err != nil {
		t.Fatal(err)
	}
	if err := index.SetupDirectory(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	for _, object := range []client.Object{&infrav1.IngotHardware{}, &infrav1.IngotNetwork{}} {
		if _, err := c.GetInformer(t.Context(), object, cache.BlockUntilSynced(false)); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithCancel(context.Background())
	t.Cleanup(cancel)
	go func() { _ = c.Start(ctx) }()
	if !c.WaitForCacheSync(ctx) {
		t.Fatal("the cache does not fill")
	}
	return c, changes
}

// unsupported means that the source only lists.
type unsupported struct{}

func (unsupported) IsWatchListSemanticsUnSupported() bool { return true }

// BenchmarkLookup measures the directory's part of one DHCP packet, with stores and with a reader.
func BenchmarkLookup(b *testing.B) {
	d := largeInventory(b, false)
	for name, by := range map[string]objects{"stores": d.objects, "reader": reader{d.Cache}} {
		b.Run(name, func(b *testing.B) {
			d.objects = by
			b.ReportAllocs()
			i := 0
			for b.Loop() {
				i++
				if _, ok := d.Lookup(benchMAC(i % benchHosts)); !ok {
					b.Fatal("a host is not known")
				}
			}
		})
	}
}

// benchSharers is the number of hosts with one image: a rollout to a large site.
const benchSharers = 5_000

func benchChecksum(digit string) string { return "sha256:" + strings.Repeat(digit, 64) }

// sharing returns a directory of hosts whose claims name image 1.
func sharing(b *testing.B) *Directory {
	b.Helper()
	var hosts []client.Object
	for i := range benchSharers {
		host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: fmt.Sprintf("h%d", i)}}
		host.Spec.BootMACAddress = benchMAC(i).String()
		host.Spec.Claim = &infrav1.HostClaim{State: infrav1.ClaimProvisioned, Image: infrav1.Image{
			URL: strings.Clone("https://images.example/os/ubuntu-24.04-k8s-1.36.0.raw.zst"), Checksum: benchChecksum("1")}}
		if i%10 == 0 {
			host.Spec.Claim.State = infrav1.ClaimProvisioning
			host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderInstall, ID: orderID, CreationTime: metav1.NewTime(now)}
		}
		hosts = append(hosts, host)
	}
	d, _ := following(b, hosts...)
	return d
}

// BenchmarkImage measures the lookup of an image that many claims name, and of one that none names, with
// stores and with a reader.
func BenchmarkImage(b *testing.B) {
	d := sharing(b)
	ways := map[string]objects{"stores": d.objects, "reader": reader{d.Cache}}
	for what, digit := range map[string]string{"named": "1", "unknown": "2"} {
		for name, by := range ways {
			b.Run(what+"/"+name, func(b *testing.B) {
				d.objects = by
				b.ReportAllocs()
				for b.Loop() {
					if _, ok := d.Image(benchChecksum(digit)); ok != (what == "named") {
						b.Fatalf("named: %t", ok)
					}
				}
			})
		}
	}
}

// BenchmarkImageRequest measures one request for such an image, without the sockets.
func BenchmarkImageRequest(b *testing.B) {
	images, err := httpd.NewImageCache(httpd.CacheConfig{Dir: b.TempDir(), MaxBytes: 1 << 20, Sources: sharing(b)})
	if err != nil {
		b.Fatal(err)
	}
	handler := &httpd.Handler{Images: images}
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		if handler.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/images/"+strings.Repeat("1", 64), nil)); w.Code != http.StatusServiceUnavailable {
			b.Fatal(w.Code)
		}
	}
}

// BenchmarkExchange measures a four-way DHCP exchange without the sockets, of a host that boots its disk
// and of one that boots the agent.
func BenchmarkExchange(b *testing.B) {
	id := dhcp.Identity{Address: netip.MustParseAddr("10.0.255.3"), BaseURL: "http://10.0.255.3:8880", Loaders: dhcp.DefaultLoaders()}
	first := relayed([]byte{53, 1, 1, 55, 4, 1, 3, 6, 15})
	second := relayed([]byte{53, 1, 3, 50, 4, 10, 0, 0, 1, 55, 4, 1, 3, 6, 15})
	for name, agent := range map[string]bool{"disk": false, "agent": true} {
		b.Run(name, func(b *testing.B) {
			d := largeInventory(b, agent)
			b.ReportAllocs()
			for b.Loop() {
				for _, packet := range [][]byte{first, second} {
					if a, err := dhcp.Reply(id, d, dhcp.Query{Packet: packet}); err != nil || a.Packet == nil {
						b.Fatalf("no answer: %s, %v", a.Event.Detail, err)
					}
				}
			}
		})
	}
}

// relayed returns a request of the first host with these options, relayed by 10.0.255.254.
func relayed(options []byte) []byte {
	p := make([]byte, 240)
	copy(p, []byte{1, 1, 6, 1, 1, 2, 3, 4})
	copy(p[24:], []byte{10, 0, 255, 254})
	copy(p[28:], benchMAC(0))
	copy(p[236:], []byte{99, 130, 83, 99})
	return append(append(p, options...), 255)
}
