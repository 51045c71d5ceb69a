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

// MaxCommandLine bounds the kernel command line, in bytes: x86 Linux takes
// 2048 with its terminator (COMMAND_LINE_SIZE) and silently cuts the rest off.
const MaxCommandLine = 2047

// ErrUnsafe reports a value that cannot stand in a script.
var ErrUnsafe = errors.New("value cannot stand in a boot script")

// ErrNoScript reports a plan for which there is no script.
var ErrNoScript = errors.New("plan has no boot script")

// Render returns the script for what the host is to boot now. Base is the boot
// server as http://host:port, without a slash at the end.
//
// Errors wrap ErrNoScript (plan None) or ErrUnsafe; they never contain the
// token.
func Render(host pxe.Host, base string) (string, error) {
	switch host.Plan.Loaded() {
	case pxe.LocalDisk:
		return LocalDisk(), nil
	case pxe.Agent:
		return agent(host, base)
	}
	return "", fmt.Errorf("%w: %s", ErrNoScript, host.Plan.Kind)
}

// LocalDisk returns the script that leaves the network and boots the disk.
//
// On UEFI iPXE exits with an error, because firmware that gets success back
// from a boot option stops at its menu (EDK2 BdsDxe); with an error it goes on
// to the next option. On BIOS plain exit hangs some machines (field notes), so
// the disk is started directly, and exit is what is left when there is none.
func LocalDisk() string {
	return `#!ipxe
iseq ${platform} efi && goto leave ||
sanboot --no-describe --drive 0x80 ||
:leave
exit 1
`
}

// agent loads kernel and initramfs. iPXE tells a kernel started by EFI where
// its initramfs is only by initrd= on the command line. A file that does not
// arrive is asked for again for ever, a few seconds apart: what ends a boot
// that goes nowhere is the manager's deadline (I13), which knows the reason.
// Before that the script itself is asked for: a boot server that was upgraded
// meanwhile has other files. Without an answer, this one goes on.
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

// checkFiles refuses names and digests that would not stand for themselves in a URL.
func checkFiles(boot pxe.AgentBoot) error {
	for _, f := range append([]pxe.File{boot.Kernel}, boot.Initrds...) {
		if !isClean(f.Name) || strings.ContainsAny(f.Name, "/?&#%") || !isDigest(f.SHA256) {
			return fmt.Errorf("%w: file %q with digest %q", ErrUnsafe, f.Name, f.SHA256)
		}
	}
	return nil
}

// commandLine joins the kernel arguments, those of the loader first. Ingot's own come
// last, so that no other argument can stand in for them.
func commandLine(host pxe.Host, base string, words ...string) (string, error) {
	boot := host.Plan.Agent
	own, err := ownArguments(host, base)
	if err != nil {
		return "", err
	}
	for _, a := range boot.Arguments {
		if strings.HasPrefix(a, "ingot.") || strings.HasPrefix(a, "initrd=") {
			return "", fmt.Errorf("%w: kernel argument %q is the boot server's to set", ErrUnsafe, name(a))
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

// ownArguments are those of the agent.
func ownArguments(host pxe.Host, base string) ([]string, error) {
	boot, server := host.Plan.Agent, host.AgentServer(isIPv6(base))
	if server == "" {
		return nil, fmt.Errorf("%w: %s is empty: the boot server is not told an address of the host's family", ErrUnsafe, agentapi.ArgServer)
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

// Arguments returns what the agent is told on its command line elsewhere, as text with
// one argument in each line: for the host's own file of a CD image. Base is as in
// Render. Errors wrap ErrNoScript or ErrUnsafe; they never contain the token.
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

// name is the part of an argument that may be shown: without its value.
func name(argument string) string {
	n, _, _ := strings.Cut(argument, "=")
	return n
}

// isClean reports a non-empty word of printable ASCII that iPXE's and the
// kernel's command line parsers leave alone: iPXE expands ${…}, splits at
// white space and knows quotes, backslashes, comments and the operators || and
// &&; the kernel knows double quotes.
func isClean(word string) bool {
	for _, r := range word {
		if r <= ' ' || r > '~' || strings.ContainsRune("\"'\\$`|&#;", r) {
			return false
		}
	}
	return word != ""
}

// isIPv6 says whether a base URL is an IPv6 address's.
func isIPv6(base string) bool { return strings.HasPrefix(base, "http://[") }

func isDigest(hex string) bool {
	return len(hex) == 64 && strings.Trim(hex, "0123456789abcdef") == ""
}

// displayName is namespace/name where that is clean, for the console.
func displayName(host pxe.Host) string {
	if n := host.Key(); isClean(n) {
		return n
	}
	return host.MAC.String()
}

// AutoExec returns autoexec.ipxe, which a stock, signed iPXE binary asks for by
// TFTP in place of an embedded script. It sends the host to its own script.
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

// chain goes on with the script of a boot NIC in place of the one that runs.
func chain(base, mac string) string {
	return "chain --replace --autofree " + base + "/boot/" + mac + "/script.ipxe"
}
