// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// insideKey is set in a process that has a network of its own.
const insideKey = "INGOT_BENCH_INSIDE"

// cleanupTime is for the end of a process that was interrupted.
const cleanupTime = 10 * time.Second

// Inside says whether the process was started by Isolate.
func Inside() bool { return os.Getenv(insideKey) != "" }

// Isolate runs this program again, with the same arguments, in a network
// namespace of its own, and waits for its end. Whatever is started and made
// there goes with it. It needs root.
func Isolate(ctx context.Context) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("isolate: %w", err)
	}
	cmd := exec.CommandContext(ctx, self, os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideKey+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	// It cleans up before it ends, unless that takes too long.
	cmd.Cancel = func() error { return cmd.Process.Signal(syscall.SIGTERM) }
	cmd.WaitDelay = cleanupTime
	// A namespace of processes as well: the end of the first one is that of all.
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWNET | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID, Pdeathsig: syscall.SIGKILL}
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("in a network of its own (as root): %w", err)
	}
	return nil
}

// Link is a cable between this process's network, where servers run, and one of
// clients: a pair of virtual Ethernet devices.
type Link struct {
	// pid is the process that keeps the clients' namespace.
	pid int
}

// The devices' names, and the prefix of both sides. Servers have the addresses
// 10.77.0.1 and up; clients 10.77.100.1 and up.
const (
	ServerDevice = "servers"
	ClientDevice = "clients"
	prefixLength = "/16"
)

// ServerAddress is the address of the server with this number, from 1.
func ServerAddress(n int) string { return fmt.Sprintf("10.77.0.%d", n) }

// ClientAddress is the address of the client with this number, from 0.
func ClientAddress(n int) string { return fmt.Sprintf("10.77.%d.%d", 100+n/250, 1+n%250) }

// NewLink makes the cable, with addresses for so many servers and clients. The
// process must be inside Isolate.
func NewLink(ctx context.Context, servers, clients int) (*Link, error) {
	if !Inside() {
		return nil, errors.New("not in a network of its own")
	}
	keeper := exec.CommandContext(ctx, "sleep", "infinity")
	keeper.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := keeper.Start(); err != nil {
		return nil, fmt.Errorf("make a network of clients: %w", err)
	}
	l := &Link{pid: keeper.Process.Pid}
	// What programs see of processes must be this namespace's, and the machine must
	// not see that.
	for _, step := range [][]string{{"mount", "--make-rprivate", "/"}, {"mount", "-t", "proc", "proc", "/proc"}} {
		if err := run(ctx, step...); err != nil {
			return nil, err
		}
	}
	if err := l.connect(ctx); err != nil {
		return nil, err
	}
	return l, errors.Join(addresses(ctx, nil, ServerDevice, servers, func(n int) string { return ServerAddress(n + 1) }),
		addresses(ctx, l.enter(), ClientDevice, clients, ClientAddress))
}

func (l *Link) connect(ctx context.Context) error {
	steps := [][]string{
		{"ip", "link", "set", "lo", "up"},
		{"ip", "link", "add", ServerDevice, "type", "veth", "peer", "name", ClientDevice},
		{"ip", "link", "set", ClientDevice, "netns", strconv.Itoa(l.pid)},
		{"ip", "link", "set", ServerDevice, "up"},
		append(l.enter(), "ip", "link", "set", "lo", "up"),
		append(l.enter(), "ip", "link", "set", ClientDevice, "up"),
	}
	for _, step := range steps {
		if err := run(ctx, step...); err != nil {
			return err
		}
	}
	return nil
}

// addresses gives a device its addresses, in one call.
func addresses(ctx context.Context, enter []string, device string, count int, name func(int) string) error {
	var batch strings.Builder
	for i := range count {
		fmt.Fprintf(&batch, "address add %s%s dev %s\n", name(i), prefixLength, device)
	}
	args := append(enter, "ip", "-batch", "-")
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.Stdin = strings.NewReader(batch.String())
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("addresses of %s: %w: %s", device, err, bytes.TrimSpace(out))
	}
	return nil
}

func (l *Link) enter() []string {
	return []string{"nsenter", fmt.Sprintf("--net=/proc/%d/ns/net", l.pid)}
}

// ClientCommand is a command that runs on the clients' side.
func (l *Link) ClientCommand(ctx context.Context, args ...string) *exec.Cmd {
	args = append(l.enter(), args...)
	cmd := exec.CommandContext(ctx, args[0], args[1:]...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	return cmd
}

func run(ctx context.Context, args ...string) error {
	out, err := exec.CommandContext(ctx, args[0], args[1:]...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s: %w: %s", strings.Join(args, " "), err, bytes.TrimSpace(out))
	}
	return nil
}
