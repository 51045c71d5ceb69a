// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/test/eventually"
	"github.com/ingot-metal/ingot/test/needs"
)

// cost is what the process uses: live bytes of heap and stacks, and goroutines.
type cost struct {
	bytes      uint64
	goroutines int
}

func measure() cost {
	runtime.GC()
	runtime.GC() // the second empties the pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return cost{m.HeapAlloc + m.StackInuse, runtime.NumGoroutine()}
}

// TestCostOfManyBMCs bounds the cost of one BMC: idle, with an open connection, and after the
// connection was closed. make test-full has 5,000 of them.
func TestCostOfManyBMCs(t *testing.T) {
	n := 200
	if needs.IsFull() {
		n = 5000
	}
	ca, err := bmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(ca.PEM())
	personalities := bmc.Personalities()
	before := measure()
	bmcs := make([]*bmc.BMC, n)
	for i := range bmcs {
		bmcs[i], err = bmc.Start(bmc.Config{
			Authority: ca, Machine: &bmc.Bench{}, Username: "u", Password: "p", Personality: personalities[i%len(personalities)],
			System: bmc.System{UUID: "9f3b8a52-0c1d-4e6f-8a7b-112233445566", MACs: []string{"52:54:00:00:00:01"}},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = bmcs[i].Close() })
	}
	each := func(now cost) (bytes, goroutines float64) {
		return (float64(now.bytes) - float64(before.bytes)) / float64(n), float64(now.goroutines-before.goroutines) / float64(n)
	}
	bytes, goroutines := each(measure())
	t.Logf("%d BMCs at rest: %.1f KiB and %.2f goroutines each", n, bytes/1024, goroutines)
	if bytes > 64<<10 || goroutines > 1.5 {
		t.Errorf("at rest a BMC costs %.1f KiB and %.2f goroutines, want at most 64 and 1.5", bytes/1024, goroutines)
	}
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: roots}, MaxIdleConnsPerHost: 1}
	ask := &http.Client{Transport: transport, Timeout: time.Minute}
	for _, b := range bmcs {
		c := &client{t: t, http: ask, base: strings.Replace(b.Address(), "redfish", "https", 1)}
		a := c.want(201, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"u","Password":"p"}`)
		c.token = a.header.Get("X-Auth-Token")
		c.want(200, "GET", "/redfish/v1/Systems", "")
	}
	bytes, goroutines = each(measure())
	t.Logf("with an idle connection, its client in the same process: %.1f KiB and %.2f goroutines each", bytes/1024, goroutines)
	if bytes > 256<<10 || goroutines > 5 {
		t.Errorf("with a connection a BMC costs %.1f KiB and %.2f goroutines, want at most 256 and 5", bytes/1024, goroutines)
	}
	transport.CloseIdleConnections()
	explain := func() string { return fmt.Sprintf("%.2f goroutines each", goroutines) }
	eventually.Wait{Interval: 10 * time.Millisecond, Explain: explain}.Until(t, "at most 1.5 goroutines for a BMC whose client has gone", eventually.Holds(func() bool {
		_, goroutines = each(measure())
		return goroutines <= 1.5
	}))
	bytes, goroutines = each(measure())
	t.Logf("after it: %.1f KiB and %.2f goroutines each", bytes/1024, goroutines)
	if bytes > 64<<10 || goroutines > 1.5 {
		t.Errorf("after its client has gone a BMC costs %.1f KiB and %.2f goroutines, want at most 64 and 1.5", bytes/1024, goroutines)
	}
}
