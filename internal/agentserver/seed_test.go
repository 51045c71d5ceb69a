// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/internal/token"
)

var update = flag.Bool("update", false, "write the golden files anew")

func seedInput() SeedInput {
	return SeedInput{
		ProviderID: "ingot://metal/h1/" + instanceID, InstanceID: instanceID, Attempt: 2, Hostname: "m1",
		FailureDomain: "rack-a", Address: "192.0.2.1:8843",
		Pins:  []token.Pin{token.PinOf([]byte("current")), token.PinOf([]byte("next"))},
		Token: "v1/metal/h1/Booted/-/" + instanceID + "/2/1767323045/mac",
	}
}

func TestSeedGolden(t *testing.T) {
	withoutDomain := seedInput()
	withoutDomain.FailureDomain = ""
	for name, in := range map[string]SeedInput{"rack": seedInput(), "no-rack": withoutDomain} {
		seed, err := RenderSeed(in)
		if err != nil {
			t.Fatal(err)
		}
		golden(t, "meta-data-"+name+".yaml", seed.MetaData)
		golden(t, "vendor-data.sh", seed.VendorData)
	}
	broken := seedInput()
	broken.Pins = []token.Pin{"md5/x"}
	if _, err := RenderSeed(broken); err == nil {
		t.Error("a pin that curl cannot use was accepted")
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", name, diff)
	}
}

// A value that closes a quote must not become shell.
func TestQuote(t *testing.T) {
	for _, text := range []string{"", "plain", "it's", `'; touch /x; '`, "$(id)", "a\nb", `\`} {
		out, err := exec.Command("sh", "-c", "printf %s "+quote(text)).Output()
		if err != nil || string(out) != text {
			t.Errorf("the shell reads %q from quote(%q), error %v", out, text, err)
		}
	}
}

// Every shell at hand accepts the vendor script, and the script that it writes.
func TestVendorScriptSyntax(t *testing.T) {
	seed, err := RenderSeed(seedInput())
	if err != nil {
		t.Fatal(err)
	}
	for name, script := range map[string]string{"vendor-data": seed.VendorData, "first-boot": firstBoot(t, seed.VendorData)} {
		for _, shell := range []string{"sh", "dash", "bash"} {
			if _, err := exec.LookPath(shell); err != nil && shell != "sh" {
				continue
			}
			cmd := exec.Command(shell, "-n")
			cmd.Stdin = strings.NewReader(script)
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s -n of %s: %v\n%s", shell, name, err, out)
			}
		}
	}
}

// firstBoot takes the script out of the vendor script that writes it.
func firstBoot(t *testing.T, vendor string) string {
	t.Helper()
	_, rest, ok := strings.Cut(vendor, "<<'SCRIPT'\n")
	script, _, end := strings.Cut(rest, "\nSCRIPT\n")
	if !ok || !end {
		t.Fatal("vendor-data writes no first-boot script")
	}
	return script + "\n"
}

// firstBootTree is a tree with the secrets of a first boot, and the script in it.
type firstBootTree struct {
	t       *testing.T
	root    string
	secrets []string
}

func newFirstBootTree(t *testing.T) *firstBootTree {
	t.Helper()
	tree := &firstBootTree{t: t, root: t.TempDir(), secrets: []string{
		"cloud/seed/nocloud/user-data", "cloud/seed/nocloud/vendor-data",
		"cloud/instances/i-1/user-data.txt", "cloud/instances/i-1/user-data.txt.i", "cloud/instances/i-1/vendor-data.txt",
		"cloud/instances/i-1/vendor-data2.txt.i", "cloud/instances/i-1/cloud-config.txt", "cloud/instances/i-1/vendor-cloud-config.txt",
		"cloud/instances/i-1/obj.pkl", "cloud/instances/i-1/scripts/part-001", "cloud/instances/i-1/scripts/vendor/part-001",
		"cloud/instances/i-1/boothooks/part-002", "cloud/instances/i 2/user-data.txt",
	}}
	for _, name := range tree.secrets {
		tree.write(name, canary+"\n")
	}
	tree.write("cloud/seed/nocloud/meta-data", "instance-id: i-1\n")
	tree.write("cloud/instances/i-1/datasource", "NoCloud\n")
	tree.write("ingot/first-boot.env", "INGOT_BOOTED_URL='https://192.0.2.1/'\nINGOT_BOOTED_TOKEN='"+canary+"'\nINGOT_BOOTED_PIN='p'\nINGOT_FIRST_BOOT_ID='"+bootID(t)+"'\nINGOT_INSTANCE_ID='"+instanceID+"'\n")
	for _, nic := range []string{"eth0", "eth1", "eth2"} {
		tree.write("sys/net/"+nic+"/device/vendor", "0x15b3\n")
	}
	stubs(t, tree.write)
	seed, err := RenderSeed(seedInput())
	if err != nil {
		t.Fatal(err)
	}
	tree.write("ingot/first-boot.sh", strings.NewReplacer("/var/lib/", tree.root+"/", "/etc/systemd/", tree.root+"/systemd/", "/sys/class/", tree.root+"/sys/", "/run/", tree.root+"/run/").Replace(firstBoot(t, seed.VendorData)))
	return tree
}

func (f *firstBootTree) write(name, text string) {
	f.t.Helper()
	path := filepath.Join(f.root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		f.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
		f.t.Fatal(err)
	}
}

// run runs the script, with a few variables besides.
func (f *firstBootTree) run(variables ...string) (string, error) {
	cmd := exec.Command("sh", filepath.Join(f.root, "ingot/first-boot.sh"))
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Join(f.root, "bin")+":"+os.Getenv("PATH"), "ROOT="+f.root), variables...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// A power cut while the secrets are removed must not make another instance of the system:
// without a file of the seed cloud-init finds no source of data at the next boot.
func TestPowerCutWhileScrubbing(t *testing.T) {
	for cut := range len(newFirstBootTree(t).secrets) {
		tree := newFirstBootTree(t)
		tree.write("bin/shred", `#!/bin/sh
for file; do :; done
case "$*" in *" -u "*) rm "$file" ;; *) : > "$file" ;; esac
n=$(($(cat "$ROOT/n" 2> /dev/null || echo 0) + 1))
echo $n > "$ROOT/n"
[ "$n" = "$CUT" ] && kill -9 $PPID
exit 0
`)
		if _, err := tree.run(fmt.Sprintf("CUT=%d", cut+1)); err == nil {
			t.Errorf("cut %d: the script ran to its end", cut+1)
		}
		for _, name := range []string{"user-data", "vendor-data", "meta-data"} {
			if _, err := os.Stat(filepath.Join(tree.root, "cloud/seed/nocloud", name)); err != nil {
				t.Errorf("cut %d: the seed has lost a file: %v", cut+1, err)
			}
		}
	}
}

// I16: after the first boot no file below cloud-init's directory holds the secret,
// and meta-data is as it was. The whole first-boot script runs, on a tree of its
// own and with a curl that refuses once.
func TestFirstBootScrubs(t *testing.T) {
	tree := newFirstBootTree(t)
	root := tree.root
	if out, err := tree.run(); err != nil {
		t.Fatalf("first-boot script: %v\n%s", err, out)
	}

	check := func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(path, filepath.Join(root, "bin")) {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte(canary)) {
			t.Errorf("%s still holds the secret", path)
		}
		return err
	}
	if err := filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error { return check(path, d, err) }); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"cloud/seed/nocloud/meta-data": "instance-id: i-1\n", "cloud/instances/i-1/datasource": "NoCloud\n",
		"cloud/seed/nocloud/user-data": "#cloud-config\n{}\n", "cloud/seed/nocloud/vendor-data": "#cloud-config\n{}\n",
		"posted": `{"instanceID":"` + instanceID + `","hostname":"node","addresses":["10.0.0.2","2001:db8::2"],"bootID":"` + bootID(t) + `"}`,
	} {
		got, err := os.ReadFile(filepath.Join(root, name))
		if err != nil || string(got) != want {
			t.Errorf("%s = %q, error %v; want %q", name, got, err, want)
		}
	}
	if _, err := os.Stat(filepath.Join(root, "ingot")); !os.IsNotExist(err) {
		t.Error("the script leaves itself or its token behind")
	}
}

// The addresses that are reported are those of NICs and of what is made of them: when
// Ingot was away for long, those of Pods and Services are there too.
func TestFirstBootReportsItsOwnAddresses(t *testing.T) {
	pods := "3: docker0 inet 172.17.0.1/16\n4: cni0 inet 10.244.1.1/24\n5: flannel.1 inet 10.244.1.0/32\n6: kube-ipvs0 inet 10.96.0.1/32\n6: kube-ipvs0 inet 10.96.0.10/32\n7: vip inet 192.0.2.50/32\n"
	for name, tc := range map[string]struct{ has, want string }{
		"a NIC":                  {"2: eth0 inet 192.0.2.7/24\n2: eth0 inet6 2001:db8::7/64\n", `"192.0.2.7","2001:db8::7"`},
		"a NIC, Pods, Services":  {"2: eth0 inet 192.0.2.7/24\n" + pods, `"192.0.2.7"`},
		"a VLAN on a bond":       {"8: bond0 inet 198.51.100.7/24\n9: bond0.120 inet 192.0.2.7/24\n" + pods, `"198.51.100.7","192.0.2.7"`},
		"a bridge with that":     {pods + "10: br-ex inet 192.0.2.7/24\n", `"192.0.2.7"`},
		"a team":                 {"11: team0 inet 192.0.2.7/24\n" + pods, `"192.0.2.7"`},
		"routed to the loopback": {"1: lo inet 192.0.2.7/32\n2: eth0 inet 198.51.100.7/31\n" + pods, `"192.0.2.7","198.51.100.7"`},
		"of nothing known":       {"12: ovs inet 192.0.2.7/24\n4: cni0 inet 10.244.1.1/24\n", `"192.0.2.7","10.244.1.1"`},
		"none":                   {"", ""},
	} {
		t.Run(name, func(t *testing.T) {
			tree := newFirstBootTree(t)
			tree.write("bin/ip", "#!/bin/sh\nprintf '"+strings.ReplaceAll(tc.has, "\n", `\n`)+"'\n")
			for _, nic := range []string{"docker0", "kube-ipvs0", "veth1"} {
				tree.nic(nic, "")
			}
			tree.nic("ovs", "")
			tree.nic("bond0", "bond", "eth1", "eth2")
			tree.nic("bond0.120", "vlan", "bond0")
			tree.nic("br-ex", "bridge", "veth1", "bond0.120")
			tree.nic("team0", "", "eth1")
			tree.nic("cni0", "bridge", "veth1")
			tree.nic("flannel.1", "vxlan", "eth0") // over a NIC, and its addresses are Pods'
			tree.nic("vip", "macvlan", "eth0")
			if out, err := tree.run(); err != nil || strings.Contains(out, "/sys/") {
				t.Fatalf("first-boot script: %v\n%s", err, out)
			}
			posted, err := os.ReadFile(filepath.Join(tree.root, "posted"))
			if want := `"addresses":[` + tc.want + `],`; err != nil || !strings.Contains(string(posted), want) {
				t.Errorf("%s, error %v; want %s", posted, err, want)
			}
		})
	}
}

// nic adds what the kernel tells of an interface that is no NIC itself.
func (f *firstBootTree) nic(name, kind string, below ...string) {
	f.t.Helper()
	uevent := "INTERFACE=" + name + "\n"
	if kind != "" {
		uevent = "DEVTYPE=" + kind + "\n" + uevent
	}
	f.write("sys/net/"+name+"/uevent", uevent)
	for _, other := range below {
		if err := os.Symlink("../"+other, filepath.Join(f.root, "sys/net", name, "lower_"+other)); err != nil {
			f.t.Fatal(err)
		}
	}
}

// stubs stand for what would touch the machine that the test runs on. curl fails
// the first time, so that the report is seen to be repeated.
func stubs(t *testing.T, write func(name, text string)) {
	t.Helper()
	for name, body := range map[string]string{
		"fstrim": "exit 0",
		"sync":   "exit 0",
		"sleep":  "exit 0",
		"uname":  "echo node",
		"ip":     `printf '2: eth0 inet 10.0.0.2/24 scope global eth0\n2: eth0 inet6 2001:db8::2/64 scope global\n'`,
		"curl":   `[ -e "$ROOT/once" ] || { : > "$ROOT/once"; exit 7; }; cat > "$ROOT/posted"`,
	} {
		write("bin/"+name, "#!/bin/sh\n"+body+"\n")
	}
}

func bootID(t *testing.T) string {
	t.Helper()
	id, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(id))
}
