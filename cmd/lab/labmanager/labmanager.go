// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labmanager runs Ingot's manager with its servers on a network in user
// space: the sockets of the agent API and the boot server come from a network
// stack that joins the lab's switch through a unix socket. No root is needed.
//
//	labmanager.Command() // "lab manager --lab-uplink … --lab-address … <the manager's flags>"
package labmanager

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"

	"github.com/spf13/cobra"
	"k8s.io/component-base/logs"
	logsv1 "k8s.io/component-base/logs/api/v1"
	_ "k8s.io/component-base/logs/json/register"
	"k8s.io/klog/v2"
	ctrl "sigs.k8s.io/controller-runtime"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/pxe/bootserver"
)

// agentPort is where the agent API listens, as in the manifests.
const agentPort = 8843

// queueFrames is how many frames the stack may have ready for the switch: dozens of
// servers fetch images at once, and TCP backs off where frames are dropped.
const queueFrames = 32 << 10

// Command is "lab manager".
func Command() *cobra.Command {
	var uplink, address, addressIPv6, nameServer string
	var factor int
	options := app.DefaultOptions()
	options.BMCSources = []string{"0.0.0.0/0", "::/0", "127.0.0.0/8", "::1"} // emulated BMCs are on this machine
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run Ingot's manager on a network in user space",
		Args:  cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			prefix, err := netip.ParsePrefix(address)
			if err != nil {
				return fmt.Errorf("--lab-address: %w", err)
			}
			if err := logsv1.ValidateAndApply(options.Logs, nil); err != nil {
				return err
			}
			ctrl.SetLogger(klog.Background())
			if err := shorten(options, factor); err != nil {
				return err
			}
			if nameServer != "" {
				askNameServer(nameServer)
			}
			options.BootAddress = prefix.Addr().String()
			place := place{address: prefix}
			if addressIPv6 == "" {
				options.AgentAddress = netip.AddrPortFrom(prefix.Addr(), agentPort).String()
			} else if place.ipv6, err = netip.ParsePrefix(addressIPv6); err != nil {
				return fmt.Errorf("--lab-ipv6-address: %w", err)
			} else {
				options.BootIPv6 = place.ipv6.Addr().String()
			}
			return run(cmd.Context(), options, uplink, place)
		},
	}
	logs.InitLogs()
	command.Flags().StringVar(&uplink, "lab-uplink", "", "Unix socket of the lab's switch.")
	command.Flags().StringVar(&address, "lab-address", "", "Address of the manager on the lab's network, with prefix length.")
	command.Flags().StringVar(&addressIPv6, "lab-ipv6-address", "", "IPv6 address of the manager on the lab's network besides, with prefix length; empty: none.")
	command.Flags().StringVar(&nameServer, "lab-name-server", "", "Where the manager asks for the addresses of names by DNS, host:port; empty: as this machine does.")
	command.Flags().IntVar(&factor, "lab-shorten", 1, "Divide all waits of the manager by this factor.")
	options.AddFlags(command.Flags())
	return command
}

// askNameServer has the process ask one server about all names.
func askNameServer(at string) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", at)
	}}
}

// shorten divides the waits, also those that flags have set, and says so.
func shorten(options *app.Options, factor int) error {
	waits, err := options.Shorten(factor)
	if err != nil {
		return fmt.Errorf("--lab-shorten: %w", err)
	}
	if factor > 1 {
		klog.InfoS("Waits are shortened", "factor", factor, "waits", fmt.Sprint(waits))
	}
	return nil
}

// place is where the manager is on the network.
type place struct {
	address netip.Prefix
	// ipv6 is the zero value where there is none.
	ipv6 netip.Prefix
}

// run joins the network and runs the manager on it.
func run(ctx context.Context, options *app.Options, uplink string, at place) error {
	local := network.NewSwitch()
	defer func() { _ = local.Close() }()
	if _, err := local.DialUnix("uplink", uplink); err != nil {
		return err
	}
	stack, err := network.NewStack(local, network.StackConfig{Name: "ingot", Address: at.address, MAC: macOf(at.address.Addr()), Queue: queueFrames})
	if err != nil {
		return err
	}
	defer func() { _ = stack.Close() }()
	return app.Run(ctx, options, func(context.Context, *app.Options) (*app.Sockets, error) {
		opened, err := sockets(stack)
		if err != nil || !at.ipv6.IsValid() {
			return opened, err
		}
		return opened, addIPv6(opened, stack, at.ipv6)
	})
}

// macOf is a locally administered MAC address that stays with an IPv4 address: to
// its peers a manager that is started again is the same node, which answers packets
// of its former life with a reset instead of silence.
func macOf(address netip.Addr) net.HardwareAddr {
	ip := address.Unmap().As4()
	return append(net.HardwareAddr{0x02, 0x1a}, ip[:]...)
}

// sockets opens everything on the stack.
func sockets(stack *network.Stack) (*app.Sockets, error) {
	agent, agentErr := stack.ListenTCP(agentPort)
	http, httpErr := stack.ListenTCP(bootserver.DefaultHTTPPort)
	dhcp, dhcpErr := stack.ListenUDP(bootserver.DHCPPort)
	binl, binlErr := stack.ListenUDP(bootserver.BINLPort)
	tftp, tftpErr := stack.ListenUDP(bootserver.TFTPPort)
	boot := bootserver.Sockets{
		DHCP: dhcp, BINL: binl, TFTP: tftp, HTTP: http,
		DialTFTP: stack.DialUDP,
	}
	return &app.Sockets{Agent: agent, Boot: boot}, errors.Join(agentErr, httpErr, dhcpErr, binlErr, tftpErr)
}
