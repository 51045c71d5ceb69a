// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cloudinit

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/agent/seed"
	"github.com/ingot-metal/ingot/agentapi"
)

// noCloud runs Debian's own DataSourceNoCloud on the configuration below a root, where a volume
// labeled CIDATA lies on another device. Of cloud-init only the list of devices, the mount and
// the SMBIOS are replaced, which are this machine's.
const noCloud = `
import json, sys
from cloudinit import dmi, helpers, util
from cloudinit.sources import DataSourceNoCloud

root, volume = sys.argv[1:]
util.find_devs_with = lambda criteria=None, *args, **options: ["/dev/sdz1"]
util.mount_cb = lambda device, callback, data=None, *args, **options: callback(volume, data)
dmi.read_dmi_data = lambda key: None
config = util.read_conf_with_confd(root + "/etc/cloud/cloud.cfg")
paths = helpers.Paths({"cloud_dir": root + "/var/lib/cloud", "run_dir": root + "/run"})
source = DataSourceNoCloud.DataSourceNoCloud(config, None, paths)
print(json.dumps({
    "found": source._get_data(), "list": config["datasource_list"], "instance": source.get_instance_id(),
    "user": util.decode_binary(source.userdata_raw), "network": source.network_config,
}))
`

// seeded writes the seed as the agent does, on a system with cloud-init's own configuration and
// files of an image that say otherwise.
func seeded(t *testing.T) (root string) {
	t.Helper()
	root = t.TempDir()
	write(t, filepath.Join(root, "etc/cloud/cloud.cfg"), "datasource_list: [ConfigDrive, NoCloud, Ec2]\n")
	write(t, filepath.Join(root, "etc/cloud/cloud.cfg.d/90_dpkg.cfg"), "datasource_list: [ NoCloud, ConfigDrive, OpenStack, None ]\n")
	write(t, filepath.Join(root, "etc/cloud/cloud.cfg.d/zz_image.cfg"), "datasource_list: [ ConfigDrive, NoCloud ]\ndatasource: {NoCloud: {fs_label: cidata}}\n")
	dir, err := os.OpenRoot(root)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = dir.Close() }()
	if err := seed.Write(dir, agentapi.Bootstrap{
		UserData: "#cloud-config\nhostname: own\n", MetaData: "instance-id: own\n", NetworkConfig: "version: 2\nethernets: {}\n",
	}); err != nil {
		t.Fatal(err)
	}
	return root
}

// A volume labeled CIDATA on another device changes nothing of what the system reads: neither
// with the seed of an install, nor with the image's own files next to it. Without the file that
// the agent writes, the volume wins, which shows that this test can fail.
func TestForeignVolumesAreNoSeed(t *testing.T) {
	run := cloudInit(t)
	volume := t.TempDir()
	write(t, filepath.Join(volume, "user-data"), "#cloud-config\nhostname: foreign\n")
	write(t, filepath.Join(volume, "meta-data"), "instance-id: foreign\n")
	write(t, filepath.Join(volume, "network-config"), "version: 2\nethernets: {foreign: {}}\n")
	type result struct {
		Found          bool
		List           []string
		Instance, User string
		Network        map[string]any
	}
	read := func(root string) (r result) {
		out, err := run("", "-c", noCloud, root, volume)
		if err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		if err := json.Unmarshal([]byte(lines[len(lines)-1]), &r); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		return r
	}
	root := seeded(t)
	got := read(root)
	if !got.Found || got.Instance != "own" || !strings.Contains(got.User, "hostname: own") || len(got.Network["ethernets"].(map[string]any)) != 0 {
		t.Errorf("with the agent's file: %+v", got)
	}
	if !slices.Equal(got.List, []string{"NoCloud", "None"}) {
		t.Errorf("sources are %v", got.List)
	}
	if err := os.Remove(filepath.Join(root, seed.ConfigFile)); err != nil {
		t.Fatal(err)
	}
	if got := read(root); !strings.Contains(got.User, "hostname: foreign") {
		t.Errorf("without the agent's file the volume does not win: %+v", got)
	}
}

// ds-identify, which chooses the source before cloud-init starts, takes the same one although
// there is a config drive.
func TestIdentifiesTheSeedOnly(t *testing.T) {
	run := cloudInit(t)
	out, err := run("", "-c", "import cloudinit, os; print(os.path.realpath(cloudinit.__path__[0] + '/../../../../..'))")
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := seeded(t)
	write(t, filepath.Join(root, "var/lib/cloud/seed/config_drive/openstack/latest/meta_data.json"), "{}")
	cmd := exec.Command(filepath.Join(strings.TrimSpace(out), "usr/lib/cloud-init/ds-identify"), "--force")
	cmd.Env = append(os.Environ(), "PATH_ROOT="+root, "DEBUG_LEVEL=1", "DI_LOG=stderr")
	said, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, said)
	}
	chosen, err := os.ReadFile(filepath.Join(root, "run/cloud-init/cloud.cfg"))
	if err != nil || strings.TrimSpace(string(chosen)) != "datasource_list: [ NoCloud, None ]" && strings.TrimSpace(string(chosen)) != "datasource_list: [ NoCloud ]" {
		t.Errorf("%q, %v\n%s", chosen, err, said)
	}
}
