// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ignition

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"

	"github.com/ingot-metal/ingot/test/needs"
)

var update = flag.Bool("update", false, "write the golden files anew")

var additions = Additions{
	Hostname: "server-1",
	Metadata: map[string]string{"INGOT_PROVIDER_ID": "ingot://dc1/server-1/0d7c1c0c", "INGOT_HOSTNAME": "server-1"},
	Script:   "#!/bin/sh\necho report\n",
}

// validate has Ignition's own validator read a configuration, as strictly as it can.
func validate(t *testing.T, config []byte) error {
	t.Helper()
	program, err := needs.Tools(t, "ignition-validate").Binary("ignition-validate")
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, "-")
	cmd.Stdin = bytes.NewReader(config)
	out, err := cmd.CombinedOutput()
	if err != nil {
		return errors.New(strings.TrimSpace(string(out)))
	}
	if len(bytes.TrimSpace(out)) > 0 {
		t.Logf("ignition-validate: %s", out)
	}
	return nil
}

// unwrap returns the data inside the wrapper.
func unwrap(t *testing.T, wrapped []byte) []byte {
	t.Helper()
	var c config
	if err := json.Unmarshal(wrapped, &c); err != nil {
		t.Fatal(err)
	}
	if c.Ignition.Config == nil || len(c.Ignition.Config.Merge) != 1 {
		t.Fatalf("the wrapper merges %+v", c.Ignition.Config)
	}
	coded, ok := strings.CutPrefix(c.Ignition.Config.Merge[0].Source, "data:;base64,")
	inner, err := base64.StdEncoding.DecodeString(coded)
	if !ok || err != nil {
		t.Fatalf("the wrapper merges %.40q: %v", c.Ignition.Config.Merge[0].Source, err)
	}
	return inner
}

// kubeadm is what Cluster API's own code makes of a worker with most of what a
// KubeadmConfig of format ignition may have.
func kubeadm(t *testing.T) []byte {
	t.Helper()
	enabled, overwrite := true, true
	data, _, err := ignition.NewNode(&ignition.NodeInput{
		NodeInput: &cloudinit.NodeInput{
			JoinConfiguration: "apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\n",
			BaseUserData: cloudinit.BaseUserData{
				PreKubeadmCommands:  []string{"echo before"},
				PostKubeadmCommands: []string{"echo after"},
				AdditionalFiles: []bootstrapv1.File{
					{Path: "/etc/plain", Content: "plain text\n", Permissions: "0640", Owner: "root:root"},
					{Path: "/etc/coded", Content: "aGVsbG8K", Encoding: bootstrapv1.Base64, Permissions: "0600"},
				},
				Users: []bootstrapv1.User{{Name: "core", SSHAuthorizedKeys: []string{"ssh-ed25519 AAAA core"}, Groups: "sudo, docker", Sudo: "ALL=(ALL) NOPASSWD:ALL"}},
				NTP:   &bootstrapv1.NTP{Enabled: &enabled, Servers: []string{"192.0.2.1"}},
				DiskSetup: &bootstrapv1.DiskSetup{
					Partitions:  []bootstrapv1.Partition{{Device: "/dev/sdb", Layout: &enabled, Overwrite: &overwrite}},
					Filesystems: []bootstrapv1.Filesystem{{Device: "/dev/sdb1", Filesystem: "ext4", Label: "etcd_disk", Overwrite: &overwrite}},
				},
				Mounts: []bootstrapv1.MountPoints{{"etcd_disk", "/var/lib/etcd"}},
			},
		},
		Ignition: &bootstrapv1.IgnitionSpec{ContainerLinuxConfig: bootstrapv1.ContainerLinuxConfig{AdditionalConfig: `
systemd:
  units:
  - name: kubeadm.service
    dropins:
    - name: 10-after.conf
      contents: |
        [Unit]
        After=containerd.service
networkd:
  units:
  - name: 10-static.network
    contents: |
      [Match]
      Name=eth1
`}},
	})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// TestKubeadmProvider: Ignition refuses what the kubeadm provider writes, and takes what
// becomes of it, wrapper and data.
func TestKubeadmProvider(t *testing.T) {
	data := kubeadm(t)
	if err := validate(t, data); err == nil || !strings.Contains(err.Error(), "unsupported config version") {
		t.Errorf("Ignition says %v to the provider's own data: if it takes that now, no translation is needed", err)
	}
	wrapped, err := Config(data, additions)
	if err != nil {
		t.Fatal(err)
	}
	inner := unwrap(t, wrapped)
	for name, config := range map[string][]byte{"wrapper": wrapped, "data": inner} {
		if err := validate(t, config); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	var indented bytes.Buffer
	if err := json.Indent(&indented, inner, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden := filepath.Join("testdata", "kubeadm.json")
	if *update {
		if err := os.WriteFile(golden, indented.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), indented.String()); diff != "" {
		t.Error(diff)
	}
}

// What version 2 says that the kubeadm provider does not, in version 3.
func TestTranslate(t *testing.T) {
	for name, c := range map[string]struct{ in, want string }{
		"an old unit": {
			`"systemd":{"units":[{"name":"a.service","enable":true}]}`,
			`"systemd":{"units":[{"name":"a.service","enabled":true}]}`,
		},
		"the later of two files": {
			`"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"data:,1"}},{"filesystem":"root","path":"/a","overwrite":false,"mode":384,"contents":{"source":"data:,2"}}]}`,
			`"storage":{"files":[{"path":"/a","overwrite":false,"contents":{"source":"data:,2"},"mode":384}]}`,
		},
		"an empty file": {
			`"storage":{"files":[{"filesystem":"root","path":"/a"}]}`,
			`"storage":{"files":[{"path":"/a","overwrite":true,"contents":{"source":"data:,"}}]}`,
		},
		"two additions to a file": {
			`"storage":{"files":[{"filesystem":"root","path":"/a","append":true,"contents":{"source":"data:,1"}},{"filesystem":"root","path":"/a","append":true,"mode":420,"contents":{"source":"data:,2","verification":{}}}]}`,
			`"storage":{"files":[{"path":"/a","append":[{"source":"data:,1"},{"source":"data:,2","verification":{}}],"mode":420}]}`,
		},
		"a directory, links, an array and a partition": {
			`"storage":{"directories":[{"filesystem":"root","path":"/d","mode":493,"user":{"id":1}}],"links":[{"filesystem":"root","path":"/l","target":"/d"}],"raid":[{"name":"r","level":"raid1","devices":["/dev/sda","/dev/sdb"]}],"disks":[{"device":"/dev/sda","wipeTable":true,"partitions":[{"sizeMiB":1},{"label":"x"}]}]}`,
			`"storage":{"directories":[{"path":"/d","user":{"id":1},"mode":493}],"disks":[{"device":"/dev/sda","partitions":[{"number":1,"sizeMiB":1},{"label":"x"}],"wipeTable":true}],"links":[{"path":"/l","target":"/d"}],"raid":[{"name":"r","level":"raid1","devices":["/dev/sda","/dev/sdb"]}]}`,
		},
		"partitions without numbers among such that have one": {
			`"storage":{"disks":[{"device":"/dev/sda","wipeTable":true,"partitions":[{"number":2},{},{"label":"x"},{"sizeMiB":1}]}]}`,
			`"storage":{"disks":[{"device":"/dev/sda","partitions":[{"number":2},{"number":1},{"label":"x"},{"number":4,"sizeMiB":1}],"wipeTable":true}]}`,
		},
		"paths that are not clean": {
			`"storage":{"directories":[{"filesystem":"root","path":"/d/"}],"files":[{"filesystem":"root","path":"/d//a"},{"filesystem":"root","path":"/d/./a","contents":{"source":"data:,2"}}]}`,
			`"storage":{"directories":[{"path":"/d"}],"files":[{"path":"/d/a","overwrite":true,"contents":{"source":"data:,2"}}]}`,
		},
		"a key, a group and a drop-in twice": {
			`"passwd":{"users":[{"name":"u","groups":["a","b","a"],"sshAuthorizedKeys":["k","k"]}]},"systemd":{"units":[{"name":"a.service","dropins":[{"name":"1.conf","contents":"[Unit]"},{"name":"1.conf","contents":"[Service]"}]}]}`,
			`"passwd":{"users":[{"groups":["a","b"],"name":"u","sshAuthorizedKeys":["k"]}]},"systemd":{"units":[{"name":"a.service","dropins":[{"name":"1.conf","contents":"[Service]"}]}]}`,
		},
		"a networkd unit with a drop-in": {
			`"networkd":{"units":[{"name":"a.network","contents":"[Match]","dropins":[{"name":"1.conf","contents":"[Network]"}]}]}`,
			`"storage":{"files":[{"path":"/etc/systemd/network/a.network","overwrite":true,"contents":{"source":"data:;base64,W01hdGNoXQ=="},"mode":420},{"path":"/etc/systemd/network/a.network.d/1.conf","overwrite":true,"contents":{"source":"data:;base64,W05ldHdvcmtd"},"mode":420}]}`,
		},
		"two entries for a unit": {
			`"systemd":{"units":[{"name":"a.service","contents":"[Unit]","enabled":true,"dropins":[{"name":"1.conf","contents":"[Unit]"}]},{"name":"a.service","mask":true,"enabled":false,"dropins":[{"name":"1.conf","contents":"[Service]"}]}]}`,
			`"systemd":{"units":[{"name":"a.service","enabled":false,"mask":true,"contents":"[Unit]","dropins":[{"name":"1.conf","contents":"[Service]"}]}]}`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := translate([]byte(`{"ignition":{"version":"2.2.0"},` + c.in + `}`))
			if err != nil {
				t.Fatal(err)
			}
			if err := validate(t, got); err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(`{"ignition":{"version":"3.1.0"},`+c.want+`}`, string(got)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Version 3 is left as it is, and Ingot's part does not stand over it.
func TestVersion3(t *testing.T) {
	data := []byte(`{"ignition":{"version":"3.4.0"},"storage":{"files":[{"path":"/etc/hostname","contents":{"source":"data:,mine"}}]},"unknown":1}`)
	wrapped, err := Config(data, additions)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(data), string(unwrap(t, wrapped))); diff != "" {
		t.Error(diff)
	}
	if err := validate(t, wrapped); err != nil {
		t.Error(err)
	}
	var c config
	if err := json.Unmarshal(wrapped, &c); err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range c.Storage.Files {
		b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(f.Contents.Source, "data:;base64,"))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Path] = string(b)
	}
	want := map[string]string{
		"/etc/hostname": "server-1\n", "/var/lib/ingot/seed.sh": additions.Script,
		"/etc/ingot/metadata": "INGOT_HOSTNAME=server-1\nINGOT_PROVIDER_ID=ingot://dc1/server-1/0d7c1c0c\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestRefused(t *testing.T) {
	const canary = "hunter2"
	for name, c := range map[string]struct{ in, want string }{
		"Butane":           {"variant: fcos\nversion: 1.5.0\npassword: " + canary, "not JSON"},
		"no version":       {`{"ignition":{}}`, `ignition.version ""`},
		"version 1":        {`{"ignitionVersion":1}`, `ignition.version ""`},
		"version 4":        {`{"ignition":{"version":"4.0.0"}}`, `"4.0.0"`},
		"a field of later": {`{"ignition":{"version":"2.3.0"},"kernelArguments":{"shouldExist":["` + canary + `"]}}`, `unknown field "kernelArguments"`},
		"a wrong value":    {`{"ignition":{"version":"2.3.0"},"passwd":{"users":[{"name":"a","uid":"` + canary + `"}]}}`, "passwd.users.uid is not of type int"},
		"another file system": {
			`{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"data","path":"/a","contents":{"source":"data:,` + canary + `"}}]}}`,
			`/a is on file system "data"`,
		},
		"a directory elsewhere": {`{"ignition":{"version":"2.3.0"},"storage":{"directories":[{"filesystem":"oem","path":"/d"}]}}`, `/d is on file system "oem"`},
		"a link elsewhere":      {`{"ignition":{"version":"2.3.0"},"storage":{"links":[{"filesystem":"oem","path":"/l","target":"/a"}]}}`, `/l is on file system "oem"`},
		"a mounted file system": {`{"ignition":{"version":"2.3.0"},"storage":{"filesystems":[{"name":"r","path":"/sysroot"}]}}`, `"r" has no mount`},
		"mount.create":          {`{"ignition":{"version":"2.3.0"},"storage":{"filesystems":[{"name":"r","mount":{"device":"/dev/sdb","format":"ext4","create":{"force":true}}}]}}`, "mount.create"},
		"sectors":               {`{"ignition":{"version":"2.0.0"},"storage":{"disks":[{"device":"/dev/sdb","partitions":[{"number":1,"size":2048}]}]}}`, "sizeMiB"},
		"a nameless partition":  {`{"ignition":{"version":"2.3.0"},"storage":{"disks":[{"device":"/dev/sdb","partitions":[{"sizeMiB":1}]}]}}`, "neither number nor label"},
		"other configurations":  {`{"ignition":{"version":"2.3.0","config":{"append":[{"source":"https://` + canary + `"}]}}}`, "names other configurations"},
		"user.create":           {`{"ignition":{"version":"2.0.0"},"passwd":{"users":[{"name":"a","create":{"uid":1}}]}}`, `user "a" has create`},
		"a user twice":          {`{"ignition":{"version":"2.3.0"},"passwd":{"users":[{"name":"a"},{"name":"a"}]}}`, `user "a" has two entries`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Config([]byte(c.in), Additions{})
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want ErrConfig and %q", err, c.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

// What version 3 refuses is refused by name (ErrDuplicate and others of its validator).
func TestRefusedByVersion3(t *testing.T) {
	const canary = "hunter2"
	for name, c := range map[string]struct{ in, want string }{
		"a directory twice":          {`"storage":{"directories":[{"filesystem":"root","path":"/d"},{"filesystem":"root","path":"/d/"}]}`, `path "/d" has two entries`},
		"a link twice":               {`"storage":{"links":[{"filesystem":"root","path":"/l","target":"/a"},{"filesystem":"root","path":"/l","target":"/b"}]}`, `path "/l" has two entries`},
		"a file that is a link":      {`"storage":{"files":[{"filesystem":"root","path":"/a"}],"links":[{"filesystem":"root","path":"/a","target":"/b"}]}`, `path "/a" has two entries`},
		"a file behind a link":       {`"storage":{"files":[{"filesystem":"root","path":"/l/a"}],"links":[{"filesystem":"root","path":"/l","target":"/b"}]}`, `/l/a leads through the link /l`},
		"a hard link to a directory": {`"storage":{"directories":[{"filesystem":"root","path":"/d"}],"links":[{"filesystem":"root","path":"/l","target":"/d","hard":true}]}`, `/l is a hard link to a directory`},
		"a relative path":            {`"storage":{"files":[{"filesystem":"root","path":"a"}]}`, `a is not an absolute path`},
		"a disk twice":               {`"storage":{"disks":[{"device":"/dev/sda","wipeTable":true},{"device":"/dev/sda"}]}`, `disk "/dev/sda" has two entries`},
		"a partition twice":          {`"storage":{"disks":[{"device":"/dev/sda","partitions":[{"number":1},{"number":1}]}]}`, `partition number 1 has two entries`},
		"a file system twice":        {`"storage":{"filesystems":[{"name":"a","mount":{"device":"/dev/sda1","format":"ext4"}},{"name":"b","mount":{"device":"/dev/sda1","format":"xfs"}}]}`, `file system of device "/dev/sda1" has two entries`},
		"an array twice":             {`"storage":{"raid":[{"name":"r","level":"raid1","devices":["/dev/sda"]},{"name":"r","level":"raid0","devices":["/dev/sdb"]}]}`, `array "r" has two entries`},
		"a group twice":              {`"passwd":{"groups":[{"name":"g"},{"name":"g"}]}`, `group "g" has two entries`},
		"a group without a name":     {`"passwd":{"groups":["` + canary + `"]}`, `group 0 has no name`},
		"a networkd unit twice":      {`"networkd":{"units":[{"name":"a.network","contents":"1"},{"name":"a.network","contents":"2"}]}`, `path "/etc/systemd/network/a.network" has two entries`},
		"a networkd unit and file":   {`"networkd":{"units":[{"name":"a.network","contents":"1"}]},"storage":{"files":[{"filesystem":"root","path":"/etc/systemd/network/a.network"}]}`, `has two entries`},
		"of the OEM partition":       {`"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"oem:///` + canary + `"}}]}`, `/a: its source has the unsupported scheme "oem"`},
		"added from there":           {`"storage":{"files":[{"filesystem":"root","path":"/a","append":true,"contents":{"source":"oem:///` + canary + `"}}]}`, `/a: its source has the unsupported scheme "oem"`},
		"from no URL":                {`"storage":{"files":[{"filesystem":"root","path":"/a","contents":{"source":"http://a b/` + canary + `"}}]}`, `/a: its source is not a URL`},
		"added and overwritten":      {`"storage":{"files":[{"filesystem":"root","path":"/a","append":true,"overwrite":true,"contents":{"source":"data:,1"}}]}`, `/a has append and overwrite`},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := Config([]byte(`{"ignition":{"version":"2.4.0"},`+c.in+`}`), Additions{})
			if !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("%v, want ErrConfig and %q", err, c.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error holds a value: %v", err)
			}
		})
	}
}

// FuzzConfig: whatever a Secret holds, what is handed on is JSON, or an error is.
func FuzzConfig(f *testing.F) {
	f.Add([]byte(`{"ignition":{"version":"2.3.0"},"storage":{"files":[{"filesystem":"root","path":"/a","append":true}],"filesystems":[{"mount":{"device":"a","format":"b"}}]}}`))
	f.Add([]byte(`{"ignition":{"version":"3.0.0"}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		out, err := Config(data, additions)
		if err == nil && !json.Valid(out) || err != nil && !errors.Is(err, ErrConfig) {
			t.Errorf("%v: %q", err, out)
		}
	})
}
