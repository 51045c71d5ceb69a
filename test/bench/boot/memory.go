// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/test/bench"
)

const (
	// bootingClients boot at once while memory is measured.
	bootingClients = 200
	sampleInterval = 50 * time.Millisecond
)

// boots are clients that load a loader by TFTP and then a kernel by HTTP, all at
// once.
type boots struct {
	TFTP, HTTP string
	Kernel     string
	Clients    int
}

// Run implements the role.
func (b boots) Run() (bench.Transferred, error) {
	var (
		wg    sync.WaitGroup
		total = make([]bench.Transferred, b.Clients)
		errs  = make([]error, b.Clients)
		start = time.Now()
	)
	for i := range b.Clients {
		wg.Go(func() {
			loader, err := bench.TFTPLoad{Server: netip.MustParseAddrPort(b.TFTP), File: loaderName, BlockSize: 1468, Clients: 1, Each: 1}.Run()
			if err != nil {
				errs[i] = err
				return
			}
			kernel, err := bench.HTTPLoad{Server: b.HTTP, Path: b.Kernel, Clients: 1, Each: 4}.Run()
			total[i].Bytes, errs[i] = loader.Bytes+kernel.Bytes, err
		})
	}
	wg.Wait()
	sum := bench.Transferred{Took: time.Since(start)}
	for _, t := range total {
		sum.Bytes += t.Bytes
	}
	return sum, errors.Join(errs...)
}

// memory compares what servers take while clients boot: ours with 10,000 hosts in
// its cache, and the three others together.
func (s *site) memory(ctx context.Context) error {
	c := bench.Comparison{}
	for range s.rounds {
		if err := addRound(&c, fmt.Sprintf("memory-%d-clients", bootingClients), "MiB", 0,
			func() (float64, error) { return s.ourMemory(ctx) }, func() (float64, error) { return s.theirMemory(ctx) }); err != nil {
			return err
		}
	}
	write([]bench.Comparison{c})
	return nil
}

func (s *site) ourMemory(ctx context.Context) (float64, error) {
	srv, paths, err := s.ours(ctx)
	if err != nil {
		return 0, err
	}
	defer srv.stop()
	return s.peak(ctx, ourAddress, paths.Kernel, srv)
}

func (s *site) theirMemory(ctx context.Context) (float64, error) {
	var servers []*server
	for _, start := range []func(context.Context) (*server, error){s.kea, s.tftpd, s.nginx} {
		srv, err := start(ctx)
		if err != nil {
			return 0, err
		}
		defer srv.stop()
		servers = append(servers, srv)
	}
	time.Sleep(time.Second) // they do not say when they are ready
	return s.peak(ctx, theirAddress, "/"+loaderName, servers...)
}

// peak returns the most that the servers took, in MiB, while clients got leases
// and booted.
func (s *site) peak(ctx context.Context, address, kernel string, servers ...*server) (float64, error) {
	done := make(chan error, 1)
	go func() {
		_, err := s.perfdhcp(ctx, bench.DHCPLoad{Server: address, Device: bench.ClientDevice, Rate: bootingClients, Clients: bootingClients, Seconds: 2})
		if err == nil {
			_, err = load(ctx, s, "boots", boots{TFTP: address + ":69", HTTP: address + ":" + httpPort, Kernel: kernel, Clients: bootingClients})
		}
		done <- err
	}()
	var most float64
	for {
		select {
		case err := <-done:
			return most, err
		case <-time.After(sampleInterval):
			var groups []int
			for _, srv := range servers {
				groups = append(groups, srv.cmd.Process.Pid)
			}
			most = max(most, sizeOf(groups))
		}
	}
}

// sizeOf sums what the processes of these groups take, in MiB; what several share
// counts once (PSS).
func sizeOf(groups []int) float64 {
	var kilobytes float64
	paths, _ := filepath.Glob("/proc/[0-9]*/smaps_rollup")
	for _, path := range paths {
		stat, err := os.ReadFile(filepath.Join(filepath.Dir(path), "stat"))
		if err != nil || !inGroups(string(stat), groups) {
			continue
		}
		kilobytes += pss(path)
	}
	return kilobytes / 1024
}

// inGroups reads the process group of a stat line: the third field after the name,
// which may hold anything.
func inGroups(stat string, groups []int) bool {
	fields := strings.Fields(stat[strings.LastIndex(stat, ")")+1:])
	if len(fields) < 3 {
		return false
	}
	for _, g := range groups {
		if fields[2] == strconv.Itoa(g) {
			return true
		}
	}
	return false
}

func pss(path string) float64 {
	f, err := os.Open(path)
	if err != nil {
		return 0 // ended meanwhile
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if text, ok := strings.CutPrefix(lines.Text(), "Pss:"); ok {
			n, _ := strconv.ParseFloat(strings.TrimSuffix(strings.TrimSpace(text), " kB"), 64)
			return n
		}
	}
	return 0
}
