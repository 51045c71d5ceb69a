// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// cloudInitUnits are those of Debian's and Ubuntu's cloud-init, as far as their order
// goes: it ends after multi-user.target.
var cloudInitUnits = map[string]string{
	"cloud-final.service": "[Unit]\nAfter=network-online.target multi-user.target\n[Service]\nType=oneshot\nExecStart=/bin/true\n[Install]\nWantedBy=cloud-init.target\n",
	"cloud-init.target":   "[Unit]\nAfter=multi-user.target\n[Install]\nWantedBy=multi-user.target\n",
}

// otherInitUnits are of a system without cloud-init.
var otherInitUnits = map[string]string{"something.service": "[Service]\nExecStart=/bin/true\n[Install]\nWantedBy=multi-user.target\n"}

// installVendorScript runs the whole vendor script on a tree whose systemd has those units,
// which the real systemctl enables there.
func installVendorScript(t *testing.T, root string, units map[string]string) {
	t.Helper()
	const system = "usr/lib/systemd/system"
	write := func(name, text string) {
		t.Helper()
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	seed, err := RenderSeed(seedInput())
	if err != nil {
		t.Fatal(err)
	}
	systemctl, err := exec.LookPath("systemctl")
	if err != nil {
		t.Fatalf("systemd is not installed (hack/packages.sh test): %v", err)
	}
	for name, text := range units {
		write(filepath.Join(system, name), text)
		if out, err := exec.Command(systemctl, "--root="+root, "enable", name).CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
	}
	write("etc/systemd/system/.keep", "")
	write("run/systemd/system/.keep", "")
	write("bin/sync", "#!/bin/sh\n")
	write("bin/systemctl", "#!/bin/sh\necho \"$*\" >> '"+root+"/called'\n[ \"$1\" != enable ] || exec "+systemctl+" --root='"+root+"' \"$@\"\n")
	write("vendor.sh", strings.NewReplacer("/var/lib/", root+"/", "/etc/systemd/", root+"/etc/systemd/", "/run/systemd/", root+"/run/systemd/").Replace(seed.VendorData))
	cmd := exec.Command("sh", filepath.Join(root, "vendor.sh"))
	cmd.Env = append(os.Environ(), "PATH="+filepath.Join(root, "bin")+":"+os.Getenv("PATH"))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("vendor script: %v\n%s", err, out)
	}
}

// cycles are the ordering cycles that systemd finds in the way to multi-user.target.
func cycles(t *testing.T, root string) string {
	t.Helper()
	cmd := exec.Command("systemd-analyze", "--man=no", "verify", "multi-user.target")
	cmd.Env = append(os.Environ(), "SYSTEMD_UNIT_PATH="+root+"/etc/systemd/system:"+root+"/usr/lib/systemd/system:")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("systemd-analyze: %v\n%s", err, out)
	}
	var found []string
	for line := range strings.Lines(string(out)) {
		if strings.Contains(line, "ordering cycle") {
			found = append(found, line)
		}
	}
	return strings.Join(found, "")
}

// In the boots after the first systemd starts the unit by itself, after cloud-init. That may
// end after multi-user.target, which wants the unit: systemd leaves out one of a cycle. A
// system may have switched cloud-init off by then.
func TestFirstBootUnit(t *testing.T) {
	for name, units := range map[string]map[string]string{"cloud-init": cloudInitUnits, "without cloud-init": otherInitUnits} {
		t.Run(name, func(t *testing.T) {
			root := t.TempDir()
			installVendorScript(t, root, units)
			if _, err := os.Lstat(filepath.Join(root, "etc/systemd/system/multi-user.target.wants/ingot-first-boot.service")); err != nil {
				t.Error(err)
			}
			if found := cycles(t, root); found != "" {
				t.Error(found)
			}
			called, err := os.ReadFile(filepath.Join(root, "called"))
			if err != nil || !strings.Contains(string(called), "start --no-block ingot-first-boot.service") {
				t.Errorf("systemctl was called so, error %v:\n%s", err, called)
			}
		})
	}
}

// TestCyclesAreFound: the check of TestFirstBootUnit sees a cycle where there is one.
func TestCyclesAreFound(t *testing.T) {
	root := t.TempDir()
	installVendorScript(t, root, cloudInitUnits)
	unit := filepath.Join(root, "etc/systemd/system/ingot-first-boot.service")
	text, err := os.ReadFile(unit)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(unit, bytes.Replace(text, []byte("DefaultDependencies=no\n"), nil, 1), 0o600); err != nil {
		t.Fatal(err)
	}
	if cycles(t, root) == "" {
		t.Error("no cycle is found")
	}
}

// The vendor script runs in each boot until the report is done: the boot in which it ran
// first stays known, and the token is written once. What an image brought is not.
func TestFirstBootIsRemembered(t *testing.T) {
	root := t.TempDir()
	installVendorScript(t, root, cloudInitUnits)
	env := filepath.Join(root, "ingot/first-boot.env")
	holds := func(when, want string) {
		t.Helper()
		if text, err := os.ReadFile(env); err != nil || !strings.Contains(string(text), "\nINGOT_FIRST_BOOT_ID='"+want+"'\nINGOT_INSTANCE_ID='"+instanceID+"'\n") {
			t.Errorf("%s: %q, error %v; want %q", when, text, err, want)
		}
	}
	holds("the first boot", bootID(t))
	text, err := os.ReadFile(env)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(env, bytes.Replace(text, []byte(bootID(t)), []byte("earlier"), 1), 0o600); err != nil {
		t.Fatal(err)
	}
	written, err := os.Stat(env)
	if err != nil {
		t.Fatal(err)
	}
	installVendorScript(t, root, cloudInitUnits)
	holds("the second boot", "earlier")
	again, err := os.Stat(env)
	if err != nil || !os.SameFile(written, again) || !written.ModTime().Equal(again.ModTime()) {
		t.Errorf("the token is written twice: %v", err)
	}
	for _, brought := range []string{"INGOT_INSTANCE_ID='another'\n", "INGOT_BOOTED_URL='cut of", ""} {
		if err := os.WriteFile(env, []byte(brought), 0o600); err != nil {
			t.Fatal(err)
		}
		ended := filepath.Join(root, "ingot/first-boot.ended")
		if err := os.WriteFile(ended, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		installVendorScript(t, root, cloudInitUnits)
		holds("with an image's "+brought, bootID(t))
		if _, err := os.Stat(ended); !os.IsNotExist(err) {
			t.Errorf("with an image's %q: its first boot has ended: %v", brought, err)
		}
	}
}

// What a system says of its first boot. It was interrupted when cloud-init ends in another
// boot than it began in; not when the system was restarted after that, and not where there is
// no cloud-init. Bootstrap providers leave their file in /run, which only the first boot has.
func TestFirstBootOutcome(t *testing.T) {
	const (
		cloudInit, finished, ended = "cloud/instance/datasource", "cloud/instance/boot-finished", "ingot/first-boot.ended"
		succeeded                  = "run/cluster-api/bootstrap-success.complete"
		interrupted, there, none   = `,"interrupted":true`, `,"sentinel":true`, `,"sentinel":false`
	)
	type files = map[string]string
	for name, tc := range map[string]struct {
		first string
		files files
		want  string
	}{
		"the first boot": {bootID(t), files{cloudInit: ""}, ""},
		"the first boot, the bootstrap succeeded":        {bootID(t), files{finished: "", succeeded: "success\n"}, there},
		"the first boot, the bootstrap failed":           {bootID(t), files{finished: ""}, none},
		"the first boot, cloud-init at work":             {bootID(t), files{cloudInit: "", succeeded: ""}, ""},
		"the first boot, its report repeated":            {bootID(t), files{finished: "", succeeded: "", ended: "true\n"}, there},
		"the second, the first was cut off":              {"earlier", files{finished: ""}, interrupted},
		"the second, cut off after cloud-init":           {"earlier", files{finished: "", ended: "\n"}, ""},
		"the second, cut off after a bootstrap":          {"earlier", files{finished: "", ended: "true\n"}, there},
		"the second, cut off after a failed bootstrap":   {"earlier", files{finished: "", ended: "false\n"}, none},
		"the second, cut off while that was written":     {"earlier", files{finished: "", ended: ""}, ""},
		"the second, what was written is damaged":        {"earlier", files{finished: "", ended: "fal\",\"x\":1"}, ""},
		"the second of a system that has no cloud-init":  {"earlier", nil, ""},
		"the first of a system that has no cloud-init":   {bootID(t), files{succeeded: ""}, ""},
		"the second, and the bootstrap's file of before": {"earlier", files{finished: "", ended: "false\n", succeeded: ""}, none},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newFirstBootTree(t)
			env := filepath.Join(tree.root, "ingot/first-boot.env")
			text, err := os.ReadFile(env)
			if err != nil {
				t.Fatal(err)
			}
			tree.write("ingot/first-boot.env", strings.Replace(string(text), bootID(t), tc.first, 1))
			for name, text := range tc.files {
				tree.write(name, text)
			}
			if out, err := tree.run(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			posted, err := os.ReadFile(filepath.Join(tree.root, "posted"))
			if want := `"bootID":"` + bootID(t) + `"` + tc.want + "}"; err != nil || !strings.HasSuffix(string(posted), want) {
				t.Errorf("%s, error %v; want it to end in %s", posted, err, want)
			}
			if _, err := os.Stat(filepath.Join(tree.root, "ingot")); !os.IsNotExist(err) {
				t.Errorf("something is left of the script: %v", err)
			}
		})
	}
}

// What the first boot leaves to tell the second that it was not cut off, and how the
// bootstrap ended, of which /run tells nothing then.
func TestFirstBootEnds(t *testing.T) {
	for name, tc := range map[string]struct {
		files []string
		want  string
	}{
		"the bootstrap succeeded": {[]string{"cloud/instance/boot-finished", "run/cluster-api/bootstrap-success.complete"}, "true\n"},
		"the bootstrap failed":    {[]string{"cloud/instance/boot-finished"}, "false\n"},
		"nothing is known of it":  {nil, "\n"},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newFirstBootTree(t)
			for _, file := range tc.files {
				tree.write(file, "")
			}
			tree.write("bin/shred", "#!/bin/sh\nkill -9 $PPID\n")
			if _, err := tree.run(); err == nil {
				t.Fatal("the script ran to its end")
			}
			if left, err := os.ReadFile(filepath.Join(tree.root, "ingot/first-boot.ended")); err != nil || string(left) != tc.want {
				t.Errorf("%q, error %v; want %q", left, err, tc.want)
			}
		})
	}
}

// A full disk does not prevent the report.
func TestFirstBootReportsFromAFullDisk(t *testing.T) {
	tree := newFirstBootTree(t)
	tree.write("cloud/instance/boot-finished", "")
	if err := os.Mkdir(filepath.Join(tree.root, "ingot/first-boot.ended"), 0o755); err != nil { // nothing can be written there
		t.Fatal(err)
	}
	if out, err := tree.run(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if posted, err := os.ReadFile(filepath.Join(tree.root, "posted")); err != nil || !strings.HasSuffix(string(posted), `,"sentinel":false}`) || strings.Contains(string(posted), "interrupted") {
		t.Errorf("%s, error %v", posted, err)
	}
}

// A power cut in the end of the script, at each of its programs, leaves no token behind
// that the next boot does not destroy, and no unit without its script.
func TestPowerCutAfterTheReport(t *testing.T) {
	cuts := 0
	for ; cuts < 20; cuts++ {
		tree := newFirstBootTree(t)
		unit := filepath.Join(tree.root, "systemd/system/ingot-first-boot.service")
		tree.write("systemd/system/ingot-first-boot.service", "[Unit]\n")
		for _, program := range []string{"mv", "sync", "shred", "rm", "rmdir"} {
			tree.write("bin/"+program, `#!/bin/sh
if [ -e "$ROOT/posted" ]; then
	n=$(($(cat "$ROOT/n" 2> /dev/null || echo 0) + 1))
	echo $n > "$ROOT/n"
	[ "$n" = "$CUT" ] && kill -9 $PPID
fi
PATH=/usr/bin:/bin exec `+program+` "$@"
`)
		}
		_, err := tree.run(fmt.Sprintf("CUT=%d", cuts+1))
		if err == nil {
			break
		}
		if _, err := os.Stat(unit); err == nil {
			if out, err := tree.run("CUT=0"); err != nil || strings.Contains(out, "not found") {
				t.Errorf("cut %d: the next boot: %v\n%s", cuts+1, err, out)
			}
		}
		err = filepath.WalkDir(filepath.Join(tree.root, "ingot"), func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return nil // gone
			}
			if text, err := os.ReadFile(path); err != nil || bytes.Contains(text, []byte(canary)) {
				t.Errorf("cut %d: %s still holds the token, error %v", cuts+1, path, err)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if cuts < 5 || cuts == 20 {
		t.Errorf("%d cuts", cuts)
	}
}
