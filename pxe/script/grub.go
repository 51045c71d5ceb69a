// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/pxe"
)

// ConfigGRUB is the file that network builds of GRUB request by TFTP (the prefix in Debian's
// grubnetx64.efi).
const ConfigGRUB = "grub/grub.cfg"

// ScriptGRUB returns the TFTP name of the result of RenderGRUB for a boot NIC.
func ScriptGRUB(mac net.HardwareAddr) string { return "boot/" + mac.String() + "/" + grubScript }

const grubScript = "script.grub"

// ParseScriptGRUB returns the boot NIC in a name of ScriptGRUB.
func ParseScriptGRUB(name string) (net.HardwareAddr, bool) {
	middle, ok := strings.CutPrefix(name, "boot/")
	text, isScript := strings.CutSuffix(middle, "/"+grubScript)
	mac, err := net.ParseMAC(text)
	return mac, ok && isScript && err == nil && len(mac) == 6
}

// StartGRUB returns the content of ConfigGRUB, which loads the script of the host. Parameter
// base is as in Render.
//
// GRUB's own menu would wait for a person. So GRUB retries for at least two minutes, longer if
// the boot server is silent, which GRUB cannot distinguish from a refusal. Then the server
// restarts: a host that is not to boot anymore gets no DHCP answer, and its firmware tries the
// next boot device.
func StartGRUB(base string) (string, error) {
	device, err := grubDevice(base)
	if err != nil {
		return "", err
	}
	return `set timeout=0
for try in ` + strings.Join(slices.Repeat([]string{"again"}, startTries), " ") + `; do
  source ` + device + `/boot/${net_default_mac}/` + grubScript + `
  sleep 3
done
echo 'Ingot: the boot server has no script for this server, which restarts'
reboot
`, nil
}

const startTries = 40

// diskLoaders returns the paths of UEFI boot loaders on disks: the fallback path of UEFI (UEFI
// 2.10 section 3.5.1.1), then directories of distributions whose installers omit it. Shim, which
// Secure Boot needs, is before GRUB.
func diskLoaders() []string {
	loaders := []string{"/EFI/BOOT/BOOTX64.EFI"}
	for _, vendor := range []string{"debian", "ubuntu", "fedora", "redhat", "centos", "rocky", "almalinux", "opensuse", "sles"} {
		loaders = append(loaders, "/EFI/"+vendor+"/shimx64.efi", "/EFI/"+vendor+"/grubx64.efi")
	}
	return append(loaders, "/EFI/systemd/systemd-bootx64.efi")
}

// localDiskGRUB returns the script that starts a boot loader of the disk. GRUB's exit would end
// in the firmware's menu, which waits for a person, because EDK2 BdsDxe always takes it for
// success. If no boot loader starts, the server restarts: the firmware may know another boot
// device, or the plan may have changed.
func localDiskGRUB() string {
	return `echo 'Ingot: boots from the disk'
for loader in ` + strings.Join(diskLoaders(), " ") + `; do
  if search --no-floppy --set=root --file $loader; then
    if chainloader $loader; then
      boot
    fi
  fi
done
echo 'Ingot: no disk has a boot loader that starts; restarting in 30 seconds'
sleep 30
reboot
`
}

// RenderGRUB is like Render, but for GRUB, which with Secure Boot starts only signed kernels.
func RenderGRUB(host pxe.Host, base string) (string, error) {
	switch host.Plan.NetworkBootKind() {
	case pxe.LocalDisk:
		return localDiskGRUB(), nil
	case pxe.Agent:
		return agentGRUB(host, base)
	}
	return "", fmt.Errorf("%w: %s", ErrNoScript, host.Plan.Kind)
}

func agentGRUB(host pxe.Host, base string) (string, error) {
	device, err := grubDevice(base)
	if err != nil {
		return "", err
	}
	boot := host.Plan.Agent
	if err := checkFiles(boot); err != nil {
		return "", err
	}
	args, err := commandLine(host, base)
	if err != nil {
		return "", err
	}
	for _, r := range "{}<>()*?[]" {
		if strings.ContainsRune(args, r) {
			return "", fmt.Errorf("%w: %q in the kernel command line is special to GRUB", ErrUnsafe, string(r))
		}
	}
	// A failed command does not end a script, and GRUB has no &&. A kernel without its
	// initramfs would only panic. After a failure the loop of grub.cfg retries.
	steps := []string{fmt.Sprintf("linux %s%s %s", device, boot.Kernel.Path(), args)}
	if len(boot.Initrds) > 0 {
		initrd := "initrd"
		for _, f := range boot.Initrds {
			initrd += " " + device + f.Path()
		}
		steps = append(steps, initrd)
	}
	then := "boot\n"
	for _, step := range slices.Backward(steps) {
		then = "if " + step + "; then\n" + then + "fi\n"
	}
	return fmt.Sprintf("echo 'Ingot: %s boots the agent'\n%s", displayName(host), then), nil
}

// grubDevice returns GRUB's name of the boot server's TFTP service: Debian's signed builds have
// no HTTP, and Secure Boot prevents loading more modules.
func grubDevice(base string) (string, error) {
	address, err := netip.ParseAddrPort(strings.TrimPrefix(base, "http://"))
	if err != nil || !strings.HasPrefix(base, "http://") || !address.Addr().Is4() {
		return "", fmt.Errorf("%w: boot server URL %q, want http:// with an IPv4 address and a port", ErrUnsafe, base)
	}
	return "(tftp," + address.Addr().String() + ")", nil
}
