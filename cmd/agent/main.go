// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent is /init of the network-booted system. It prepares the machine, runs the
// agent, and reboots or powers off. It never exits: it repeats failed steps until the
// manager's deadline powers the server off.
package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"sync/atomic"
	"time"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/boot"
	"github.com/ingot-metal/ingot/agent/kmod"
	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

// version is set by the linker.
var version = "dev"

const minPause, maxPause = 2 * time.Second, time.Minute

// discoveryTimeout ends the boot of an unknown server, for which no manager has a deadline.
const discoveryTimeout = 15 * time.Minute

func main() {
	console := boot.NewConsole(os.Stdout)
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agent: not process 1: the agent runs only as /init of a network-booted server")
		os.Exit(1)
	}
	console.Printf("agent %s", version)
	m := &machine{log: console.Printf, halt: boot.End}
	for pause := minPause; ; pause = min(pause*2, maxPause) {
		action, err := m.attempt(context.Background())
		if action != "" {
			console.Printf("end: %s", action)
			err = m.end(action)
			if action == agentapi.StartLive { // not started: another boot retries, and counts as an attempt
				err = errors.Join(err, m.end(agentapi.PowerOff))
			}
		}
		wait := pause/2 + rand.N(pause/2)
		console.Printf("failed: %v; retrying in %s", err, wait.Round(time.Second))
		time.Sleep(wait)
	}
}

// machine keeps the results of earlier attempts.
type machine struct {
	log      func(format string, args ...any)
	args     *agent.Arguments
	identity *agent.Identity
	modules  *kmod.Set
	disks    *boot.Disks
	// restart restarts an unknown server after discoveryTimeout; nil: not started.
	restart *time.Timer
	nic     *boot.NIC
	// stopNIC ends the renewal of the NIC's address.
	stopNIC context.CancelFunc
	// linksDown is set after a failed end, which has taken the network down.
	linksDown atomic.Bool
	halt      func(agentapi.Action) error
	// tokenByDHCP is set if the token came by DHCP: a newer one may replace it.
	tokenByDHCP bool
}

// end carries out an action and returns only if the kernel refuses. The links are down then,
// and network configures them again. It is safe for concurrent use.
func (m *machine) end(action agentapi.Action) error {
	err := m.halt(action)
	m.linksDown.Store(true)
	return err
}

// forgetNetwork drops a NIC whose link is down.
func (m *machine) forgetNetwork() {
	if !m.linksDown.Swap(false) || m.nic == nil {
		return
	}
	m.stopNIC()
	m.nic = nil
}

// attempt executes the steps that have not succeeded yet and runs the agent. It returns a
// panic as an error.
func (m *machine) attempt(ctx context.Context) (action agentapi.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may contain a secret: report only its type.
			action, err = "", fmt.Errorf("panic: %T", p)
		}
	}()
	for _, step := range []func(context.Context) error{m.prepare, m.drivers, m.network} {
		if err := step(ctx); err != nil {
			return "", err
		}
	}
	m.limitDiscovery()
	seeder := &seed.Mounter{LoadModule: m.modules.Load}
	return agent.Run(ctx, agent.Config{
		Servers: m.args.Servers, Files: m.args.Files, Pins: m.args.Pins, Token: m.args.Token,
		Find: m.find, Identity: m.identity, Version: version,
		Probe: boot.Hardware, Disks: m.disks,
		Seeder: seeder, Assembles: seeder.Assembles,
		Kernels: boot.Kexec{}, Memory: boot.Memory,
		SetTime: boot.SetTime, Log: m.log,
	})
}

// limitDiscovery restarts an unknown server whose discovery does not end in time.
func (m *machine) limitDiscovery() {
	if m.restart != nil || !agentapi.IsForUnknownServer(m.args.Token) {
		return
	}
	m.restart = time.AfterFunc(discoveryTimeout, func() {
		m.log("end: the discovery did not finish within %s; restarting", discoveryTimeout)
		m.log("failed: %v", m.end(agentapi.Restart)) // returns only on failure
	})
}

// prepare mounts file systems, reads the command line and makes the key of this boot.
func (m *machine) prepare(context.Context) error {
	if m.identity != nil {
		return nil
	}
	if err := errors.Join(boot.Mounts(), boot.RebootOnPanic()); err != nil {
		return err
	}
	cmdline, err := os.ReadFile("/proc/cmdline")
	if err != nil {
		return err
	}
	args, err := agent.ParseArguments(string(cmdline))
	if err != nil {
		return err
	}
	if args, err = m.fromMedia(args); err != nil {
		m.log("read the arguments of the CD image: %v", err) // DHCP may supply them
	}
	m.args = &args
	m.identity, err = agent.NewIdentity()
	return err
}

// credential is where the stub of a unified kernel image puts the host's file from the CD
// image. The file is not signed, so the command line takes precedence.
const credential = "/.extra/global_credentials/ingot.cred"

// fromMedia reads the other arguments from the CD image, if the server booted from one.
func (m *machine) fromMedia(args agent.Arguments) (agent.Arguments, error) {
	text, err := os.ReadFile(credential)
	if errors.Is(err, os.ErrNotExist) {
		return args, nil
	}
	if err != nil {
		return args, err
	}
	return args.With(string(text))
}

func (m *machine) drivers(context.Context) error {
	if m.modules != nil {
		return nil
	}
	set, err := kmod.Open(os.DirFS("/modules"), kmod.Insert)
	if err != nil {
		return err
	}
	m.modules = set
	m.disks = &boot.Disks{Root: os.DirFS("/"), Settle: m.settle, Log: m.log}
	m.settle()
	return nil
}

func (m *machine) settle() {
	n, err := m.modules.Settle(os.DirFS("/sys"))
	if err != nil {
		m.log("drivers: %v", err)
	}
	if n > 0 {
		m.log("drivers: loaded %d modules", n)
	}
}

func (m *machine) network(ctx context.Context) error {
	m.forgetNetwork()
	if m.nic == nil {
		ctx, stop := context.WithCancel(ctx)
		nic, err := boot.Network(ctx, boot.NetworkOptions{
			MAC: m.args.MAC, Servers: m.args.Servers, NeedBootOptions: len(m.args.Missing()) > 0, Settle: m.settle, Log: m.log,
		})
		if err != nil {
			stop()
			return err
		}
		m.nic, m.stopNIC = nic, stop
	}
	if len(m.args.Missing()) == 0 {
		return nil
	}
	tokenByDHCP := m.args.Token == ""
	args, err := m.args.Fill(m.nic.BootOptions)
	if err != nil {
		m.nic.BootOptions, _ = m.nic.RequestBootOptions(ctx, "") // for the next attempt
		return err
	}
	m.args, m.tokenByDHCP = &args, tokenByDHCP
	return nil
}

// find asks for another replica by DHCP. A token from the command line stays.
func (m *machine) find(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	options, err := m.nic.RequestBootOptions(ctx, avoid)
	if !m.tokenByDHCP {
		options.Token = ""
	}
	return options, err
}
