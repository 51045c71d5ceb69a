// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
)

// Options of the demo.
type Options struct {
	// Keep leaves everything running at the end until the user interrupts.
	Keep bool
	// Simulated uses simulated servers instead of virtual ones: seconds, no QEMU.
	Simulated bool
	// Servers are the names of those to use, of which Machines are provisioned and
	// one is released again; empty and 0: all three, and two.
	Servers  []string
	Machines int
	// SwapHardware gives the BIOS servers the NIC and disk of a real server (e1000e,
	// NVMe), and the UEFI server virtio.
	SwapHardware bool
	// KillManager kills the manager without warning at three moments that hurt, and
	// starts it again.
	KillManager bool
	// Cleaning of the hosts: None, Metadata or Full; empty: the API's default.
	Cleaning string
	// Binary is this program; empty: os.Executable.
	Binary string
	// WithoutDisk names servers whose disk is taken away, to see the demo fail.
	WithoutDisk []string
	// Dir keeps all state; empty: a new directory, removed at the end.
	Dir string
	// Capture is the path of a pcap file of the whole network; empty: none.
	Capture string
	// Timeout bounds the whole.
	Timeout time.Duration
	// ConfigDir is the kustomization of Ingot's manifests.
	ConfigDir string
	// LoaderDir holds the iPXE loaders.
	LoaderDir string
	// Out is where the demo talks to people.
	Out io.Writer
}

// Command is "lab demo".
func Command() *cobra.Command {
	options := Options{Out: os.Stdout}
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole line: register, inspect, install, boot, release, wipe",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), options) },
	}
	f := command.Flags()
	f.BoolVar(&options.Keep, "keep", os.Getenv("KEEP") == "1", "Leave everything running at the end, to play with.")
	f.BoolVar(&options.Simulated, "simulated", false, "Use simulated servers instead of QEMU.")
	f.StringSliceVar(&options.Servers, "servers", nil, "Servers to use; empty: bios-1, uefi-1 and spare-1. Beside them there are media-1, which boots by virtual media, and http-1, by UEFI HTTP boot.")
	f.IntVar(&options.Machines, "machines", defaultMachines, "Machines to provision; one of them is released again.")
	f.BoolVar(&options.SwapHardware, "swap-hardware", false, "Give the BIOS servers e1000e and NVMe, and the UEFI server virtio, instead of the other way round.")
	f.StringVar(&options.Cleaning, "cleaning", "", "Cleaning of the hosts: None, Metadata or Full; empty: Metadata.")
	f.BoolVar(&options.KillManager, "kill-manager", false, "Kill the manager without warning while it installs, after the install and while it wipes.")
	f.StringSliceVar(&options.WithoutDisk, "without-disk", nil, "Servers whose disk is taken away: the demo must then fail.")
	f.StringVar(&options.Dir, "dir", "", "Directory for all state; empty: a temporary one.")
	f.StringVar(&options.Capture, "capture", "", "Write every frame of the servers' network to this pcap file.")
	f.DurationVar(&options.Timeout, "timeout", 20*time.Minute, "Give up after this time.")
	f.StringVar(&options.ConfigDir, "config", "config/default", "Kustomization of Ingot's manifests.")
	f.StringVar(&options.LoaderDir, "loader-dir", "/usr/lib/ipxe", "Directory with the iPXE loaders.")
	return command
}

// defaultMachines leave one of the three servers as a spare.
const defaultMachines = 2

// complete fills in defaults and refuses what cannot be played.
func (o *Options) complete() error {
	if o.Machines == 0 {
		o.Machines = defaultMachines
	}
	names, all := o.Servers, []string{}
	for _, p := range places() {
		all = append(all, p.spec.Name)
		if len(o.Servers) == 0 && !p.extra {
			names = append(names, p.spec.Name)
		}
	}
	for _, name := range slices.Concat(names, o.WithoutDisk) {
		if !slices.Contains(all, name) {
			return fmt.Errorf("--servers, --without-disk: %q is not one of %s", name, strings.Join(all, ", "))
		}
	}
	if o.Machines < 1 || o.Machines > len(names) {
		return fmt.Errorf("--machines: %d is not between 1 and the number of servers, %d", o.Machines, len(names))
	}
	o.Servers = names
	if o.Binary == "" {
		self, err := os.Executable()
		if err != nil {
			return err
		}
		o.Binary = self
	}
	return nil
}

// Run runs the demo. Everything it started has ended when it returns.
func Run(ctx context.Context, o Options) (err error) {
	if err := o.complete(); err != nil {
		return err
	}
	dir := o.Dir
	if dir == "" {
		if dir, err = os.MkdirTemp("", "ingot-demo-"); err != nil {
			return err
		}
		defer func() {
			if err == nil {
				err = os.RemoveAll(dir)
			} else {
				fmt.Fprintf(o.Out, "logs are kept in %s\n", dir)
			}
		}()
	}
	if dir, err = filepath.Abs(dir); err != nil {
		return err
	}
	bounded, cancel := context.WithTimeout(ctx, o.Timeout)
	defer cancel()
	s := &show{Options: o, dir: dir, started: time.Now()}
	defer s.close()
	if err := s.play(bounded); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("gave up after %s: %w", o.Timeout, err)
		}
		s.timelines()
		return err
	}
	if o.Keep {
		s.say("Everything keeps running. In another shell: export KUBECONFIG=%s; kubectl get ingothosts -w\nEnd with Ctrl-C.", s.plane.Kubeconfig())
		<-ctx.Done()
	}
	return nil
}
