// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"debug/elf"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/klauspost/compress/zstd"
	"github.com/ulikunitz/xz"
)

// agentModules are the drivers in the agent image: network cards, disk controllers and file
// systems of virtual machines and common servers. Their dependencies are added. Firmware files are
// not free software and are not included. Cards that need one to work (bnx2, bnx2x) are omitted;
// cards that only lose features without one (ice, tg3) are included.
var agentModules = []string{
	// virtual machines
	"virtio_pci", "virtio_blk", "virtio_net", "virtio_scsi", "virtio_rng", "vmxnet3", "vmw_pvscsi", "e1000",
	// network cards
	"e1000e", "igb", "igc", "ixgbe", "i40e", "ice", "bnxt_en", "tg3", "mlx4_core", "mlx4_en", "mlx5_core",
	"r8169", "realtek", "be2net", "enic", "sfc", "atlantic", "cxgb4",
	// disk controllers
	"nvme", "vmd", "ahci", "ata_piix", "sd_mod", "megaraid_sas", "mpt3sas", "mpi3mr", "hpsa", "smartpqi", "aacraid",
	// file systems of installed systems, and the checksums that they request by name
	"ext4", "xfs", "crc32c_generic", "crc32c_intel",
}

// alongside are modules that a driver requests from the kernel when it finds a device. The agent
// has no modprobe to handle that, so these modules get the driver's aliases.
var alongside = map[string]string{"mlx4_en": "mlx4_core"}

// module is a kernel module file with its .modinfo section.
type module struct {
	name, path string
	depends    []string
	aliases    []string
	// softPre are modules to load first, by name or alias.
	softPre []string
}

// moduleSet is the content of /modules (see agent/kmod).
type moduleSet struct {
	modules []module
	order   string
	alias   string
}

// selectModules returns the wanted modules of a kernel with their dependencies. A name that is neither a
// module nor built in (modules.builtin) is an error.
func selectModules(dir string, wanted []string) (*moduleSet, error) {
	paths, err := modulePaths(dir)
	if err != nil {
		return nil, err
	}
	builtin, err := builtinModules(dir)
	if err != nil {
		return nil, err
	}
	found := map[string]module{}
	for todo := slices.Clone(wanted); len(todo) > 0; todo = todo[1:] {
		name := canonical(todo[0])
		if _, ok := found[name]; ok || builtin[name] {
			continue
		}
		path, ok := paths[name]
		if !ok {
			return nil, fmt.Errorf("the kernel has no module %s", name)
		}
		m, err := readModule(name, path)
		if err != nil {
			return nil, err
		}
		found[name] = m
		todo = append(todo, m.depends...)
	}
	return arrange(found), nil
}

// arrange returns the set with its lists sorted by name.
func arrange(found map[string]module) *moduleSet {
	names := make([]string, 0, len(found))
	for name := range found {
		names = append(names, name)
	}
	slices.Sort(names)
	set := &moduleSet{}
	var order, alias strings.Builder
	for _, name := range names {
		m := found[name]
		set.modules = append(set.modules, m)
		fmt.Fprintf(&order, "%s: %s\n", name, strings.Join(needs(m, found, names), " "))
		aliases := m.aliases
		if driver, ok := found[alongside[name]]; ok {
			aliases = append(slices.Clone(aliases), driver.aliases...)
		}
		for _, a := range aliases {
			// Only bus aliases have a colon; other aliases are requested by name.
			if strings.Contains(a, ":") {
				fmt.Fprintf(&alias, "alias %s %s\n", a, name)
			}
		}
	}
	set.order, set.alias = order.String(), alias.String()
	return set
}

// needs lists the modules to load before a module: first its soft dependencies, by name or (crypto)
// alias and with a question mark because they may fail, then its hard dependencies.
func needs(m module, found map[string]module, names []string) []string {
	var out []string
	for _, soft := range m.softPre {
		for _, name := range names {
			if name == canonical(soft) || slices.Contains(found[name].aliases, soft) ||
				slices.Contains(found[name].aliases, "crypto-"+soft) {
				out = append(out, "?"+name)
			}
		}
	}
	for _, dep := range m.depends {
		if _, ok := found[dep]; ok {
			out = append(out, dep)
		}
	}
	return slices.Compact(out)
}

func modulePaths(dir string) (map[string]string, error) {
	paths := map[string]string{}
	err := filepath.WalkDir(filepath.Join(dir, "kernel"), func(path string, d fs.DirEntry, err error) error {
		name, _, ok := strings.Cut(filepath.Base(path), ".ko")
		if ok && err == nil && !d.IsDir() {
			paths[canonical(name)] = path
		}
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("list the kernel's modules: %w", err)
	}
	return paths, nil
}

func builtinModules(dir string) (map[string]bool, error) {
	b, err := os.ReadFile(filepath.Join(dir, "modules.builtin"))
	if err != nil {
		return nil, err
	}
	builtin := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		builtin[canonical(strings.TrimSuffix(filepath.Base(strings.TrimSpace(line)), ".ko"))] = true
	}
	return builtin, nil
}

// canonical replaces dashes, because the kernel treats dashes and underscores in module names alike.
func canonical(name string) string { return strings.ReplaceAll(name, "-", "_") }

// readPlain reads a module file, which is compressed with xz in Debian 13, and plain in Debian 12.
func readPlain(path string) ([]byte, error) {
	data, err := os.ReadFile(path)
	if err != nil || strings.HasSuffix(path, ".ko") {
		return data, err
	}
	var in io.Reader
	switch filepath.Ext(path) {
	case ".xz":
		in, err = xz.NewReader(bytes.NewReader(data))
	case ".zst":
		in, err = zstd.NewReader(bytes.NewReader(data))
	default:
		err = errors.New("unknown compression")
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	if data, err = io.ReadAll(in); err != nil {
		return nil, fmt.Errorf("decompress %s: %w", path, err)
	}
	return data, nil
}

func readModule(name, path string) (module, error) {
	content, err := readPlain(path)
	if err != nil {
		return module{}, fmt.Errorf("read module %s: %w", name, err)
	}
	f, err := elf.NewFile(bytes.NewReader(content))
	if err != nil {
		return module{}, fmt.Errorf("read module %s: %w", name, err)
	}
	defer f.Close()
	section := f.Section(".modinfo")
	if section == nil {
		return module{}, fmt.Errorf("read module %s: no .modinfo", name)
	}
	data, err := section.Data()
	if err != nil {
		return module{}, fmt.Errorf("read module %s: %w", name, err)
	}
	m := parseModinfo(data)
	m.name, m.path = name, path
	return m, nil
}

// parseModinfo parses the zero-terminated strings "key=value" of the section.
func parseModinfo(data []byte) module {
	var m module
	for _, entry := range bytes.Split(data, []byte{0}) {
		key, value, _ := strings.Cut(string(entry), "=")
		switch key {
		case "depends":
			for _, dep := range strings.FieldsFunc(value, func(r rune) bool { return r == ',' }) {
				m.depends = append(m.depends, canonical(dep))
			}
		case "alias":
			m.aliases = append(m.aliases, value)
		case "softdep":
			pre, _, _ := strings.Cut(value, "post:")
			if names, ok := strings.CutPrefix(strings.TrimSpace(pre), "pre:"); ok {
				m.softPre = append(m.softPre, strings.Fields(names)...)
			}
		}
	}
	return m
}
