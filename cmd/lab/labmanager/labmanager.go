// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package labmanager runs Ingot's manager on a user-space network: the sockets of the agent API
// and the boot server belong to a network stack that connects to the lab's switch through a Unix
// socket. It needs no root privileges.
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

// agentPort is the port of the agent API, as in the manifests.
const agentPort = 8843

// queueFrames is the length of the stack's send queue. Dozens of servers download images at once, and
// dropped frames slow TCP down.
const queueFrames = 32 << 10

// Command returns the command "lab manager".
func Command() *cobra.Command {
	var uplink, address, addressIPv6, nameServer string
	var factor int
	options := app.DefaultOptions()
	options.BMCSources = []string{"0.0.0.0/0", "::/0", "127.0.0.0/8", "::1"} // emulated BMCs use loopback
	command := &cobra.Command{
		Use:   "manager",
		Short: "Run Ingot's manager on a user-space network",
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
				setNameServer(nameServer)
			}
			options.BootAddress = prefix.Addr().String()
			addresses := addresses{ipv4: prefix}
			if addressIPv6 == "" {
				options.AgentAddress = netip.AddrPortFrom(prefix.Addr(), agentPort).String()
			} else if addresses.ipv6, err = netip.ParsePrefix(addressIPv6); err != nil {
				return fmt.Errorf("--lab-ipv6-address: %w", err)
			} else {
				options.BootIPv6 = addresses.ipv6.Addr().String()
			}
			return run(cmd.Context(), options, uplink, addresses)
		},
	}
	logs.InitLogs()
	command.Flags().StringVar(&uplink, "lab-uplink", "", "Unix socket of the lab's switch.")
	command.Flags().StringVar(&address, "lab-address", "", "IPv4 address with prefix length of the manager on the lab's network.")
	command.Flags().StringVar(&addressIPv6, "lab-ipv6-address", "", "IPv6 address with prefix length of the manager on the lab's network. If empty, IPv6 is disabled.")
	command.Flags().StringVar(&nameServer, "lab-name-server", "", "DNS server of the manager as host:port. If empty, the machine's resolver is used.")
	command.Flags().IntVar(&factor, "lab-shorten", 1, "Factor by which all durations of the manager are divided, from 1 to 20.")
	options.AddFlags(command.Flags())
	return command
}

// setNameServer makes the process resolve all names at one DNS server.
func setNameServer(at string) {
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", at)
	}}
}

// shorten divides all durations, including those set by flags, and logs them.
func shorten(options *app.Options, factor int) error {
	durations, err := options.Shorten(factor)
	if err != nil {
		return fmt.Errorf("--lab-shorten: %w", err)
	}
	if factor > 1 {
		klog.InfoS("Shortened the manager's durations", "factor", factor, "durations", fmt.Sprint(durations))
	}
	return nil
}

// addresses are the manager's addresses. ipv6 is invalid if IPv6 is disabled.
type addresses struct{ ipv4, ipv6 netip.Prefix }

// run connects to the network and runs the manager on it.
func run(ctx context.Context, options *app.Options, uplink string, own addresses) error {
	local := network.NewSwitch()
	defer func() { _ = local.Close() }()
	if _, err := local.DialUnix("uplink", uplink); err != nil {
		return err
	}
	stack, err := network.NewStack(local, network.StackConfig{Name: "ingot", Address: own.ipv4, MAC: macOf(own.ipv4.Addr()), Queue: queueFrames})
	if err != nil {
		return err
	}
	defer func() { _ = stack.Close() }()
	return app.Run(ctx, options, func(context.Context, *app.Options) (*app.Sockets, error) {
		opened, err := sockets(stack)
		if err != nil || !own.ipv6.IsValid() {
			return opened, err
		}
		return opened, addIPv6(opened, stack, own.ipv6)
	})
}

// macOf derives a locally administered MAC address from an IPv4 address. A restarted manager thus has
// the same MAC address, and answers packets of old connections with a reset.
func macOf(address netip.Addr) net.HardwareAddr {
	ip := address.Unmap().As4()
	return append(net.HardwareAddr{0x02, 0x1a}, ip[:]...)
}

// sockets opens the IPv4 sockets of all servers.
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
