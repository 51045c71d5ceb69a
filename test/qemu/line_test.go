// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/cmd/lab/demo"
	"github.com/ingot-metal/ingot/hack/tools"
)

// lineTimeout is generous: a UEFI line on a busy machine without KVM.
const lineTimeout = 20 * time.Minute

// TestWholeLine plays the demo with fewer servers: from kubectl apply to a
// provisioned server and back, on real firmware, a real API server and the real
// Cluster API controllers. The demo counts by BMC logs, disks and API objects and
// fails when it falls short.
func TestWholeLine(t *testing.T) {
	for _, line := range []struct {
		name, level string
		options     demo.Options
		want        string
	}{
		{
			name: "BIOS", level: "bios",
			options: demo.Options{Servers: []string{"bios-1"}, Machines: 1},
			want:    `demo: 1 of 1 machines provisioned, 1 released and wiped, \d+ s`,
		},
		{
			name: "BIOS, manager killed three times", level: "all",
			options: demo.Options{Servers: []string{"bios-1"}, Machines: 1, KillManager: true},
			want:    `demo: 1 of 1 machines provisioned, 1 released and wiped, \d+ s`,
		},
		{
			name: "UEFI, e1000e and NVMe", level: "all",
			options: demo.Options{Servers: []string{"uefi-1"}, Machines: 1},
			want:    `demo: 1 of 1 machines provisioned, 1 released and wiped, \d+ s`,
		},
		{
			name: "BIOS with e1000e and NVMe, UEFI with virtio", level: "all",
			options: demo.Options{Servers: []string{"bios-1", "uefi-1"}, Machines: 2, SwapHardware: true},
			want:    `demo: 2 of 2 machines provisioned, 1 released and wiped, \d+ s`,
		},
		{
			name: "virtual media, NVMe erased", level: "all",
			options: demo.Options{Servers: []string{"media-1"}, Machines: 1, Cleaning: "Full"},
			want:    `disk media-1-d0 is clean by NVMeFormat, [1-9]\d* bytes read back\n(.*\n)*demo: 1 of 1 machines provisioned, 1 released and wiped, \d+ s`,
		},
		{
			name: "UEFI HTTP boot", level: "all",
			options: demo.Options{Servers: []string{"http-1"}, Machines: 1},
			want:    `demo: 1 of 1 machines provisioned, 1 released and wiped, \d+ s`,
		},
	} {
		t.Run(line.name, func(t *testing.T) {
			needs(t, line.level)
			out, err := play(t, line.options)
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if !regexp.MustCompile(line.want).MatchString(out) {
				t.Errorf("the demo ended well and did not say %q:\n%s", line.want, out)
			}
			t.Log(out[strings.LastIndex(out, "demo:"):])
		})
	}
}

// TestWithoutDisk: with a disk taken away the demo must fail, and say why.
func TestWithoutDisk(t *testing.T) {
	needs(t, "all")
	out, err := play(t, demo.Options{Servers: []string{"bios-1"}, Machines: 1, WithoutDisk: []string{"bios-1"}})
	if err == nil || !strings.Contains(err.Error(), "bios-1") {
		t.Errorf("without its disk the demo must fail and name bios-1; got %v\n%s", err, out)
	}
}

// play runs the demo with a freshly built manager and returns what it said.
func play(t *testing.T, options demo.Options) (string, error) {
	t.Helper()
	set, err := tools.Open()
	if err != nil {
		t.Fatal(err)
	}
	// Unix sockets want a short path.
	dir, err := os.MkdirTemp("", "ingot-line-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() {
			_ = os.RemoveAll(dir)
			return
		}
		t.Logf("logs are kept in %s", dir)
	})
	options.Binary = filepath.Join(dir, "lab")
	build := exec.Command("go", "build", "-o", options.Binary, "./cmd/lab")
	build.Dir = set.Root()
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	var out strings.Builder
	options.Dir = filepath.Join(dir, "state")
	options.Out, options.Timeout = &out, lineTimeout
	options.ConfigDir, options.LoaderDir = filepath.Join(set.Root(), "config", "default"), "/usr/lib/ipxe"
	err = demo.Run(t.Context(), options)
	return out.String(), err
}
