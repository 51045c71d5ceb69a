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

// ConfigGRUB is the file that GRUB's builds for the network ask for by TFTP (Debian: the
// prefix of grubnetx64.efi).
const ConfigGRUB = "grub/grub.cfg"

// ScriptGRUB is the name, by TFTP, of what RenderGRUB returns for a boot NIC.
func ScriptGRUB(mac net.HardwareAddr) string { return "boot/" + mac.String() + "/" + grubScript }

const grubScript = "script.grub"

// ParseScriptGRUB takes the boot NIC from such a name.
func ParseScriptGRUB(name string) (net.HardwareAddr, bool) {
	middle, ok := strings.CutPrefix(name, "boot/")
	text, isScript := strings.CutSuffix(middle, "/"+grubScript)
	mac, err := net.ParseMAC(text)
	return mac, ok && isScript && err == nil && len(mac) == 6
}

// StartGRUB returns ConfigGRUB: it sends each host to its own script. GRUB's own menu
// waits for a person, so a script that does not arrive is asked for again, for two minutes at
// least where the boot server refuses it, and longer where it is silent. GRUB cannot tell
// these apart. Then the server restarts: a host that the boot server does not boot any more
// gets no answer by DHCP, and its firmware goes on to the next boot device. Base is as in
// Render.
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

// startTries is how often StartGRUB asks for a host's script.
const startTries = 40

// diskLoaders are where UEFI boot loaders lie on a disk: the place that UEFI itself falls back
// to (UEFI 2.10, section 3.5.1.1), then the directories of distributions whose installers leave
// that one out, each with shim, which Secure Boot needs, before GRUB.
func diskLoaders() []string {
	loaders := []string{"/EFI/BOOT/BOOTX64.EFI"}
	for _, vendor := range []string{"debian", "ubuntu", "fedora", "redhat", "centos", "rocky", "almalinux", "opensuse", "sles"} {
		loaders = append(loaders, "/EFI/"+vendor+"/shimx64.efi", "/EFI/"+vendor+"/grubx64.efi")
	}
	return append(loaders, "/EFI/systemd/systemd-bootx64.efi")
}

// localDiskGRUB starts the disk's own loader. GRUB's exit would end in the firmware's menu
// (EDK2 BdsDxe takes it for success, whatever GRUB says), which waits for a person. Where no
// disk has a loader that starts, the server restarts: the firmware may know another boot
// device, and the host's plan may have changed.
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

// RenderGRUB is Render for GRUB, which starts only kernels that are signed, if Secure
// Boot is on.
func RenderGRUB(host pxe.Host, base string) (string, error) {
	switch host.Plan.Loaded() {
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
			return "", fmt.Errorf("%w: %q in the kernel command line means something to GRUB", ErrUnsafe, string(r))
		}
	}
	// A line that fails does not end a script, and GRUB knows no &&: a kernel without its
	// initramfs would only panic. After a failure the loop of grub.cfg asks again.
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

// grubDevice is GRUB's name of the boot server's TFTP port: Debian's signed builds know
// no HTTP, and Secure Boot lets them load nothing more.
func grubDevice(base string) (string, error) {
	address, err := netip.ParseAddrPort(strings.TrimPrefix(base, "http://"))
	if err != nil || !strings.HasPrefix(base, "http://") || !address.Addr().Is4() {
		return "", fmt.Errorf("%w: boot server URL %q, want http:// with an IPv4 address and a port", ErrUnsafe, base)
	}
	return "(tftp," + address.Addr().String() + ")", nil
}
