// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent"
	"github.com/ingot-metal/ingot/agent/agenttest"
	"github.com/ingot-metal/ingot/agent/block"
	"github.com/ingot-metal/ingot/agentapi"
)

// liveCanary is the secret in a live system's command line.
const liveCanary = "live-address-canary-5b1c"

// kernels records the live system that is loaded.
type kernels struct {
	t      *testing.T
	refuse error
	// memory of the running kernel; nil: as much as the server has.
	memory func() int64
	// diskAtLoad is the content of the root disk when the kernel was loaded.
	disk                    func() []byte
	kernel, initrd, command string
	diskAtLoad              []byte
}

func (k *kernels) File(name string) (*os.File, error) { return os.CreateTemp(k.t.TempDir(), name) }

func (k *kernels) Load(kernel, initrd *os.File, commandLine agentapi.Sensitive) error {
	if k.refuse != nil {
		return k.refuse
	}
	read := func(f *os.File) string {
		b, err := io.ReadAll(io.NewSectionReader(f, 0, 1<<30))
		if err != nil {
			k.t.Error(err)
		}
		return string(b)
	}
	k.kernel, k.initrd, k.command = read(kernel), read(initrd), commandLine.Reveal()
	k.diskAtLoad = k.disk()
	return nil
}

// liveOrder returns a manager with an order for a live system, and the system's files.
func liveOrder(t *testing.T) (m *agenttest.Manager, kernel, initrd *agenttest.Images) {
	t.Helper()
	kernel = &agenttest.Images{Content: bytes.Repeat([]byte("kernel"), 100_000)}
	initrd = &agenttest.Images{Content: append([]byte{0x28, 0xb5, 0x2f, 0xfd}, bytes.Repeat([]byte("initrd"), 200_000)...)}
	m = agenttest.NewManager()
	m.Live = agentapi.LiveBoot{CommandLine: "quiet data=http://10.0.0.2/" + liveCanary}
	m.Order = agentapi.Order{Kind: agentapi.Install, ID: "o1", InstanceID: "i1", Attempt: 2, Install: &agentapi.InstallOrder{
		RootDisk: agentapi.DiskRef{Serial: "A"},
		Live: &agentapi.LiveOrder{
			Kernel: agentapi.LiveFile{URL: kernel.Start(t), Checksum: kernel.Checksum()},
			Initrd: agentapi.LiveFile{URL: initrd.Start(t), Checksum: initrd.Checksum()},
		},
	}}
	return m, kernel, initrd
}

func runLive(s *server, m *agenttest.Manager, k *kernels, memory int64) (agentapi.Action, error) {
	k.t, k.disk = s.t, func() []byte { return s.content(0) }
	cfg := s.config(m, m.Start(s.t))
	cfg.Kernels = k
	cfg.Probe = func(context.Context) (agentapi.Hardware, error) {
		return agentapi.Hardware{Serial: "SN1", Architecture: "amd64", MemoryBytes: memory}, nil
	}
	cfg.Memory = k.memory
	return agent.Run(s.t.Context(), cfg)
}

// The agent starts a live system from verified files, makes the root disk unbootable first,
// and reports nothing.
func TestLiveSystemIsStarted(t *testing.T) {
	m, kernel, initrd := liveOrder(t)
	kernel.CutAt = []int{100_000} // and resumed
	m.Faults = func(path string, n int) *agenttest.Fault {
		if path == agentapi.PathLive && n == 1 {
			return &agenttest.Fault{Drop: true}
		}
		return nil
	}
	s := newServer(t, twoDisks...)
	k := &kernels{}
	action, err := runLive(s, m, k, 0)
	if action != agentapi.StartLive || err != nil {
		t.Fatalf("%s, %v\n%s", action, err, strings.Join(s.lines, "\n"))
	}
	if k.kernel != string(kernel.Content) || k.initrd != string(initrd.Content) || k.command != m.Live.CommandLine.Reveal() {
		t.Error("loaded other files than the ordered")
	}
	want := []string{agentapi.PathSession, agentapi.PathOrder, agentapi.PathLive, agentapi.PathLive}
	if diff := cmp.Diff(want, m.Calls()); diff != "" {
		t.Errorf("calls: %s", diff)
	}
	if !bytes.Equal(k.diskAtLoad[:agentapi.MarkerOffset], make([]byte, agentapi.MarkerOffset)) {
		t.Error("the root disk may still boot an old system")
	}
	if diff := cmp.Diff(&agentapi.Marker{InstanceID: "i1", Attempt: 2}, s.marker(0)); diff != "" {
		t.Errorf("the root disk's marker: %s", diff)
	}
	if !s.untouched(1) {
		t.Error("wrote to a disk that the order does not name (I12)")
	}
	if shown := strings.Join(s.lines, "\n"); strings.Contains(shown, liveCanary) {
		t.Errorf("the address shows in:\n%s", shown)
	}
	s.noSecrets(m, err)
}

// Every failure ends in a failed report and power-off. Before the disk is cleared it stays
// unchanged.
func TestLiveFailuresAreReported(t *testing.T) {
	const enough = 64 << 20
	for name, tc := range map[string]struct {
		disks   []agentapi.Disk
		memory  int64
		kernels *kernels
		change  func(m *agenttest.Manager, kernel, initrd *agenttest.Images)
		want    string
		written bool
	}{
		"no such disk": {want: agentapi.FailureDiskNotFound, change: func(m *agenttest.Manager, _, _ *agenttest.Images) {
			m.Order.Install.RootDisk.Serial = "Z"
		}},
		"a disk of another instance": {want: agent.ReasonDiskOwnedByOther, disks: []agentapi.Disk{
			{Serial: "A", Marker: &agentapi.Marker{InstanceID: "other", Complete: true}}, {Serial: "B"},
		}},
		"another kernel": {want: agentapi.FailureChecksumMismatch, change: func(m *agenttest.Manager, _, initrd *agenttest.Images) {
			m.Order.Install.Live.Kernel.Checksum = initrd.Checksum()
		}},
		"another initrd": {want: agentapi.FailureChecksumMismatch, change: func(m *agenttest.Manager, kernel, _ *agenttest.Images) {
			m.Order.Install.Live.Initrd.Checksum = kernel.Checksum()
		}},
		"no kernel there": {want: agentapi.FailureImageUnavailable, change: func(_ *agenttest.Manager, kernel, _ *agenttest.Images) { kernel.Status = 404 }},
		"relative, and no boot server": {want: agentapi.FailureImageUnavailable, change: func(m *agenttest.Manager, _, _ *agenttest.Images) {
			m.Order.Install.Live.Initrd.URL = "/images/x"
		}},
		"kernel too large":              {want: agentapi.FailureLiveRefused, memory: 1 << 20},
		"initrd too large":              {want: agentapi.FailureLiveRefused, memory: 3 << 20},
		"too large for kernel's memory": {want: agentapi.FailureLiveRefused, memory: 64 << 30, kernels: &kernels{memory: func() int64 { return 3 << 20 }}},
		"kernel is refused":             {want: agentapi.FailureLiveRefused, kernels: &kernels{refuse: fmt.Errorf("%w: exec format error", agent.ErrKernelRefused)}, written: true},
		"kexec fails":                   {want: agent.ReasonLiveFailed, kernels: &kernels{refuse: errors.New("not implemented")}, written: true},
		"a command line too long": {want: agentapi.FailureLiveRefused, written: true, change: func(m *agenttest.Manager, _, _ *agenttest.Images) {
			m.Live.CommandLine += agentapi.Sensitive(strings.Repeat("x", agentapi.MaxCommandLine))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			m, kernel, initrd := liveOrder(t)
			if tc.change != nil {
				tc.change(m, kernel, initrd)
			}
			disks := twoDisks
			if tc.disks != nil {
				disks = tc.disks
			}
			s, k := newServer(t, disks...), tc.kernels
			if k == nil {
				k = &kernels{}
			}
			if tc.memory == 0 {
				tc.memory = enough
			}
			action, err := runLive(s, m, k, tc.memory)
			reports := m.Reports()
			if action != agentapi.PowerOff || err != nil || len(reports) != 1 || reports[0].Outcome != agentapi.Failed || reports[0].Reason != tc.want {
				t.Fatalf("%s, %v, reports %+v, want one of %s\n%s", action, err, reports, tc.want, strings.Join(s.lines, "\n"))
			}
			if s.untouched(0) == tc.written || !s.untouched(1) {
				t.Errorf("root disk untouched: %t, the other one: %t", s.untouched(0), s.untouched(1))
			}
			if text := strings.Join(s.lines, "\n") + fmt.Sprintf("%+v", reports); strings.Contains(text, liveCanary) {
				t.Errorf("the address shows in:\n%s", text)
			}
		})
	}
}

// The root disk is opened once before the downloads and stays open until it is cleared, so
// that a changed name has no effect.
func TestLiveKeepsItsDiskOpen(t *testing.T) {
	m, _, _ := liveOrder(t)
	s := newServer(t, twoDisks...)
	var steps []string
	wrote := false
	s.onWrite = func(context.Context) {
		if !wrote {
			steps = append(steps, "write")
		}
		wrote = true
	}
	s.wrap = func(d agentapi.Disk, dev block.Device) block.Device {
		steps = append(steps, "open "+d.Serial)
		return closing{dev, func() { steps = append(steps, "close "+d.Serial) }}
	}
	if action, err := runLive(s, m, &kernels{}, 0); action != agentapi.StartLive || err != nil {
		t.Fatalf("%s, %v", action, err)
	}
	if diff := cmp.Diff([]string{"open A", "write", "close A"}, steps); diff != "" {
		t.Error(diff)
	}
}

// A disk whose name changed before the open is not cleared, but closed.
func TestLiveRefusesARenamedDisk(t *testing.T) {
	m, _, _ := liveOrder(t)
	s := newServer(t, twoDisks...)
	s.onList = func(n int, disks []agentapi.Disk) {
		if n > 2 { // after the lists of the session and for the open
			disks[0].Serial, disks[1].Serial = "B", "A"
		}
	}
	closed := 0
	s.wrap = func(_ agentapi.Disk, dev block.Device) block.Device { return closing{dev, func() { closed++ }} }
	action, err := runLive(s, m, &kernels{}, 0)
	got := m.Reports()
	if action != agentapi.PowerOff || err != nil || len(got) != 1 || got[0].Reason != agentapi.FailureDiskNotFound || closed != 1 || !s.untouched(0) || !s.untouched(1) {
		t.Errorf("%s, %v, closed %d times, reports %+v", action, err, closed, got)
	}
}

// Without Config.Kernels the agent refuses the order.
func TestLiveNeedsKernels(t *testing.T) {
	m, _, _ := liveOrder(t)
	s := newServer(t, twoDisks...)
	action, err := s.run(m)
	if reports := m.Reports(); action != agentapi.PowerOff || err != nil || len(reports) != 1 || reports[0].Reason != agent.ReasonOrderNotUnderstood {
		t.Errorf("%s, %v, %+v", action, err, reports)
	}
}

// An order that is called off or refused at the command line starts nothing.
func TestLiveIsCalledOff(t *testing.T) {
	for name, tc := range map[string]struct {
		stopAt agentapi.Step
		reason agentapi.Reason
	}{
		"while it waits for its command line": {agentapi.StepLive, agentapi.ReasonNotReady},
		"at the command line":                 {"", agentapi.ReasonOrderGone},
	} {
		t.Run(name, func(t *testing.T) {
			m, _, _ := liveOrder(t)
			m.StopAt = tc.stopAt
			m.Faults = func(path string, _ int) *agenttest.Fault {
				if path == agentapi.PathLive {
					return refusal(tc.reason)
				}
				return nil
			}
			s, k := newServer(t, twoDisks...), &kernels{}
			action, err := runLive(s, m, k, 0)
			if action != agentapi.PowerOff || !errors.Is(err, agent.ErrRefused) || k.command != "" || len(m.Reports()) != 0 {
				t.Errorf("%s, %v, loaded %t, reports %+v", action, err, k.command != "", m.Reports())
			}
		})
	}
}
