// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/ingot-metal/ingot/test/bench"
)

const (
	loaderSize = 4 << 20
	imageSize  = 512 << 20
	// maxLost is the part of DHCP packets that may be lost.
	maxLost = 0.001
	// clientAddresses are as many as clients that boot at once.
	clientAddresses = bootingClients
)

// compare runs all comparisons that are asked for.
func compare(ctx context.Context, s settings) error {
	top, err := os.MkdirTemp("", "ingot-bench-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(top) }()
	b := &site{settings: s, dir: filepath.Join(top, "served"), work: filepath.Join(top, "work")}
	if err := b.prepare(ctx); err != nil {
		return err
	}
	for _, suite := range []struct {
		name string
		run  func(context.Context) error
	}{{"tftp", b.tftp}, {"http", b.http}, {"dhcp", b.dhcp}, {"memory", b.memory}} {
		if !s.wants(suite.name) {
			continue
		}
		if err := suite.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", suite.name, err)
		}
	}
	return nil
}

func (s *site) prepare(ctx context.Context) error {
	var err error
	if s.self, err = os.Executable(); err != nil {
		return err
	}
	for _, dir := range []string{s.dir, s.work, filepath.Join(s.work, "cache")} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			return err
		}
	}
	// Servers that give up root read these, too.
	if err := os.Chmod(filepath.Dir(s.dir), 0o755); err != nil {
		return err
	}
	for name, size := range map[string]int64{loaderName: loaderSize, "undionly.kpxe": 1, "snponly.efi": 1, imageName: imageSize} {
		if err := writeRandom(filepath.Join(s.dir, name), size); err != nil {
			return err
		}
	}
	s.link, err = bench.NewLink(ctx, 3, clientAddresses)
	return err
}

// tftpCases are the options; with a window, the others' best is what they do
// without, since they know none.
var tftpCases = []struct {
	block, window, clients, each int
	bar                          float64
}{
	{512, 1, 1, 10, 1}, {1468, 1, 1, 25, 1}, {1468, 16, 1, 60, 3},
	{512, 1, 50, 1, 1}, {1468, 1, 50, 1, 1}, {1468, 16, 50, 3, 3},
}

func (s *site) tftp(ctx context.Context) error {
	ours, _, err := s.ours(ctx)
	if err != nil {
		return err
	}
	defer ours.stop()
	theirs, err := s.tftpd(ctx)
	if err != nil {
		return err
	}
	defer theirs.stop()
	third, err := s.dnsmasqTFTP(ctx)
	if err != nil {
		return err
	}
	defer third.stop()
	time.Sleep(time.Second) // they do not say when they are ready

	comparisons := make([]bench.Comparison, len(tftpCases))
	single := make([]bench.Comparison, 2) // with dnsmasq, one client, no window
	for range s.rounds {
		for i, c := range tftpCases {
			measure := func(server string, window int) (float64, error) {
				moved, err := load(ctx, s, "tftp", bench.TFTPLoad{Server: netip.MustParseAddrPort(server + ":69"), File: loaderName,
					BlockSize: c.block, Window: window, Clients: c.clients, Each: c.each})
				return moved.MegabytesPerSecond(), err
			}
			name := fmt.Sprintf("tftp-blksize-%d-windowsize-%d-clients-%d", c.block, c.window, c.clients)
			if err := addRound(&comparisons[i], name, "MB/s", c.bar,
				func() (float64, error) { return measure(ourAddress, c.window) },
				func() (float64, error) { return measure(theirAddress, 1) }); err != nil {
				return err
			}
			if i < len(single) {
				if err := addRound(&single[i], name+"-dnsmasq", "MB/s", 0,
					func() (float64, error) { return comparisons[i].Ours[len(comparisons[i].Ours)-1], nil },
					func() (float64, error) { return measure(dnsmasqAddress, 1) }); err != nil {
					return err
				}
			}
		}
	}
	write(append(comparisons, single...))
	return nil
}

// addRound measures both once. Who was first in one round is second in the next, so that
// a machine that slows down or speeds up does so for both.
func addRound(c *bench.Comparison, name, unit string, bar float64, ours, theirs func() (float64, error)) error {
	c.Name, c.Unit, c.Bar = name, unit, bar
	sides := []struct {
		who     string
		measure func() (float64, error)
		values  *[]float64
	}{{"ours", ours, &c.Ours}, {"theirs", theirs, &c.Theirs}}
	if len(c.Ours)%2 == 1 {
		slices.Reverse(sides)
	}
	for _, side := range sides {
		value, err := side.measure()
		if err != nil {
			return fmt.Errorf("%s, %s: %w", name, side.who, err)
		}
		*side.values = append(*side.values, value)
	}
	return nil
}

func write(comparisons []bench.Comparison) {
	for _, c := range comparisons {
		c.Write(os.Stdout)
	}
}

func (s *site) http(ctx context.Context) error {
	ours, paths, err := s.ours(ctx)
	if err != nil {
		return err
	}
	defer ours.stop()
	theirs, err := s.nginx(ctx)
	if err != nil {
		return err
	}
	defer theirs.stop()
	cases := []struct {
		name, ours, theirs string
		clients, each      int
		bar                float64
	}{
		{"http-image-clients-1", paths.Image, "/" + imageName, 1, 6, 0.9},
		{"http-image-clients-16", paths.Image, "/" + imageName, 16, 1, 0.9},
		{"http-kernel-clients-50", paths.Kernel, "/" + loaderName, 50, 20, 0.9},
	}
	comparisons := make([]bench.Comparison, len(cases))
	for range s.rounds {
		for i, c := range cases {
			measure := func(server, path string) (float64, error) {
				moved, err := load(ctx, s, "http", bench.HTTPLoad{Server: server + ":" + httpPort, Path: path, Clients: c.clients, Each: c.each})
				return moved.MegabytesPerSecond(), err
			}
			if err := addRound(&comparisons[i], c.name, "MB/s", c.bar,
				func() (float64, error) { return measure(ourAddress, c.ours) },
				func() (float64, error) { return measure(theirAddress, c.theirs) }); err != nil {
				return err
			}
		}
	}
	write(comparisons)
	return nil
}

// dhcp runs one server at a time: they would all answer.
func (s *site) dhcp(ctx context.Context) error {
	best := map[string]int{ourAddress: 8000, theirAddress: 8000, dnsmasqAddress: 300}
	measure := func(address string, start func(context.Context) (*server, error)) func() (float64, error) {
		return func() (float64, error) {
			srv, err := start(ctx)
			if err != nil {
				return 0, err
			}
			defer srv.stop()
			time.Sleep(time.Second) // they do not say when they are ready
			// Not judged: afterwards all have seen all clients, and have their leases.
			if _, err := s.exchange(ctx, address, best[address]/2); err != nil {
				return 0, err
			}
			rate, err := s.mostExchanges(ctx, address, best[address])
			if rate > 0 {
				best[address] = int(rate)
			}
			return rate, err
		}
	}
	ours := measure(ourAddress, func(ctx context.Context) (*server, error) {
		srv, _, err := s.ours(ctx)
		return srv, err
	})
	kea := bench.Comparison{}
	dnsmasq := bench.Comparison{}
	for range s.rounds {
		if err := addRound(&kea, "dhcp-exchanges", "1/s", 1, ours, measure(theirAddress, s.kea)); err != nil {
			return err
		}
		last := kea.Ours[len(kea.Ours)-1]
		if err := addRound(&dnsmasq, "dhcp-exchanges-dnsmasq", "1/s", 0, func() (float64, error) { return last, nil },
			measure(dnsmasqAddress, s.dnsmasqDHCP)); err != nil {
			return err
		}
	}
	write([]bench.Comparison{kea, dnsmasq})
	return nil
}

// exchange begins so many exchanges in each second.
func (s *site) exchange(ctx context.Context, server string, rate int) (bench.Exchanged, error) {
	return s.perfdhcp(ctx, bench.DHCPLoad{Server: server, Device: bench.ClientDevice, Rate: rate, Clients: s.hosts, Seconds: s.seconds})
}

// mostExchanges finds the highest rate that is answered all but completely. A rate has
// failed when it has twice: what else the machine does in one moment is not the server's.
func (s *site) mostExchanges(ctx context.Context, server string, first int) (float64, error) {
	var best float64
	err := bench.Search(first, func(rate int) (bool, error) {
		for range 2 {
			e, err := s.exchange(ctx, server, rate)
			if err != nil {
				return false, err
			}
			if e.Lost <= maxLost {
				best = max(best, e.Rate)
				return true, nil
			}
		}
		return false, ctx.Err()
	})
	return best, err
}
