// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package probe

import (
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
)

// Read returns all facts except disks (see Disks). Facts that cannot be read are empty. Read
// fails only if the processors cannot be read, since /proc is then unusable.
func Read(root fs.FS) (agentapi.Hardware, error) {
	cpuinfo, err := fs.ReadFile(root, "proc/cpuinfo")
	if err != nil {
		return agentapi.Hardware{}, fmt.Errorf("read the processors: %w", err)
	}
	h := agentapi.Hardware{
		UUID:         meaningful(strings.ToLower(text(root, dmi+"product_uuid"))),
		Serial:       meaningful(text(root, dmi+"product_serial")),
		Manufacturer: meaningful(text(root, dmi+"sys_vendor")),
		Product:      meaningful(text(root, dmi+"product_name")),
		Firmware:     "BIOS",
		Architecture: runtime.GOARCH,
		CPU:          parseCPU(string(cpuinfo)),
		MemoryBytes:  memory(root),
		NICs:         nics(root),

		StorageWithoutDriver: StorageWithoutDriver(root),
	}
	if _, err := fs.Stat(root, "sys/firmware/efi"); err == nil {
		h.Firmware = "UEFI"
	}
	return h, nil
}

const dmi = "sys/class/dmi/id/"

// placeholders match the values of SMBIOS fields that vendors did not fill.
var placeholders = regexp.MustCompile(`(?i)^(to be filled by o\.?e\.?m\.?|default string|not specified|not applicable|` +
	`none|n/?a|unknown|system serial number|system manufacturer|system product name|0123456789|[0.\-]+|[fF\-]{8,}|x+)$`)

func meaningful(s string) string {
	if placeholders.MatchString(s) {
		return ""
	}
	return s
}

// text returns the trimmed content of a small file; "" on error.
func text(root fs.FS, name string) string {
	b, err := fs.ReadFile(root, name)
	if err != nil {
		return ""
	}
	return strings.Trim(string(b), " \t\r\n\x00")
}

func number(root fs.FS, name string) int64 {
	n, err := strconv.ParseInt(text(root, name), 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// link returns the target of a symbolic link, as a path in root.
func link(root fs.FS, name string) string {
	target, err := fs.ReadLink(root, name)
	if err != nil {
		return ""
	}
	if path.IsAbs(target) {
		return strings.TrimPrefix(path.Clean(target), "/")
	}
	return path.Join(path.Dir(name), target)
}

// parseCPU evaluates /proc/cpuinfo. Without topology (some virtual machines) every thread
// counts as a core of one socket.
func parseCPU(cpuinfo string) agentapi.CPU {
	var cpu agentapi.CPU
	cores := map[string]int32{} // by socket
	socket := "0"
	for line := range strings.Lines(cpuinfo) {
		key, value, _ := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		switch strings.TrimSpace(key) {
		case "processor":
			cpu.Threads++
			socket = "0"
		case "model name":
			cpu.Model = strings.Join(strings.Fields(value), " ")
		case "physical id":
			socket = value
			cores[socket] += 0
		case "cpu cores":
			if n, err := strconv.ParseInt(value, 10, 32); err == nil {
				cores[socket] = int32(n)
			}
		}
	}
	for _, n := range cores {
		cpu.Sockets++
		cpu.Cores += n
	}
	if cpu.Cores == 0 {
		cpu.Cores = cpu.Threads
	}
	if cpu.Sockets == 0 && cpu.Threads > 0 {
		cpu.Sockets = 1
	}
	return cpu
}
