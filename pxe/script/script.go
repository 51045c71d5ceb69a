// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"fmt"
	"strings"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

// MaxCommandLine limits the kernel command line, in bytes: x86 Linux silently truncates it at
// 2048 with its terminator (COMMAND_LINE_SIZE).
const MaxCommandLine = 2047

// ErrUnsafe is returned for a value that is not allowed in a script.
var ErrUnsafe = errors.New("value is not allowed in a boot script")

var ErrNoScript = errors.New("plan has no boot script")

// Render returns the iPXE script of the host's plan. Parameter base is the boot server as
// http://host:port without a trailing slash.
//
// Errors wrap ErrNoScript (plan None) or ErrUnsafe. They never contain the token.
func Render(host pxe.Host, base string) (string, error) {
	switch host.Plan.NetworkBootKind() {
	case pxe.LocalDisk:
		return LocalDisk(), nil
	case pxe.Agent:
		return agent(host, base)
	}
	return "", fmt.Errorf("%w: %s", ErrNoScript, host.Plan.Kind)
}

// LocalDisk returns the iPXE script that boots the disk.
//
// On UEFI iPXE exits with an error, which makes firmware try the next boot option. After a
// success firmware would stop at its menu (EDK2 BdsDxe). On BIOS a plain exit hangs some
// machines (field notes), so the disk is booted directly, and exit is the fallback.
func LocalDisk() string {
	return `#!ipxe
iseq ${platform} efi && goto leave ||
sanboot --no-describe --drive 0x80 ||
:leave
exit 1
`
}

// agent returns the iPXE script that loads kernel and initramfs. A kernel started by EFI finds
// its initramfs only by initrd= on the command line. A failed download is retried endlessly,
// every few seconds: the manager's deadline ends such a boot (I13) and reports the reason. Each
// retry fetches the script first, because an upgraded boot server has other files. If that
// fails, too, this script continues.
func agent(host pxe.Host, base string) (string, error) {
	boot := host.Plan.Agent
	if !strings.HasPrefix(base, "http://") || !isClean(base) {
		return "", fmt.Errorf("%w: boot server URL %q", ErrUnsafe, base)
	}
	if err := checkFiles(boot); err != nil {
		return "", err
	}
	var initrds []string
	for _, f := range boot.Initrds {
		initrds = append(initrds, "initrd="+f.Name)
	}
	args, err := commandLine(host, base, initrds...)
	if err != nil {
		return "", err
	}
	var b strings.Builder
	b.WriteString("#!ipxe\n")
	fmt.Fprintf(&b, "echo Ingot: %s boots the agent\n", displayName(host))
	fmt.Fprintf(&b, "goto load\n:retry\nimgfree\nsleep 3\n%s ||\n:load\n", chain(base, host.MAC.String()))
	fmt.Fprintf(&b, "kernel --name %s %s%s %s || goto retry\n",
		boot.Kernel.Name, base, boot.Kernel.Path(), args)
	for _, f := range boot.Initrds {
		fmt.Fprintf(&b, "initrd --name %s %s%s || goto retry\n", f.Name, base, f.Path())
	}
	b.WriteString("boot || goto retry\n")
	return b.String(), nil
}

// checkFiles fails if a name or digest needs escaping in a URL.
func checkFiles(boot pxe.AgentBoot) error {
	for _, f := range append([]pxe.File{boot.Kernel}, boot.Initrds...) {
		if !isClean(f.Name) || strings.ContainsAny(f.Name, "/?&#%") || !isDigest(f.SHA256) {
			return fmt.Errorf("%w: file %q with digest %q", ErrUnsafe, f.Name, f.SHA256)
		}
	}
	return nil
}

// commandLine joins the kernel arguments. Ingot's own come last, so that others cannot
// override them.
func commandLine(host pxe.Host, base string, words ...string) (string, error) {
	boot := host.Plan.Agent
	own, err := ownArguments(host, base)
	if err != nil {
		return "", err
	}
	for _, a := range boot.Arguments {
		if strings.HasPrefix(a, "ingot.") || strings.HasPrefix(a, "initrd=") {
			return "", fmt.Errorf("%w: kernel argument %q is reserved", ErrUnsafe, name(a))
		}
		words = append(words, a)
	}
	words = append(words, own...)
	for _, w := range words {
		if !isClean(w) {
			return "", fmt.Errorf("%w: kernel argument %q", ErrUnsafe, name(w))
		}
	}
	line := strings.Join(words, " ")
	if len(line) > MaxCommandLine {
		return "", fmt.Errorf("%w: kernel command line is %d bytes long, at most %d fit", ErrUnsafe, len(line), MaxCommandLine)
	}
	return line, nil
}

func ownArguments(host pxe.Host, base string) ([]string, error) {
	boot, server := host.Plan.Agent, host.AgentServer(isIPv6(base))
	if server == "" {
		return nil, fmt.Errorf("%w: %s is empty, because the boot server has no address of the host's IP family", ErrUnsafe, agentapi.ArgServer)
	}
	words := []string{agentapi.ArgServer + "=" + server,
		agentapi.ArgFiles + "=" + base,
		agentapi.ArgMAC + "=" + host.MAC.String()}
	if boot.Pin != "" {
		words = append(words, agentapi.ArgPin+"="+boot.Pin)
	}
	if boot.Token != "" {
		words = append(words, agentapi.ArgToken+"="+boot.Token.Reveal())
	}
	for _, w := range words {
		if !isClean(w) {
			return nil, fmt.Errorf("%w: kernel argument %q", ErrUnsafe, name(w))
		}
	}
	return words, nil
}

// Arguments returns the agent's arguments, one per line, for the host's file on a CD image.
// Parameter base is as in Render. Errors wrap ErrNoScript or ErrUnsafe. They never contain the
// token.
func Arguments(host pxe.Host, base string) (string, error) {
	if host.Plan.Kind != pxe.Agent {
		return "", fmt.Errorf("%w: %s", ErrNoScript, host.Plan.Kind)
	}
	if !strings.HasPrefix(base, "http://") || !isClean(base) {
		return "", fmt.Errorf("%w: boot server URL %q", ErrUnsafe, base)
	}
	words, err := ownArguments(host, base)
	if err != nil {
		return "", err
	}
	return strings.Join(words, "\n") + "\n", nil
}

// name returns an argument without its value, which may be secret.
func name(argument string) string {
	n, _, _ := strings.Cut(argument, "=")
	return n
}

// isClean reports whether a word is not empty and consists of printable ASCII without special
// characters of iPXE and of the kernel's command line: ${…}, white space, quotes, backslashes,
// comments, and the operators || and &&.
func isClean(word string) bool {
	for _, r := range word {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'\\$`|&#;", r) {
			return false
		}
	}
	return word != ""
}

func isIPv6(base string) bool { return strings.HasPrefix(base, "http://[") }

func isDigest(hex string) bool {
	return len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// displayName returns namespace/name for the console, or else the MAC address.
func displayName(host pxe.Host) string {
	if n := host.Key(); isClean(n) {
		return n
	}
	return host.MAC.String()
}

// AutoExec returns autoexec.ipxe, which a stock, signed iPXE binary requests by TFTP if it has no
// embedded script. It loads the script of the host.
func AutoExec(base string) (string, error) {
	if !strings.HasPrefix(base, "http://") || !isClean(base) {
		return "", fmt.Errorf("%w: boot server URL %q", ErrUnsafe, base)
	}
	configure := "isset ${netX/ip} || dhcp"
	if isIPv6(base) {
		configure = "ifconf --configurator ipv6" // a link-local address is always set
	}
	return `#!ipxe
` + configure + ` || goto failed
` + chain(base, "${netX/mac}") + ` || goto failed
:failed
exit 1
`, nil
}

// chain returns the command that replaces the running script with the one of a boot NIC.
func chain(base, mac string) string {
	return "chain --replace --autofree " + base + "/boot/" + mac + "/script.ipxe"
}
