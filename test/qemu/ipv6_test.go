// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/netip"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	rooms "github.com/ingot-metal/ingot/lab/segment"
	"github.com/ingot-metal/ingot/pxe"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

const (
	bootIPv6   = "2001:db8::1"
	hostIPv6   = "2001:db8::17"
	agentIPv6  = "[" + bootIPv6 + "]:8843"
	prefixIPv6 = "2001:db8::/64"
)

// alone is a host on a network that has IPv6 and nothing else.
func alone(h pxe.Host, mode pxe.IPv6Mode) pxe.Host {
	h.Address, h.Gateway = netip.Prefix{}, netip.Addr{}
	h.IPv6 = pxe.IPv6{Mode: mode, Subnet: netip.MustParsePrefix(prefixIPv6)}
	if mode == pxe.Stateful {
		h.IPv6.Address = netip.MustParseAddr(hostIPv6)
	}
	return h
}

// advertised are networks that are advertised.
type advertised []pxe.Advertisement

func (a advertised) Advertisements() []pxe.Advertisement { return a }

// roomWithBootServer is a network namespace on the switch, where the boot server has the
// sockets of the kernel as it has where it is shipped, router advertisements too. That
// needs root.
func roomWithBootServer(t *testing.T, sw *network.Switch, cfg bootserver.Config) *rooms.Room {
	t.Helper()
	room, err := rooms.NewRoom()
	if errors.Is(err, rooms.ErrNotAllowed) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = room.Close() })
	plug(t, sw, room, netip.PrefixFrom(cfg.Address, 24))
	ctx, cancel := context.WithCancel(context.Background())
	var sockets bootserver.Sockets
	err = room.Do(func() (err error) {
		out, err := exec.Command("ip", "addr", "add", cfg.IPv6.Address.String()+"/64", "dev", "eth0", "nodad").CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip: %w: %s", err, out)
		}
		sockets, err = bootserver.ListenHost(ctx, "", cfg)
		return err
	})
	if err != nil {
		cancel()
		t.Fatal(err)
	}
	// What is opened or looked up later is in the room, too.
	sockets.DialTFTP = func(client netip.AddrPort) (conn net.Conn, err error) {
		local := net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.Address, 0))
		if !client.Addr().Is4() {
			local = net.UDPAddrFromAddrPort(netip.AddrPortFrom(cfg.IPv6.Address, 0))
		}
		err = room.Do(func() error {
			conn, err = net.DialUDP("udp", local, net.UDPAddrFromAddrPort(client))
			return err
		})
		return conn, err
	}
	server, err := bootserver.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- server.Run(ctx, sockets) }()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("boot server: %v", err)
		}
	})
	return room
}

// plug joins a room to the switch by the interface eth0.
func plug(t *testing.T, sw *network.Switch, room *rooms.Room, address netip.Prefix) {
	t.Helper()
	var space *os.File
	err := room.Do(func() (err error) { space, err = os.Open("/proc/thread-self/ns/net"); return err })
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = space.Close() }()
	path := fmt.Sprintf("/proc/self/fd/%d", space.Fd())
	if _, err := sw.AttachTap(network.Tap{NetNS: path, Interface: "eth0", Address: address}); err != nil {
		t.Fatal(err)
	}
}

// TestAgentLineByIPv6 takes firmware, loader, kernel and agent to their report on a
// network that has no IPv4.
func TestAgentLineByIPv6(t *testing.T) {
	for _, tc := range []struct {
		name     string
		firmware qemu.Firmware
		nic      qemu.NIC
		mode     pxe.IPv6Mode
		from     string
		want     []string
	}{
		{"BIOS with iPXE in the ROM, recorded address", qemu.BIOS, qemu.NIC{}, pxe.Stateful, hostIPv6,
			[]string{"Ack iPXE, DHCPv6", "Script Agent", "File vmlinuz", "File initramfs.cpio.zst", "Ack agent, DHCPv6"}},
		{"BIOS with iPXE in the ROM, address of its own", qemu.BIOS, qemu.NIC{}, pxe.Stateless, "2001:db8::5054:ff:fe12:3456",
			[]string{"Script Agent", "File vmlinuz", "File initramfs.cpio.zst", "Ack agent, DHCPv6, parameters only"}},
		{"UEFI with its own PXE driver", qemu.UEFI, qemu.NIC{NoROM: true}, pxe.Stateful, hostIPv6,
			[]string{"Ack UEFI x64, DHCPv6", "Loader snponly.efi", "Script Agent", "File vmlinuz", "File initramfs.cpio.zst", "Ack agent, DHCPv6"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			needs(t, "all")
			var files pxe.Files
			add := func(name string) pxe.File {
				f, err := files.Add(agentFile(t, name))
				if err != nil {
					t.Fatal(err)
				}
				return f
			}
			cert, pin := newManagerKey(t)
			manager := &inspector{token: "token-of-this-boot", session: make(chan agentapi.SessionRequest, 100), report: make(chan agentapi.Report, 100)}
			host := alone(newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
				Kernel: add("vmlinuz"), Initrds: []pxe.File{add("initramfs.cpio.zst")},
				Server: "192.0.2.1:8843", ServerIPv6: agentIPv6, Pin: pin, Token: agentapi.Sensitive(manager.token),
				Arguments: []string{"console=ttyS0,115200"},
			}}), tc.mode)
			seg := &segment{Switch: network.NewSwitch(), record: &recorder{start: time.Now()}}
			t.Cleanup(func() { _ = seg.Close() })
			room := roomWithBootServer(t, seg.Switch, bootserver.Config{
				Address: netip.MustParseAddr("192.0.2.1"), LoaderDir: "/usr/lib/ipxe",
				IPv6: bootserver.ConfigIPv6{Address: netip.MustParseAddr(bootIPv6), Advertised: advertised{
					{Network: "rack-a", Prefix: netip.MustParsePrefix(prefixIPv6), Mode: tc.mode}}},
				Directory: pxe.Table{host.MAC.String(): host}, Files: &files, Observer: seg.record,
			})
			var listener net.Listener
			if err := room.Do(func() (err error) { listener, err = net.Listen("tcp6", agentIPv6); return err }); err != nil {
				t.Fatal(err)
			}
			from := make(chan string, 100)
			serveOn(t, listener, cert, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if at, err := netip.ParseAddrPort(r.RemoteAddr); err == nil && r.URL.Path == agentapi.PathSession {
					from <- at.Addr().String()
				}
				manager.ServeHTTP(w, r)
			}))
			vm := newVM(t, seg, host.MAC, qemu.Config{Firmware: tc.firmware, NICs: []qemu.NIC{tc.nic}, OnlyIPv6: true})
			if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
				t.Fatal(err)
			}
			seg.record.restart()
			if err := vm.PowerOn(context.Background()); err != nil {
				t.Fatal(err)
			}
			if rep := await(t, vm, manager.report); rep.Outcome != agentapi.Succeeded {
				t.Errorf("report %+v", rep)
			}
			seg.record.log(t)
			if got := <-from; got != tc.from {
				t.Errorf("the agent speaks from %s, want %s", got, tc.from)
			}
			if got := seg.record.stages(); !inOrder(got, tc.want) {
				t.Errorf("boot went by\n  %s\nwant, in this order,\n  %s", strings.Join(got, "\n  "), strings.Join(tc.want, "\n  "))
			}
			select { // the acknowledgement said so
			case <-orClosed(vm.Ended()):
			case <-time.After(bootDeadline):
				t.Error("the server did not go off")
			}
		})
	}
}

// serveOn serves the agent API on a listener until the test ends.
func serveOn(t *testing.T, l net.Listener, cert tls.Certificate, h http.Handler) {
	t.Helper()
	srv := &http.Server{Handler: h, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
		TLSConfig: &tls.Config{Certificates: []tls.Certificate{cert}, ClientAuth: tls.RequestClientCert, MinVersion: tls.VersionTLS13}}
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.ServeTLS(l, "", "") }()
	t.Cleanup(func() { _ = srv.Close(); <-done })
}
