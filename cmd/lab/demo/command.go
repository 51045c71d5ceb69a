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

// Options configures the demo.
type Options struct {
	// Keep leaves everything running at the end until the user interrupts.
	Keep bool
	// Simulated uses simulated servers instead of QEMU, which takes only seconds.
	Simulated bool
	// Servers are the names of the servers; nil means the three default servers. Machines is the number
	// of machines to provision, one of which is released again; 0 means two.
	Servers  []string
	Machines int
	// SwapHardware gives the BIOS servers e1000e and NVMe, and the UEFI server virtio.
	SwapHardware bool
	// KillManager kills the manager at three critical moments, and restarts it.
	KillManager bool
	// Cleaning is the cleaning mode of the hosts: None, Metadata or Full. "" means the API's default.
	Cleaning string
	// Binary is this program; "" means os.Executable.
	Binary string
	// WithoutDisk names servers that get no disk, so that the demo must fail.
	WithoutDisk []string
	// Dir contains all state; "" means a temporary directory.
	Dir string
	// Capture is the path of a pcap file of the servers' network; "" means none.
	Capture string
	// Timeout limits the whole demo.
	Timeout time.Duration
	// ConfigDir is the kustomization of Ingot's manifests.
	ConfigDir string
	// LoaderDir contains the iPXE loaders.
	LoaderDir string
	// Out receives the output.
	Out io.Writer
}

// Command returns the command "lab demo".
func Command() *cobra.Command {
	options := Options{Out: os.Stdout}
	command := &cobra.Command{
		Use:   "demo",
		Short: "Show the whole workflow: register, inspect, install, boot, release, wipe",
		Args:  cobra.NoArgs,
		RunE:  func(cmd *cobra.Command, _ []string) error { return Run(cmd.Context(), options) },
	}
	f := command.Flags()
	f.BoolVar(&options.Keep, "keep", os.Getenv("KEEP") == "1", "Leave everything running at the end until Ctrl-C.")
	f.BoolVar(&options.Simulated, "simulated", false, "Use simulated servers instead of QEMU.")
	f.StringSliceVar(&options.Servers, "servers", nil, "Servers to use, separated by commas. If empty, bios-1, uefi-1 and spare-1 are used. Others are media-1, which boots by virtual media, and http-1, which boots by UEFI HTTP.")
	f.IntVar(&options.Machines, "machines", defaultMachines, "Number of machines to provision; one of them is released again.")
	f.BoolVar(&options.SwapHardware, "swap-hardware", false, "Give the BIOS servers e1000e and NVMe, and the UEFI server virtio, instead of vice versa.")
	f.StringVar(&options.Cleaning, "cleaning", "", "Cleaning mode of the hosts: None, Metadata or Full. If empty, Metadata is used.")
	f.BoolVar(&options.KillManager, "kill-manager", false, "Kill and restart the manager during an installation, after it, and during a release.")
	f.StringSliceVar(&options.WithoutDisk, "without-disk", nil, "Servers that get no disk, separated by commas. The demo must then fail.")
	f.StringVar(&options.Dir, "dir", "", "Directory for all state. If empty, a temporary directory is used.")
	f.StringVar(&options.Capture, "capture", "", "Write every frame of the servers' network to this pcap file.")
	f.DurationVar(&options.Timeout, "timeout", 20*time.Minute, "Maximum duration of the demo.")
	f.StringVar(&options.ConfigDir, "config", "config/default", "Kustomization of Ingot's manifests.")
	f.StringVar(&options.LoaderDir, "loader-dir", "/usr/lib/ipxe", "Directory with the iPXE loaders.")
	return command
}

// defaultMachines leave one of the three servers as a spare.
const defaultMachines = 2

// complete sets the defaults and validates the options.
func (o *Options) complete() error {
	if o.Machines == 0 {
		o.Machines = defaultMachines
	}
	names, all := o.Servers, []string{}
	for _, p := range demoServers() {
		all = append(all, p.spec.Name)
		if len(o.Servers) == 0 && !p.optional {
			names = append(names, p.spec.Name)
		}
	}
	for _, name := range slices.Concat(names, o.WithoutDisk) {
		if !slices.Contains(all, name) {
			return fmt.Errorf("--servers, --without-disk: unknown server %q; use %s", name, strings.Join(all, ", "))
		}
	}
	if o.Machines < 1 || o.Machines > len(names) {
		return fmt.Errorf("--machines: %d must be from 1 to the number of servers, %d", o.Machines, len(names))
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

// Run runs the demo. All processes have ended when it returns.
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
				fmt.Fprintf(o.Out, "The logs are in %s\n", dir)
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
	if err := s.run(bounded); err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			err = fmt.Errorf("run the demo: timeout after %s: %w", o.Timeout, err)
		}
		s.timelines()
		return err
	}
	if o.Keep {
		s.say("Everything keeps running. In another shell, run: export KUBECONFIG=%s; kubectl get ingothosts -w\nPress Ctrl-C to stop.", s.plane.Kubeconfig())
		<-ctx.Done()
	}
	return nil
}
