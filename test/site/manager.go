// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site

import (
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/lab/management"
)

// shortened are the waits of a manager in these tests, and what they are by
// default: an emulated server needs no rest, and a test no patience.
var shortened = []struct{ flag, value, normal string }{
	{"reset-interval", "1s", "30s"},
	{"power-poll", "2s", "1m"},
	{"agent-deadline", "15s", "15m"},
	{"soft-power-off", "10s", "2m"},
}

// stopGrace is the time a manager has to end by itself.
const stopGrace = 20 * time.Second

// StartManager starts Ingot's manager, controllers and boot server in one process,
// and waits until it is ready. It ends with the test. args are further flags, for
// this life of the manager only.
func (s *Site) StartManager(t testing.TB, args ...string) {
	t.Helper()
	s.LaunchManager(t, args...)
	check(t, s.AwaitManager(t))
}

// LaunchManager starts the manager and does not wait.
func (s *Site) LaunchManager(t testing.TB, args ...string) {
	t.Helper()
	if s.manager != nil {
		t.Fatal("the manager runs already")
	}
	s.starts++
	m := management.Manager{Name: fmt.Sprintf("manager-%d", s.starts), Path: s.program, Args: s.flags(t), Kubeconfig: s.kubeconfig, NoWebhooks: s.kubeconfig != ""}
	if s.kubeconfig != "" {
		m.Name = s.Name + "-" + m.Name // both are of one installation
	}
	text := ""
	for _, wait := range shortened {
		m.Args = append(m.Args, "--"+wait.flag+"="+wait.value)
		text += fmt.Sprintf(" %s %s→%s", wait.flag, wait.normal, wait.value)
	}
	m.Args = append(append(m.Args, s.config.ManagerArgs...), args...)
	t.Logf("site %s, %s, waits shortened:%s; flags %v %v", s.Name, m.Name, text, s.config.ManagerArgs, args)
	launched, err := s.Ingot.LaunchManager(m)
	check(t, err)
	s.manager = launched
	if s.starts == 1 {
		t.Cleanup(s.StopManager)
	}
}

// AwaitManager waits until the manager that was launched is ready.
func (s *Site) AwaitManager(t testing.TB) error {
	t.Helper()
	return s.manager.Await(t.Context())
}

// flags that a manager cannot do without, and the files they name.
func (s *Site) flags(t testing.TB) []string {
	t.Helper()
	loaders, agent := filepath.Join(s.dir, "loaders"), filepath.Join(s.dir, "agent")
	for _, path := range []string{
		filepath.Join(loaders, "undionly.kpxe"), filepath.Join(loaders, "snponly.efi"),
		filepath.Join(agent, "vmlinuz"), filepath.Join(agent, "initramfs.cpio.zst"),
	} {
		check(t, os.MkdirAll(filepath.Dir(path), 0o700))
		check(t, os.WriteFile(path, []byte("simulated "+filepath.Base(path)), 0o600))
	}
	return []string{
		"manager", "--lab-uplink=" + s.World.DataCenter.Uplink(), "--lab-address=" + s.BootAddress().String(),
		"--agent-key-dir=" + s.keys(t), "--loader-dir=" + loaders, "--agent-image-dir=" + agent,
		"--image-cache-dir=" + filepath.Join(s.dir, "images"), "--image-sources=127.0.0.0/8", "--v=1",
	}
}

// BootAddress is the boot server's on the servers' network; each site has its own.
func (s *Site) BootAddress() netip.Prefix {
	return netip.MustParsePrefix(fmt.Sprintf("%s.%d/24", subnet, 1+s.number))
}

// StopManager stops the manager, if it runs.
func (s *Site) StopManager() {
	if s.manager != nil {
		s.manager.Process.Stop(stopGrace)
		s.manager = nil
	}
}

// err says whether something has ended that should run.
func (s *Site) err() error {
	if err := s.Plane.Err(); err != nil {
		return err
	}
	if s.manager != nil {
		return s.manager.Process.Err()
	}
	return nil
}
