// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// schema runs `cloud-init schema` for each file, as on a system without netplan, where
// cloud-init judges by its own schema; beside a netplan without Python's API, as Debian
// 12's, it skips that. One process for all: it takes long to start.
const schema = `
import sys
import cloudinit.net.netplan
cloudinit.net.netplan.available = lambda *args, **options: False
from cloudinit.cmd.main import main
for file in sys.argv[1:]:
    sys.argv = ["cloud-init", "schema", "--schema-type", "network-config", "--config-file", file]
    try:
        code = main()
    except SystemExit as end:
        code = end.code
    print("result", file, "refused" if code else "accepted")
`

// rendered are the golden files of inventory/networkdata: texts as systems are given them.
func rendered(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob("../../inventory/networkdata/testdata/*.yaml")
	if err != nil || len(files) < 5 {
		t.Fatalf("%d rendered networks: %v", len(files), err)
	}
	texts := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		texts[strings.TrimSuffix(filepath.Base(file), ".yaml")] = string(text)
	}
	return texts
}

// cloudInit runs Python with cloud-init's modules.
func cloudInit(t *testing.T) func(dir string, args ...string) (string, error) {
	t.Helper()
	const python = "/usr/bin/python3"
	var said strings.Builder
	script := exec.Command("../../hack/cloud-init.sh")
	script.Stderr = &said
	modules, err := script.Output()
	if err != nil {
		missing(t, "hack/cloud-init.sh brought no cloud-init: %v\n%s", err, said.String())
	}
	run := func(dir string, args ...string) (string, error) {
		cmd := exec.Command(python, args...)
		cmd.Dir, cmd.Env = dir, append(os.Environ(), "PYTHONPATH="+strings.TrimSpace(string(modules)), "PYTHONDONTWRITEBYTECODE=1")
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := run("", "-c", "import cloudinit.cmd.main"); err != nil {
		missing(t, "cloud-init's Python packages are not installed (hack/packages.sh test): %v\n%s", err, out)
	}
	return run
}

// missing ends a test for which a program is not there: as a failure where all tests
// are to be run (make test-full).
func missing(t *testing.T, format string, args ...any) {
	t.Helper()
	if os.Getenv("INGOT_FULL") != "" {
		t.Fatalf(format, args...)
	}
	t.Skipf(format, args...)
}

// cloud-init's schema takes what is rendered, and not what is spelled otherwise.
func TestSchema(t *testing.T) {
	run := cloudInit(t)
	texts, want := rendered(t), map[string]string{}
	for name := range texts {
		want[name] = "accepted"
	}
	texts["wrong-mode"] = strings.Replace(texts["bond-vlan"], `mode: "802.3ad"`, "mode: lacp", 1)
	texts["wrong-key"] = strings.Replace(texts["bond-vlan"], "vlans:", "vlan:", 1)
	want["wrong-mode"], want["wrong-key"] = "refused", "refused"
	dir, args := t.TempDir(), []string{"-c", schema}
	for name, text := range texts {
		write(t, filepath.Join(dir, name), text)
		args = append(args, name)
	}
	out, err := run(dir, args...)
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	got := map[string]string{}
	for line := range strings.Lines(out) {
		if words := strings.Fields(line); len(words) == 3 && words[0] == "result" {
			got[words[1]] = words[2]
		}
	}
	if diff := cmp.Diff(want, got); diff != "" || strings.Count(out, "Valid schema") != len(want)-2 {
		t.Errorf("%s\n%s", diff, out)
	}
}

// Netplan's parser takes what is rendered, and makes units of systemd's networkd of it.
func TestNetplan(t *testing.T) {
	parser := netplan(t)
	for name, text := range rendered(t) {
		t.Run(name, func(t *testing.T) {
			units := generate(t, parser, asNetplan(t, text))
			if len(units) == 0 {
				t.Error("no units")
			}
			if name == "bond-vlan" {
				wantBond(t, units)
			}
		})
	}
	t.Run("a wrong one", func(t *testing.T) {
		root := asNetplan(t, strings.Replace(rendered(t)["bond-vlan"], "- uplink1", "- uplink7", 1))
		if out, err := exec.Command(parser, "--root-dir", root).CombinedOutput(); err == nil {
			t.Errorf("accepted:\n%s", out)
		}
	})
}

// What cloud-init makes of it for netplan is the same network.
func TestByCloudInitToNetplan(t *testing.T) {
	parser, run := netplan(t), cloudInit(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "network-config"), rendered(t)["bond-vlan"])
	if out, err := run(dir, "-m", "cloudinit.cmd.main", "devel", "net-convert", "-p", "network-config", "-k", "yaml", "-d", "root", "-D", "debian", "-O", "netplan"); err != nil {
		t.Fatalf("cloud-init does not pass it on: %v\n%s", err, out)
	}
	wantBond(t, generate(t, parser, filepath.Join(dir, "root")))
}

// netplan is the program that parses, below netplan's own.
func netplan(t *testing.T) string {
	t.Helper()
	for _, file := range []string{"/usr/libexec/netplan/generate", "/lib/netplan/generate"} {
		if _, err := os.Stat(file); err == nil {
			return file
		}
	}
	missing(t, "netplan is not installed (hack/packages.sh test)")
	return ""
}

// asNetplan is a directory with the text where netplan looks for it.
func asNetplan(t *testing.T, text string) string {
	t.Helper()
	root := t.TempDir()
	write(t, filepath.Join(root, "etc/netplan/90-ingot.yaml"), "network:\n  "+strings.ReplaceAll(text, "\n", "\n  "))
	return root
}

// generate runs netplan's parser below root, and returns the units that it writes.
func generate(t *testing.T, parser, root string) map[string]string {
	t.Helper()
	if out, err := exec.Command(parser, "--root-dir", root).CombinedOutput(); err != nil {
		t.Fatalf("netplan refuses it: %v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(root, "run/systemd/network/*"))
	if err != nil {
		t.Fatal(err)
	}
	units := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		units[filepath.Base(file)] = string(text)
	}
	return units
}

// wantBond checks what a bond must say in the end, in the words of systemd.netdev(5).
func wantBond(t *testing.T, units map[string]string) {
	t.Helper()
	for file, lines := range map[string][]string{
		"10-netplan-bond0.netdev":      {"Kind=bond", "Mode=802.3ad", "LACPTransmitRate=fast", "MIIMonitorSec=100ms", "TransmitHashPolicy=layer3+4", "MinLinks=1", "AdSelect=bandwidth", "MACAddress=b8:59:9f:00:00:01"},
		"10-netplan-uplink1.network":   {"PermanentMACAddress=b8:59:9f:00:00:02", "Bond=bond0", "MTUBytes=9000"},
		"10-netplan-bond0.120.netdev":  {"Kind=vlan", "Id=120"},
		"10-netplan-bond0.120.network": {"Address=10.20.3.7/22", "IPv6AcceptRA=no", "Gateway=10.20.0.1", "DNS=10.20.0.2"},
	} {
		for _, line := range lines {
			if !strings.Contains(units[file], line+"\n") {
				t.Errorf("%s does not say %s:\n%s", file, line, units[file])
			}
		}
	}
}

func write(t *testing.T, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}
