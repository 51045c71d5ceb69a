// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package seed

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/diskfs/go-diskfs/backend/file"
	"github.com/diskfs/go-diskfs/partition/gpt"
	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
)

var data = agentapi.Bootstrap{UserData: "#cloud-config\n", MetaData: "instance-id: i1-1\n", VendorData: "#cloud-config\n{}\n",
	NetworkConfig: "version: 2\n"}

var errUnread = errors.New("input/output error")

// broken fails every read.
type broken struct{}

func (broken) ReadAt([]byte, int64) (int, error) { return 0, errUnread }

func openRoot(t *testing.T) (*os.Root, string) {
	t.Helper()
	dir := t.TempDir()
	root, err := os.OpenRoot(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = root.Close() })
	return root, dir
}

func TestWrite(t *testing.T) {
	for name, prepare := range map[string]func(dir string) error{
		"an empty system": func(string) error { return nil },
		"an old seed with more files and wide modes": func(dir string) error {
			old := filepath.Join(dir, Dir)
			if err := os.MkdirAll(old, 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(old, "network-config"), []byte("old"), 0o666); err != nil {
				return err
			}
			if err := os.MkdirAll(filepath.Join(dir, configDir), 0o777); err != nil {
				return err
			}
			if err := os.WriteFile(filepath.Join(dir, ConfigFile), []byte("datasource_list: [Ec2]"), 0o666); err != nil {
				return err
			}
			return os.WriteFile(filepath.Join(old, "user-data"), []byte("old and longer than the new one"), 0o666)
		},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openRoot(t)
			if err := prepare(dir); err != nil {
				t.Fatal(err)
			}
			if err := Write(root, data); err != nil {
				t.Fatal(err)
			}
			want := map[string]string{
				"user-data": data.UserData.Reveal(), "meta-data": data.MetaData, "vendor-data": data.VendorData.Reveal(),
				"network-config": data.NetworkConfig,
			}
			got := map[string]string{}
			entries, err := os.ReadDir(filepath.Join(dir, Dir))
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				info, err := e.Info()
				if err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%s: mode %v, %v", e.Name(), info.Mode(), err)
				}
				b, err := os.ReadFile(filepath.Join(dir, Dir, e.Name()))
				if err != nil {
					t.Fatal(err)
				}
				got[e.Name()] = string(b)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
			if info, err := os.Stat(filepath.Join(dir, Dir)); err != nil || info.Mode().Perm() != 0o700 {
				t.Errorf("directory: %v, %v", info.Mode(), err)
			}
			if text, err := os.ReadFile(filepath.Join(dir, ConfigFile)); err != nil || string(text) != onlyThisSeed {
				t.Errorf("%s: %q, %v", ConfigFile, text, err)
			}
		})
	}
}

// Without a network configuration there must be no file, not even an older one.
func TestWriteWithoutNetworkConfig(t *testing.T) {
	root, dir := openRoot(t)
	if err := Write(root, data); err != nil {
		t.Fatal(err)
	}
	without := data
	without.NetworkConfig = ""
	if err := Write(root, without); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, Dir, "network-config")); !os.IsNotExist(err) {
		t.Errorf("network-config: %v, want none", err)
	}
}

// Symbolic links in the image must not lead into the agent's file system.
func TestLinksOutOfTheImageAreRefused(t *testing.T) {
	outside := t.TempDir()
	for _, link := range []string{"var", "var/lib", "var/lib/cloud", "var/lib/cloud/seed", "etc", "etc/cloud/cloud.cfg.d"} {
		t.Run(link, func(t *testing.T) {
			root, dir := openRoot(t)
			if err := os.MkdirAll(filepath.Join(dir, filepath.Dir(link)), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.Symlink(outside, filepath.Join(dir, link)); err != nil {
				t.Fatal(err)
			}
			if err := Write(root, data); err == nil {
				t.Error("followed a link out of the image")
			}
			if entries, err := os.ReadDir(outside); err != nil || len(entries) != 0 {
				t.Errorf("written outside: %v, %v", entries, err)
			}
		})
	}
}

func TestFileSystem(t *testing.T) {
	at := func(off int, magic string) []byte {
		b := make([]byte, 4096)
		copy(b[off:], magic)
		return b
	}
	for name, tc := range map[string]struct {
		in   []byte
		want string
	}{
		"ext4":      {at(1080, "\x53\xef"), "ext4"},
		"xfs":       {at(0, "XFSB"), "xfs"},
		"vfat":      {at(54, "FAT16   "), ""},
		"empty":     {make([]byte, 4096), ""},
		"too small": {[]byte("X"), ""},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := fileSystem(bytes.NewReader(tc.in)); got != tc.want || err != nil {
				t.Errorf("%q, %v, want %q", got, err, tc.want)
			}
		})
	}
	// A read error does not mean that there is no file system.
	if got, err := fileSystem(broken{}); !errors.Is(err, errUnread) {
		t.Errorf("%q of a broken partition", got)
	}
}

func TestGPTTypes(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		f, err := os.Create(filepath.Join(t.TempDir(), "disk"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		const size = 64 << 20
		if err := f.Truncate(size); err != nil {
			t.Fatal(err)
		}
		first := uint64(1 << 20 / sector)
		table := &gpt.Table{LogicalSectorSize: sector, PhysicalSectorSize: sector, ProtectiveMBR: true, Partitions: []*gpt.Partition{
			{Index: 1, Start: first, End: 2*first - 1, Type: gpt.EFISystemPartition},
			{Index: 3, Start: 2 * first, End: 3*first - 1, Type: gpt.LinuxRootX86_64},
		}}
		target, err := file.New(f, false).Writable()
		if err != nil {
			t.Fatal(err)
		}
		if err := table.Write(target, size); err != nil {
			t.Fatal(err)
		}
		types := gptTypes(f, int64(sector))
		if len(types) != 2 || rootTypes[types[1]] || !rootTypes[types[3]] {
			t.Errorf("sector %d: types %x", sector, types)
		}
		if other := gptTypes(f, int64(4096+512-sector)); other != nil {
			t.Errorf("sector %d: found a table with the wrong sector size: %x", sector, other)
		}
	}
}

func TestCheckMDADM(t *testing.T) {
	for name, c := range map[string]struct {
		file string
		want error
	}{
		"Debian": {"usr/sbin/mdadm", nil}, "an older one": {"sbin/mdadm", nil}, "one directory of programs": {"usr/bin/mdadm", nil},
		"only its configuration": {"etc/mdadm.conf", ErrNoAssembly}, "only its documentation": {"usr/share/doc/mdadm", ErrNoAssembly},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openRoot(t)
			path := filepath.Join(dir, c.file)
			if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, nil, 0o755)); err != nil {
				t.Fatal(err)
			}
			if err := checkMDADM(root); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}

func FuzzGPTTypes(f *testing.F) {
	f.Add(append(make([]byte, 512), "EFI PART"...), int64(512))
	f.Fuzz(func(_ *testing.T, b []byte, sector int64) {
		if sector == 512 || sector == 4096 {
			gptTypes(bytes.NewReader(b), sector)
		}
	})
}

// The format determines the files. Unsupported data fails.
func TestTargetFor(t *testing.T) {
	const config = `{"ignition":{"version":"3.4.0"}}`
	for _, c := range []struct {
		name string
		data agentapi.Bootstrap
		err  error
		want map[string]string
	}{
		{"no format", agentapi.Bootstrap{UserData: "#cloud-config\n"}, nil, map[string]string{Dir + "/user-data": "#cloud-config\n"}},
		{"cloud-config", agentapi.Bootstrap{Format: "cloud-config", UserData: "#cloud-config\n"}, nil, map[string]string{Dir + "/user-data": "#cloud-config\n"}},
		{"Ignition", agentapi.Bootstrap{Format: "ignition", UserData: config, MetaData: "unused"}, nil, map[string]string{"ignition/config.ign": config}},
		{"Ignition with network data", agentapi.Bootstrap{Format: "ignition", UserData: config, NetworkConfig: "version: 2\n"}, ErrFormat, nil},
		{"another format", agentapi.Bootstrap{Format: "kickstart"}, ErrFormat, nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			to, err := targetFor(c.data)
			if !errors.Is(err, c.err) {
				t.Fatalf("error %v, want %v", err, c.err)
			}
			if err != nil {
				return
			}
			root, dir := openRoot(t)
			if err := os.MkdirAll(filepath.Join(dir, "ignition"), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "ignition/config.ign"), []byte("old"), 0o644); err != nil {
				t.Fatal(err)
			}
			if err := to.write(root, c.data); err != nil {
				t.Fatal(err)
			}
			for name, want := range c.want {
				got, err := os.ReadFile(filepath.Join(dir, name))
				if diff := cmp.Diff(want, string(got)); diff != "" || err != nil {
					t.Error(err, diff)
				}
				if info, err := os.Stat(filepath.Join(dir, name)); err != nil || info.Mode().Perm() != 0o600 {
					t.Errorf("%v, %v", info.Mode(), err)
				}
			}
		})
	}
}

func TestIsIgnitionBoot(t *testing.T) {
	for name, c := range map[string]struct {
		prepare func(dir string) error
		want    bool
	}{
		"empty":       {func(string) error { return nil }, false},
		"first boot":  {func(dir string) error { return os.WriteFile(filepath.Join(dir, "ignition.firstboot"), nil, 0o600) }, true},
		"a directory": {func(dir string) error { return os.Mkdir(filepath.Join(dir, "ignition.firstboot"), 0o700) }, false},
		"a link":      {func(dir string) error { return os.Symlink("/etc/passwd", filepath.Join(dir, "ignition.firstboot")) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			root, dir := openRoot(t)
			if err := c.prepare(dir); err != nil {
				t.Fatal(err)
			}
			if got := isIgnitionBoot(root); got != c.want {
				t.Errorf("%t, want %t", got, c.want)
			}
		})
	}
}
