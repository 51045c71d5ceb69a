// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command agent is /init of the network-booted system: it brings the machine up
// as far as the agent needs, runs it, and reboots or powers off. It never ends
// otherwise: what fails is repeated until the manager's deadline powers the
// server off.
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

// strangerPatience is how long a server that nobody knows is kept: no manager's
// deadline ends that boot.
const strangerPatience = 15 * time.Minute

func main() {
	console := boot.NewConsole(os.Stdout)
	if os.Getpid() != 1 {
		fmt.Fprintln(os.Stderr, "agent: this is the first process of a network-booted server; it does nothing elsewhere")
		os.Exit(1)
	}
	console.Printf("agent %s", version)
	m := &machine{log: console.Printf, halt: boot.End}
	for pause := minPause; ; pause = min(pause*2, maxPause) {
		action, err := m.attempt(context.Background())
		if action != "" {
			console.Printf("end: %s", action)
			err = m.end(action)
			if action == agentapi.StartLive { // loaded, and not started: to be tried anew, and counted
				err = errors.Join(err, m.end(agentapi.PowerOff))
			}
		}
		wait := pause/2 + rand.N(pause/2)
		console.Printf("failed: %v; again in %s", err, wait.Round(time.Second))
		time.Sleep(wait)
	}
}

// machine keeps what was reached in earlier attempts.
type machine struct {
	log      func(format string, args ...any)
	args     *agent.Arguments
	identity *agent.Identity
	modules  *kmod.Set
	disks    *boot.Disks
	// leaving restarts a server that nobody knows; nil: it is known.
	leaving *time.Timer
	nic     *boot.NIC
	// letGo ends the renewal of the NIC's address.
	letGo context.CancelFunc
	// linksDown: an end that came to nothing has left no network behind.
	linksDown atomic.Bool
	// halt is boot.End.
	halt func(agentapi.Action) error
	// tokenTold: the token came by DHCP, and may be followed by a newer one.
	tokenTold bool
}

// end does an action; it returns only when the kernel refuses. The links are down then, and
// network makes them anew. It may be called at any time, by the timer of leaveInTime too.
func (m *machine) end(action agentapi.Action) error {
	err := m.halt(action)
	m.linksDown.Store(true)
	return err
}

// forgetNetwork lets go of a NIC whose link was taken down.
func (m *machine) forgetNetwork() {
	if !m.linksDown.Swap(false) || m.nic == nil {
		return
	}
	m.letGo()
	m.nic = nil
}

// attempt goes through the steps that are still missing and runs the agent. A
// panic is one more way to fail.
func (m *machine) attempt(ctx context.Context) (action agentapi.Action, err error) {
	defer func() {
		if p := recover(); p != nil {
			// The value may hold anything; its type and place are enough.
			action, err = "", fmt.Errorf("panic: %T", p)
		}
	}()
	for _, step := range []func(context.Context) error{m.prepare, m.drivers, m.network} {
		if err := step(ctx); err != nil {
			return "", err
		}
	}
	m.leaveInTime()
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

// leaveInTime has a server that nobody knows restarted when nothing comes of its
// discovery.
func (m *machine) leaveInTime() {
	if m.leaving != nil || !agentapi.ForStranger(m.args.Token) {
		return
	}
	m.leaving = time.AfterFunc(strangerPatience, func() {
		m.log("end: nothing came of the discovery within %s; restarting", strangerPatience)
		m.log("failed: %v", m.end(agentapi.Restart)) // it returns only if it failed
	})
}

// prepare mounts, reads the command line and makes the key of this boot.
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
		m.log("arguments of the CD image: %v", err) // DHCP may tell what they do not
	}
	m.args = &args
	m.identity, err = agent.NewIdentity()
	return err
}

// credential is where the stub of a unified kernel image puts the host's own file of a
// CD image. It is not signed: what the command line says stands.
const credential = "/.extra/global_credentials/ingot.cred"

// fromMedia reads the rest of the arguments from the CD image that the server booted
// from, if it did.
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

// drivers loads modules for the devices that are there.
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
		m.log("drivers: %d modules loaded", n)
	}
}

func (m *machine) network(ctx context.Context) error {
	m.forgetNetwork()
	if m.nic == nil {
		ctx, letGo := context.WithCancel(ctx)
		nic, err := boot.Network(ctx, boot.NetworkOptions{
			MAC: m.args.MAC, Servers: m.args.Servers, Ask: len(m.args.Missing()) > 0, Settle: m.settle, Log: m.log,
		})
		if err != nil {
			letGo()
			return err
		}
		m.nic, m.letGo = nic, letGo
	}
	if len(m.args.Missing()) == 0 {
		return nil
	}
	tokenTold := m.args.Token == ""
	args, err := m.args.Fill(m.nic.Told)
	if err != nil {
		m.nic.Told, _ = m.nic.Ask(ctx, "") // for the next attempt
		return err
	}
	m.args, m.tokenTold = &args, tokenTold
	return nil
}

// find asks by DHCP for another replica. What the command line said of the order
// stands.
func (m *machine) find(ctx context.Context, avoid string) (agentapi.BootOptions, error) {
	told, err := m.nic.Ask(ctx, avoid)
	if !m.tokenTold {
		told.Token = ""
	}
	return told, err
}
