// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command boot compares Ingot's boot server with Debian's kea-dhcp4-server,
// dnsmasq, tftpd-hpa and nginx: on the same cores, over the same virtual cable,
// with the same options, in turns. It prints a line for each comparison,
//
//	bench: NAME ratio R bar B
//
// where R is the ratio of the medians, ours by theirs, and B what it is to reach.
// It needs root, for network namespaces; nothing of the machine is touched.
//
//	go run ./test/bench/boot -peers "$(hack/peers.sh)"
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"

	"github.com/ingot-metal/ingot/test/bench"
)

// settings of a comparison.
type settings struct {
	peers   string
	rounds  int
	only    string
	hosts   int
	seconds int
	verbose bool
}

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := command(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		os.Exit(1)
	}
}

// command runs one of the roles: the program starts itself for the server and for
// each load, so that they are processes of their own.
func command(ctx context.Context, args []string) error {
	if len(args) == 2 {
		switch args[0] {
		case "serve":
			return role(args[1], func(o serveOptions) (any, error) { return nil, serve(ctx, o) })
		case "tftp":
			return role(args[1], func(l bench.TFTPLoad) (any, error) { return l.Run() })
		case "http":
			return role(args[1], func(l bench.HTTPLoad) (any, error) { return l.Run() })
		case "boots":
			return role(args[1], func(b boots) (any, error) { return b.Run() })
		}
	}
	s, err := flags(args)
	if err != nil {
		return err
	}
	if !bench.Inside() {
		return bench.Isolate(ctx)
	}
	return compare(ctx, s)
}

func flags(args []string) (settings, error) {
	var s settings
	fs := flag.NewFlagSet("boot", flag.ContinueOnError)
	fs.StringVar(&s.peers, "peers", "", "directory of the other servers, from hack/peers.sh")
	fs.IntVar(&s.rounds, "rounds", 5, "how often each thing is measured at each server")
	fs.StringVar(&s.only, "only", "dhcp,tftp,http,memory", "what to compare")
	fs.IntVar(&s.hosts, "hosts", 10_000, "IngotHosts, and clients of DHCP")
	fs.IntVar(&s.seconds, "seconds", 3, "length of one run of DHCP")
	fs.BoolVar(&s.verbose, "v", false, "write every run of perfdhcp to standard error")
	if err := fs.Parse(args); err != nil {
		return s, err
	}
	if s.peers == "" || fs.NArg() > 0 {
		return s, errors.New(`usage: boot -peers "$(hack/peers.sh)"`)
	}
	return s, nil
}

func (s settings) wants(what string) bool {
	return strings.Contains(","+s.only+",", ","+what+",")
}

// role reads options of one type, and writes the result as JSON.
func role[O any](text string, run func(O) (any, error)) error {
	var o O
	if err := json.Unmarshal([]byte(text), &o); err != nil {
		return fmt.Errorf("options: %w", err)
	}
	result, err := run(o)
	if err != nil {
		return err
	}
	return json.NewEncoder(os.Stdout).Encode(result)
}
