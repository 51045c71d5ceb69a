// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/pxe/tftp"
	"github.com/ingot-metal/ingot/test/bench"
)

func TestMedian(t *testing.T) {
	for _, tc := range []struct {
		values []float64
		want   float64
	}{{nil, 0}, {[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1, 2, 100}, 3}} {
		if got := bench.Median(tc.values); got != tc.want {
			t.Errorf("of %v: %v, want %v", tc.values, got, tc.want)
		}
	}
}

func TestComparisonIsWritten(t *testing.T) {
	for _, tc := range []struct {
		c    bench.Comparison
		want string
	}{
		{bench.Comparison{Name: "tftp-512", Unit: "MB/s", Bar: 1, Ours: []float64{30, 20, 40}, Theirs: []float64{20, 10, 30}},
			"bench: tftp-512 ratio 1.50 bar 1.00\n  ours [30 20 40], theirs [20 10 30] MB/s\n"},
		{bench.Comparison{Name: "memory", Unit: "MiB", Ours: []float64{50}}, "bench: memory ratio 0.00 bar none\n  ours [50], theirs [] MiB\n"},
	} {
		var got strings.Builder
		tc.c.Write(&got)
		if diff := cmp.Diff(tc.want, got.String()); diff != "" {
			t.Error(diff)
		}
	}
}

// report is what perfdhcp 2.2 writes.
const report = `Running: perfdhcp -4 -r 5000 -R 10000 -p 3 servers
Scenario: basic.
Multi-thread mode enabled.
***Rate statistics***
Rate: 4970.44 4-way exchanges/second, expected rate: 5000

***Statistics for: DISCOVER-OFFER***
sent packets: 15000
received packets: 14990
drops: 10

min delay: 0.049 ms
avg delay: 1.204 ms

***Statistics for: REQUEST-ACK***
sent packets: 14990
received packets: 14960
drops: 30
`

func TestPerfDHCP(t *testing.T) {
	load := bench.DHCPLoad{Seconds: 3}
	got, err := load.Read(report)
	if err != nil {
		t.Fatal(err)
	}
	if int(got.Rate) != 4986 || got.Lost < 0.002 || got.Lost > 0.00201 {
		t.Errorf("got %+v", got)
	}
	if got, err := load.Read("Error: cannot bind"); err == nil {
		t.Errorf("read nonsense as %+v", got)
	}
	for n, want := range map[int]string{0: "00:0c:01:02:03:04", 251: "00:0c:01:02:03:ff", 252: "00:0c:01:02:03:00", 256: "00:0c:01:02:04:04", 9999: "00:0c:01:02:2a:13"} {
		if got := bench.ClientMAC(n).String(); got != want {
			t.Errorf("client %d is %s, want %s", n, got, want)
		}
	}
	seen := map[string]bool{}
	for n := range 10_000 {
		seen[bench.ClientMAC(n).String()] = true
	}
	if len(seen) != 10_000 {
		t.Errorf("%d addresses for 10000 clients", len(seen))
	}
}

// TestSearch: the best rate is found to about a hundredth, from above and from below, in
// not many more tries than are needed.
func TestSearch(t *testing.T) {
	for _, most := range []int{1, 7, 300, 1400, 6399, 7999, 8000, 8001, 9500, 9600, 11_000, 33_000, 1 << 20} {
		for _, first := range []int{8000, most, max(most*3/4, 1)} {
			best, tries := 0, 0
			err := bench.Search(first, func(rate int) (bool, error) {
				tries++
				if rate <= most {
					best = max(best, rate)
				}
				return rate <= most, nil
			})
			within := most <= 4*first && most >= first/5 // as far as it goes
			if err != nil || tries > 14 || within && float64(most-best) > max(0.0125*float64(most), 1) {
				t.Errorf("from %d to %d: %d in %d tries, %v", first, most, best, tries, err)
			}
		}
	}
	broken := errors.New("broken")
	for fails := range 4 {
		tries := 0
		err := bench.Search(8000, func(rate int) (bool, error) {
			tries++
			if tries > fails {
				return false, broken
			}
			return rate <= 9000, nil
		})
		if !errors.Is(err, broken) || tries != fails+1 {
			t.Errorf("after %d tries: %v", tries, err)
		}
	}
}

// TestLoads: the clients read all of what a server has, and say so if it has
// less.
func TestLoads(t *testing.T) {
	dir := t.TempDir()
	const size = 100_000
	if err := os.WriteFile(filepath.Join(dir, "loader"), make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	files, err := tftp.OpenDir(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = files.Close() }()
	conn, err := net.ListenPacket("udp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	srv := tftp.Server{Files: files}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- srv.Serve(ctx, conn) }()
	defer func() { cancel(); <-done }()
	server := netip.MustParseAddrPort(conn.LocalAddr().String())
	for _, tc := range []struct{ block, window int }{{512, 1}, {1468, 1}, {1468, 16}} {
		t.Run(fmt.Sprintf("TFTP, blocks of %d, windows of %d", tc.block, tc.window), func(t *testing.T) {
			got, err := bench.TFTPLoad{Server: server, File: "loader", BlockSize: tc.block, Window: tc.window, Clients: 3, Each: 2, Repeat: time.Second}.Run()
			if err != nil || got.Bytes != 6*size {
				t.Errorf("read %d bytes, %v", got.Bytes, err)
			}
		})
	}
	if _, err := (bench.TFTPLoad{Server: server, File: "missing", BlockSize: 512, Clients: 1, Each: 1}).Run(); err == nil || !strings.Contains(err.Error(), "not found") {
		t.Errorf("a missing file: %v", err)
	}
	web := httptest.NewServer(http.FileServer(http.Dir(dir)))
	defer web.Close()
	at := strings.TrimPrefix(web.URL, "http://")
	if got, err := (bench.HTTPLoad{Server: at, Path: "/loader", Clients: 3, Each: 2}).Run(); err != nil || got.Bytes != 6*size {
		t.Errorf("HTTP: read %d bytes, %v", got.Bytes, err)
	}
	if _, err := (bench.HTTPLoad{Server: at, Path: "/missing", Clients: 1, Each: 1}).Run(); err == nil {
		t.Error("HTTP: a missing file is no error")
	}
}
