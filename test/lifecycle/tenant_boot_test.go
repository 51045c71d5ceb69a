// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/insomniacslk/dhcp/dhcpv4"
	eventsv1 "k8s.io/api/events/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bootlog"
	"github.com/ingot-metal/ingot/lab/network"
)

// event is the text of an event about an object, empty if there is none.
func (i *intruder) event(ctx context.Context, namespace, name, reason string) (string, error) {
	list := &eventsv1.EventList{}
	if err := i.site.Client.List(ctx, list, client.InNamespace(namespace)); err != nil {
		return "", err
	}
	for _, e := range list.Items {
		if e.Regarding.Name == name && e.Reason == reason {
			return e.Note, nil
		}
	}
	return "", nil
}

// boots installs the victim, and has a neighbor on the boot network try to get what is meant
// for it: its boot script, its token, its session, its bootstrap data.
func (i *intruder) boots() {
	i.t.Helper()
	site, mac := i.site, i.site.Server(victimName).MAC.String()
	neighbor, err := network.NewStack(site.DataCenter.Switch, network.StackConfig{Name: "intruder", Address: netip.MustParsePrefix(site.subnet("78/16"))})
	check(i.t, err)
	i.t.Cleanup(func() { _ = neighbor.Close() })
	bootServer := site.subnet("2") + ":8880"
	a := &abuse{t: i.t, site: site, name: victimName, nic: i.nics[victimName]}
	site.Images.Hold()
	site.Claim(i.t, victimName, theHost(victimName))
	id := a.atWork("")
	before := i.actions()

	thief := newUnknownClient(i.t, neighbor)
	for what, headers := range map[string]http.Header{
		"": nil, ", with forwarding headers": {"X-Forwarded-For": {i.addressOf(victimName)}, "Forwarded": {"for=" + i.addressOf(victimName)}, "X-Real-Ip": {i.addressOf(victimName)}},
	} {
		thief.headers = headers
		for whose, asked := range map[string]string{"another tenant's host": mac, "an unregistered server": site.Server(unregistered).MAC.String(), "a host that is not on this network": madeUp(1)} {
			i.attack("the boot script of "+whose+what, func(ctx context.Context) error {
				if err := thief.Steal(ctx, bootServer, asked); !errors.Is(err, ErrNoAgentBoot) {
					return fmt.Errorf("answered %v", err) //nolint:errorlint // nil is an answer too
				}
				return nil
			})
		}
	}
	i.attack("the token of another tenant's host by DHCPINFORM", func(context.Context) error { return informed(neighbor, mac) })

	// From here on the intruder has read the token on the wire.
	listener := newUnknownClient(i.t, i.nics[victimName])
	check(i.t, listener.Steal(i.t.Context(), bootServer, mac))
	thief.token, thief.server = listener.token, listener.server
	refused := func(name string, s *UnknownClient, path string, in any) {
		i.t.Helper()
		i.attack(name, func(ctx context.Context) error {
			reason, err := s.Call(ctx, path, in)
			if err == nil && reason == "" {
				return errors.New("it was accepted")
			}
			return err
		})
	}
	for what, headers := range map[string]http.Header{"": nil, ", with forwarding headers": {"X-Forwarded-For": {i.addressOf(victimName)}}} {
		thief.headers = headers
		refused("a token from another address: open a session"+what, thief, agentapi.PathSession, agentapi.SessionRequest{})
		refused("a token from another address: read the bootstrap data"+what, thief, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id, VerifiedChecksum: site.Images.Checksum})
		refused("a token from another address: report a success"+what, thief, agentapi.PathReport, agentapi.Report{OrderID: id, Outcome: agentapi.Succeeded})
		refused("a token from another address: report the first boot"+what, thief, agentapi.PathBooted, agentapi.Booted{})
	}
	thief.headers = nil
	i.attack("a token from another address, behind a PROXY protocol header", func(ctx context.Context) error { return proxied(ctx, neighbor, thief.server, i.addressOf(victimName)) })
	for what, change := range map[string]func(string) string{
		"for a host of the intruder": func(token string) string {
			return strings.Replace(token, "/"+site.Namespace+"/", "/"+i.namespace+"/", 1)
		},
		"with another end": func(token string) string { return token[:len(token)-4] + "AAAA" },
		"without its seal": func(token string) string { return token[:strings.LastIndexByte(token, '/')+1] },
	} {
		changed := newUnknownClient(i.t, i.nics[victimName])
		changed.server, changed.token = thief.server, change(listener.token)
		if changed.token == listener.token {
			i.t.Errorf("the token %s is the same", what)
		}
		refused("a token that was changed: "+what, changed, agentapi.PathSession, agentapi.SessionRequest{})
	}
	nameless := newUnknownClient(i.t, neighbor)
	nameless.server = thief.server
	refused("no token", nameless, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id})
	i.attack("boots of others written into the boot log", func(ctx context.Context) error {
		status, err := nameless.post(ctx, bootlog.Path, []byte(`{"boots":[]}`))
		if err == nil && status < 400 {
			return fmt.Errorf("answered %d", status)
		}
		return err
	})
	time.Sleep(statusHold / 2) // two polls
	if order := site.Host(i.t, victimName).Spec.Order; order == nil || order.ID != id || ptr.Deref(order.Revoked, false) {
		i.t.Errorf("a request from another address changed the order: %+v", order)
	}
	if after := i.actions(); !slices.Equal(before, after) {
		i.t.Errorf("BMCs of others did %v, then %v", before, after)
	}
	site.Images.Release()
	site.Await(i.t, "the other tenant's host is installed all the same", site.Installed(victimName))
	refused("a token of an install that has ended: open a session again", listener, agentapi.PathSession, agentapi.SessionRequest{})
	refused("a token of an install that has ended: read the bootstrap data", listener, agentapi.PathBootstrap, agentapi.BootstrapRequest{OrderID: id, VerifiedChecksum: site.Images.Checksum})
	if host := site.Host(i.t, victimName); host.Spec.Claim.State != infrav1.ClaimProvisioned || host.Spec.Order != nil || !site.Server(victimName).Powered() {
		i.t.Errorf("the host in use is changed: %+v", host.Spec)
	}
}

// addressOf is the address that is recorded for a host of the victim's tenant.
func (i *intruder) addressOf(name string) string {
	i.t.Helper()
	facts := &infrav1.IngotHardware{}
	check(i.t, i.site.Client.Get(i.t.Context(), client.ObjectKey{Namespace: i.site.Namespace, Name: name}, facts))
	if facts.Spec.Address == nil {
		i.t.Fatalf("%s has no address", name)
	}
	return facts.Spec.Address.IP
}

// informed asks as the agent of a host does, from another address; an answer with a token is
// an error.
func informed(from *network.Stack, mac string) error {
	hardware, err := net.ParseMAC(mac)
	if err != nil {
		return err
	}
	conn, err := from.ListenUDP(68)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	address := from.Address()
	asked, err := dhcpv4.NewInform(hardware, address.Addr().AsSlice(), dhcpv4.WithOption(dhcpv4.OptClassIdentifier(agentapi.VendorClass)),
		dhcpv4.WithRequestedOptions(dhcpv4.GenericOptionCode(agentapi.OptionServer), dhcpv4.GenericOptionCode(agentapi.OptionToken)))
	if err != nil {
		return err
	}
	if _, err := conn.WriteTo(asked.ToBytes(), &net.UDPAddr{IP: net.IPv4bcast, Port: 67}); err != nil {
		return err
	}
	_ = conn.SetReadDeadline(time.Now().Add(2 * time.Second))
	buffer := make([]byte, 1500)
	for {
		n, _, err := conn.ReadFrom(buffer)
		if err != nil {
			return nil // no answer
		}
		answer, err := dhcpv4.FromBytes(buffer[:n])
		if err == nil && answer.TransactionID == asked.TransactionID && answer.Options.Has(dhcpv4.GenericOptionCode(agentapi.OptionToken)) {
			return errors.New("the answer holds the token")
		}
	}
}

// proxied opens a connection to the agent API with a header that names another source; that
// the TLS handshake succeeds is an error.
func proxied(ctx context.Context, from Dialer, server, source string) error {
	conn, err := from.DialContext(ctx, "tcp", server)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(conn, "PROXY TCP4 %s %s 40000 8843\r\n", source, host); err != nil {
		return err
	}
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	if err := tls.Client(conn, &tls.Config{MinVersion: tls.VersionTLS13, InsecureSkipVerify: true}).HandshakeContext(ctx); err == nil { // who does wrong does not verify
		return errors.New("the header was taken")
	}
	return nil
}

// post sends a body, and returns the status.
func (s *UnknownClient) post(ctx context.Context, path string, body []byte) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "https://"+s.server+path, bytes.NewReader(body))
	if err != nil {
		return 0, err
	}
	response, err := s.client.Do(request)
	if err != nil {
		return 0, err
	}
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Body.Close()
}
