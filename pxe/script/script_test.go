// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package script

import (
	"errors"
	"flag"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/pxe"
)

var update = flag.Bool("update", false, "rewrite the golden files")

const (
	base   = "http://192.0.2.1:8880"
	token  = "aG9zdA.MTIzNDU.c2ln"
	digest = "2c26b46b68ffc68ff99b453c1d30413413422d706483bfa0f98a5e886266e7ae"
)

func agentHost(change ...func(*pxe.Host)) pxe.Host {
	h := pxe.Host{
		Namespace: "default", Name: "server-1", MAC: net.HardwareAddr{0x52, 0x54, 0, 0x12, 0x34, 0x56},
		Plan: pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
			Kernel:    pxe.File{SHA256: digest, Name: "vmlinuz"},
			Initrds:   []pxe.File{{SHA256: digest, Name: "initramfs.zst"}},
			Server:    "192.0.2.1:8843",
			Pin:       "sha256/AAAA,sha256/BBBB",
			Token:     token,
			Arguments: []string{"console=tty0", "console=ttyS0,115200"},
		}},
	}
	for _, c := range change {
		c(&h)
	}
	return h
}

func TestGolden(t *testing.T) {
	for _, tc := range []struct {
		name   string
		render func() (string, error)
	}{
		{"agent", func() (string, error) { return Render(agentHost(), base) }},
		{"agent-minimal", func() (string, error) {
			return Render(agentHost(func(h *pxe.Host) {
				h.Name = "a name with $(blanks)"
				a := &h.Plan.Agent
				a.Initrds, a.Pin, a.Token, a.Arguments = nil, "", "", nil
			}), base)
		}},
		{"agent-two-initrds", func() (string, error) {
			return Render(agentHost(func(h *pxe.Host) {
				h.Plan.Agent.Initrds = append(h.Plan.Agent.Initrds, pxe.File{SHA256: digest, Name: "firmware.cpio"})
			}), base)
		}},
		{"local-disk", func() (string, error) { return Render(pxe.Host{Plan: pxe.Plan{Kind: pxe.LocalDisk}}, base) }},
		{"local-disk", func() (string, error) {
			return Render(agentHost(func(h *pxe.Host) { h.Plan.Agent.Method = pxe.BootVirtualMedia }), base)
		}},
		{"local-disk", func() (string, error) {
			return Render(agentHost(func(h *pxe.Host) { h.Plan.Agent.Method = pxe.BootHTTP }), base)
		}},
		{"agent-ipv6", func() (string, error) {
			return Render(agentHost(func(h *pxe.Host) {
				h.IPv6 = pxe.IPv6{Mode: pxe.Stateful, Subnet: netip.MustParsePrefix("2001:db8::/64"), Address: netip.MustParseAddr("2001:db8::17")}
				h.Plan.Agent.ServerIPv6 = "[2001:db8::1]:8843"
			}), "http://[2001:db8::1]:8880")
		}},
		{"autoexec", func() (string, error) { return AutoExec(base) }},
		{"autoexec-ipv6", func() (string, error) { return AutoExec("http://[2001:db8::1]:8880") }},
		{"start.grub", func() (string, error) { return StartGRUB(base) }},
		{"agent.grub", func() (string, error) { return RenderGRUB(agentHost(), base) }},
		{"agent-minimal.grub", func() (string, error) {
			return RenderGRUB(agentHost(func(h *pxe.Host) { h.Name, h.Plan.Agent.Initrds = "a name with $(blanks)", nil }), base)
		}},
		{"local-disk.grub", func() (string, error) { return RenderGRUB(pxe.Host{Plan: pxe.Plan{Kind: pxe.LocalDisk}}, base) }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := tc.render()
			if err != nil {
				t.Fatal(err)
			}
			golden := filepath.Join("testdata", tc.name)
			if filepath.Ext(golden) == "" {
				golden += ".ipxe"
			}
			if *update {
				if err := os.WriteFile(golden, []byte(got), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(string(want), got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Characters that are special to GRUB only.
func TestRejectsSpecialCharactersOfGRUB(t *testing.T) {
	for name, tc := range map[string]struct {
		host pxe.Host
		base string
	}{
		"argument with a brace":       {agentHost(func(h *pxe.Host) { h.Plan.Agent.Arguments = []string{"a={b}"} }), base},
		"argument with a redirection": {agentHost(func(h *pxe.Host) { h.Plan.Agent.Arguments = []string{"a>b"} }), base},
		"argument with a pattern":     {agentHost(func(h *pxe.Host) { h.Plan.Agent.Arguments = []string{"a=*"} }), base},
		"argument with a setting":     {agentHost(func(h *pxe.Host) { h.Plan.Agent.Arguments = []string{"a=${b}"} }), base},
		"kernel name with a path":     {agentHost(func(h *pxe.Host) { h.Plan.Agent.Kernel.Name = "../vmlinuz" }), base},
		"IPv6":                        {agentHost(), "http://[2001:db8::1]:8880"},
		"base URL that ends a device": {agentHost(), "http://192.0.2.1)/x"},
		"base URL without a port":     {agentHost(), "http://192.0.2.1"},
		"base URL of another kind":    {agentHost(), "https://192.0.2.1"},
	} {
		t.Run(name, func(t *testing.T) {
			if text, err := RenderGRUB(tc.host, tc.base); !errors.Is(err, ErrUnsafe) {
				t.Errorf("got %v and\n%s", err, text)
			} else if strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
	if _, err := RenderGRUB(pxe.Host{}, base); !errors.Is(err, ErrNoScript) {
		t.Errorf("no plan: %v", err)
	}
	if _, err := StartGRUB("http://[2001:db8::1]:8880"); !errors.Is(err, ErrUnsafe) {
		t.Errorf("start by IPv6: %v", err)
	}
}

func TestRejectsUnsafeValues(t *testing.T) {
	agent := func(change func(*pxe.AgentBoot)) pxe.Host {
		return agentHost(func(h *pxe.Host) { change(&h.Plan.Agent) })
	}
	for _, tc := range []struct {
		name string
		host pxe.Host
		base string
		want error
	}{
		{"no plan", pxe.Host{}, base, ErrNoScript},
		{"unknown plan", pxe.Host{Plan: pxe.Plan{Kind: 9}}, base, ErrNoScript},
		{"base URL of another kind", agentHost(), "https://192.0.2.1", ErrUnsafe},
		{"base URL with a newline", agentHost(), base + "\nshell", ErrUnsafe},
		{"kernel name with a blank", agent(func(a *pxe.AgentBoot) { a.Kernel.Name = "vm linuz" }), base, ErrUnsafe},
		{"kernel name with a path", agent(func(a *pxe.AgentBoot) { a.Kernel.Name = "../vmlinuz" }), base, ErrUnsafe},
		{"no kernel", agent(func(a *pxe.AgentBoot) { a.Kernel = pxe.File{} }), base, ErrUnsafe},
		{"digest in capitals", agent(func(a *pxe.AgentBoot) { a.Kernel.SHA256 = strings.ToUpper(digest) }), base, ErrUnsafe},
		{"digest too short", agent(func(a *pxe.AgentBoot) { a.Initrds[0].SHA256 = "ab" }), base, ErrUnsafe},
		{"argument with a newline", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"a\nshell"} }), base, ErrUnsafe},
		{"argument with an iPXE setting", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"a=${mac}"} }), base, ErrUnsafe},
		{"argument with an operator", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"a||shell"} }), base, ErrUnsafe},
		{"two arguments in one", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"a b"} }), base, ErrUnsafe},
		{"empty argument", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{""} }), base, ErrUnsafe},
		{"argument that is ours", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"ingot.server=evil:1"} }), base, ErrUnsafe},
		{"second initramfs by argument", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{"initrd=evil"} }), base, ErrUnsafe},
		{"no agent server", agent(func(a *pxe.AgentBoot) { a.Server = "" }), base, ErrUnsafe},
		{"token with a blank", agent(func(a *pxe.AgentBoot) { a.Token = token + " init=/bin/sh" }), base, ErrUnsafe},
		{"line too long", agent(func(a *pxe.AgentBoot) { a.Arguments = []string{strings.Repeat("x", MaxCommandLine)} }), base, ErrUnsafe},
	} {
		t.Run(tc.name, func(t *testing.T) {
			text, err := Render(tc.host, tc.base)
			if !errors.Is(err, tc.want) || text != "" {
				t.Fatalf("got %q, %v, want %v", text, err, tc.want)
			}
			if strings.Contains(err.Error(), token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
	if _, err := AutoExec("http://a b"); !errors.Is(err, ErrUnsafe) {
		t.Errorf("AutoExec: %v", err)
	}
}

// FuzzRender: with any values a rendered script has the same lines, and its kernel line has the
// given words.
func FuzzRender(f *testing.F) {
	f.Add("server-1", "vmlinuz", "console=ttyS0", "192.0.2.1:8843", "sha256/AAAA", token)
	f.Add("a\nb", "x;y", "a\x00b", "${x}", "a\"b", "\\")
	model, err := Render(agentHost(), base)
	if err != nil {
		f.Fatal(err)
	}
	lines := strings.Count(model, "\n")
	f.Fuzz(func(t *testing.T, hostName, file, argument, server, pin, secret string) {
		text, err := Render(agentHost(func(h *pxe.Host) {
			h.Name = hostName
			a := &h.Plan.Agent
			a.Initrds[0].Name, a.Arguments, a.Server = file, []string{argument}, server
			a.Pin, a.Token = pin, agentapi.Sensitive(secret)
		}), base)
		if err != nil {
			if len(secret) > 8 && strings.Contains(err.Error(), secret) && !strings.Contains(file+argument+server+pin, secret) {
				t.Errorf("the error shows the token")
			}
			return
		}
		if strings.Count(text, "\n") != lines || strings.ContainsAny(text, "\r\x00\"\\") {
			t.Fatalf("the script's shape changed:\n%s", text)
		}
		var kernel []string
		for line := range strings.Lines(text) {
			if strings.HasPrefix(line, "kernel ") {
				kernel = strings.Fields(line)
			}
		}
		want := []string{"initrd=" + file, argument, "ingot.server=" + server, "ingot.files=" + base, "ingot.mac=52:54:00:12:34:56"}
		if pin != "" {
			want = append(want, "ingot.pin="+pin)
		}
		if secret != "" {
			want = append(want, "ingot.token="+secret)
		}
		if diff := cmp.Diff(want, kernel[4:len(kernel)-3]); diff != "" {
			t.Error(diff)
		}
	})
}

// A CD image contains the agent's arguments, and unsafe values are refused.
func TestArguments(t *testing.T) {
	got, err := Arguments(agentHost(), base)
	want := "ingot.server=192.0.2.1:8843\ningot.files=" + base + "\ningot.mac=52:54:00:12:34:56\n" +
		"ingot.pin=sha256/AAAA,sha256/BBBB\ningot.token=" + token + "\n"
	if err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
	for name, tc := range map[string]struct {
		host pxe.Host
		base string
		want error
	}{
		"from its disk":      {pxe.Host{Plan: pxe.Plan{Kind: pxe.LocalDisk}}, base, ErrNoScript},
		"no server":          {agentHost(func(h *pxe.Host) { h.Plan.Agent.Server = "" }), base, ErrUnsafe},
		"a line in a server": {agentHost(func(h *pxe.Host) { h.Plan.Agent.Server = "a:1\ningot.pin=x" }), base, ErrUnsafe},
		"a quote in a token": {agentHost(func(h *pxe.Host) { h.Plan.Agent.Token = token + "\"" }), base, ErrUnsafe},
		"another base":       {agentHost(), "ftp://192.0.2.1", ErrUnsafe},
	} {
		t.Run(name, func(t *testing.T) {
			text, err := Arguments(tc.host, tc.base)
			if !errors.Is(err, tc.want) || text != "" || strings.Contains(err.Error(), token) {
				t.Errorf("got %q, %v", text, err)
			}
		})
	}
}
