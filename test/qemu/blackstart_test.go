// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/crypto/ssh"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/networkdata"
	"github.com/ingot-metal/ingot/lab/network"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

const (
	// blackStartDeadline bounds each of install, and a boot of what was installed.
	blackStartDeadline = 20 * time.Minute
	// darkAddress is not the one that the boot server gives.
	darkAddress = "192.0.2.99"
)

// TestBlackStart: a server that Ingot installed with networkData has reported its first boot,
// and its seed is emptied. Then nothing of Ingot runs any more: no DHCP, no boot server, no
// manager. The power goes and comes back, and somebody on its network logs in to the same
// system as before, at the address that networkData gave. So it is where firmware has lost
// its settings, and tries that network before the disk.
func TestBlackStart(t *testing.T) {
	needs(t, "all")
	_, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	user := fmt.Sprintf("#cloud-config\nssh_authorized_keys:\n- %s", ssh.MarshalAuthorizedKey(key.PublicKey()))
	in := install(t, "test", blackStartDeadline, cloudConfig(user, staticNetwork(t, newHost(pxe.Plan{}).MAC.String())))
	somebody, err := network.NewStack(in.seg.Switch, network.StackConfig{Name: "somebody", Address: netip.MustParsePrefix("192.0.2.200/24")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = somebody.Close() })
	ctx, cancel := context.WithTimeout(t.Context(), blackStartDeadline)
	defer cancel()
	in.reports(ctx, t, darkAddress, agentapi.Booted{Sentinel: new(false)}) // no bootstrap provider was at work
	before := in.visit(ctx, t, somebody, key)
	if diff := cmp.Diff(darkSystem, before.says); diff != "" {
		t.Error(diff)
	}
	in.seg.stop()
	for _, first := range []qemu.Device{qemu.Disks, qemu.Network} {
		t.Run(string(first)+" first", func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), blackStartDeadline)
			defer cancel()
			in.pullThePlug(t)
			began := time.Now()
			in.turnOn(ctx, t, first)
			after := in.visit(ctx, t, somebody, key)
			t.Logf("reached after %s", time.Since(began).Round(time.Second))
			if diff := cmp.Diff(before, after, cmp.AllowUnexported(visit{})); diff != "" {
				t.Errorf("another system than before:\n%s", diff)
			}
		})
	}
}

// staticNetwork is what networkData comes to on a server with one interface.
func staticNetwork(t *testing.T, mac string) string {
	t.Helper()
	data := &infrav1.NetworkData{Ethernets: []infrav1.NetworkEthernet{{Name: "uplink0", NIC: infrav1.NICSelector{BootNIC: infrav1.BootNICOnly},
		LinkConfig: infrav1.LinkConfig{
			RouterAdvertisements: infrav1.RouterAdvertisementsIgnore,
			Addresses:            []infrav1.LinkAddress{{Source: infrav1.AddressStatic, Address: darkAddress + "/24"}},
			Routes:               []infrav1.LinkRoute{{To: "0.0.0.0/0", Via: "192.0.2.254"}},
			DNSServers:           []string{"192.0.2.53"},
		}}}}
	resolved, err := networkdata.Resolve(data, networkdata.Sources{Host: networkdata.Host{BootMAC: mac, NICs: []infrav1.HardwareNIC{{MAC: mac}}}})
	if err != nil {
		t.Fatal(err)
	}
	return resolved.Config()
}

// look has a system say who it is, what its network is, and that cloud-init has ended well,
// with nothing of the seed but what it is found by.
const look = `cloud-init status --wait > /dev/null; echo cloud-init $?
uname -n
cat /var/lib/cloud/data/instance-id
ip -o -4 address show scope global | awk '{ print $2, $4 }'
ip route show default | awk '{ print $3 }'
resolvectl dns uplink0
sudo sh -c 'cd /var/lib/cloud/seed/nocloud && ls && cat user-data vendor-data'`

// darkSystem is what it says.
var darkSystem = []string{
	"cloud-init 0", "worker-1", "i1-1", "uplink0 " + darkAddress + "/24", "192.0.2.254", "Link 2 (uplink0): 192.0.2.53",
	"meta-data", "network-config", "user-data", "vendor-data", "#cloud-config", "{}", "#cloud-config", "{}",
}

// visit is what is seen of a system from outside.
type visit struct {
	hostKey string
	says    []string
}

// visit logs in until that succeeds.
func (in installation) visit(ctx context.Context, t *testing.T, from *network.Stack, key ssh.Signer) visit {
	t.Helper()
	for {
		got, err := logIn(ctx, from, key)
		if err == nil {
			return got
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%v; the console ends in:\n%s", errors.Join(err, ctx.Err()), tail(console(in.vm), 6000))
		case <-time.After(time.Second):
		}
	}
}

// logIn is one try.
func logIn(ctx context.Context, from *network.Stack, key ssh.Signer) (got visit, err error) {
	dialing, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	conn, err := from.DialContext(dialing, "tcp", darkAddress+":22")
	if err != nil {
		return got, err
	}
	defer func() { _ = conn.Close() }()
	if err := conn.SetDeadline(time.Now().Add(bootDeadline)); err != nil {
		return got, err
	}
	through, channels, requests, err := ssh.NewClientConn(conn, darkAddress, &ssh.ClientConfig{
		User: "debian", Auth: []ssh.AuthMethod{ssh.PublicKeys(key)},
		HostKeyCallback: func(_ string, _ net.Addr, host ssh.PublicKey) error {
			got.hostKey = ssh.FingerprintSHA256(host)
			return nil
		},
	})
	if err != nil {
		return got, err
	}
	client := ssh.NewClient(through, channels, requests)
	defer func() { _ = client.Close() }()
	session, err := client.NewSession()
	if err != nil {
		return got, err
	}
	out, err := session.CombinedOutput(look)
	got.says = strings.Split(strings.TrimSpace(string(out)), "\n")
	if _, refused := errors.AsType[*ssh.ExitError](err); refused {
		return got, nil // it is up, and what it says is not what is wanted
	}
	return got, err
}
