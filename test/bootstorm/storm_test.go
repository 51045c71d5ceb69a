// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstorm

import (
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/needs"
)

const (
	fewClients  = 200
	manyClients = 2000
	// memoryBound is what the server may take at most for that many, in bytes; it
	// takes a fraction of it.
	memoryBound = 256 << 20
	// shownErrors are enough to see what is wrong.
	shownErrors = 10
)

// TestStorm: all clients boot at once, through every protocol, and none fails.
func TestStorm(t *testing.T) {
	count := fewClients
	if needs.IsFull() {
		count = manyClients
	}
	srv := start(t, setup{Hosts: count, Dir: served(t), Cache: t.TempDir(), HTTP: "127.0.0.1:0"})
	var (
		wg      sync.WaitGroup
		gate    = make(chan struct{})
		clients = make([]client, count)
		errs    = make([]error, count)
	)
	for n := range count {
		clients[n] = client{n: n, at: srv.endpoints}
		wg.Go(func() {
			<-gate
			errs[n] = clients[n].boot()
		})
	}
	begun := time.Now()
	close(gate)
	wg.Wait()
	took := time.Since(begun)

	failed, repeats := 0, 0
	var scripts []time.Duration
	for n, err := range errs {
		if err != nil {
			if failed++; failed <= shownErrors {
				t.Errorf("client %d: %v", n, err)
			}
		}
		scripts = append(scripts, clients[n].script)
		repeats += clients[n].repeats
	}
	slices.Sort(scripts)
	memory := srv.peakMemory(t)
	t.Logf("%d clients booted in %s, %d failed; script request: median %s, p99 %s; %d packets sent again; server's memory at most %d MiB",
		count, took.Round(time.Millisecond), failed, scripts[count/2].Round(time.Microsecond), scripts[count*99/100].Round(time.Microsecond), repeats, memory>>20)
	if memory > memoryBound {
		t.Errorf("the server took %d MiB, more than %d", memory>>20, memoryBound>>20)
	}
}
