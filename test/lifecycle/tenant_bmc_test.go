// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/bmc"
)

// Names of the intruder's zone: of a server in the management network, of one that changes
// its address after the first query, and of another tenant's BMC.
const (
	internalName = "internal.intruder.test"
	rebindName   = "rebind.intruder.test"
	aliasName    = "alias.intruder.test"
)

// pushOnly is the personality of a BMC that takes firmware by push alone.
func pushOnly(t *testing.T) bmc.Personality {
	t.Helper()
	for _, p := range bmc.Personalities() {
		if p.Name == "openbmc" {
			return p
		}
	}
	t.Fatal("there is no personality openbmc")
	return bmc.Personality{}
}

// A trap counts the connections to an address.
type trap struct {
	port int
	hits atomic.Int32
}

// newTrap listens at an address, and serves what handler says; nil: nothing.
func newTrap(t *testing.T, address string, handler http.Handler) *trap {
	t.Helper()
	listener, err := net.Listen("tcp", address)
	check(t, err)
	tcp, ok := listener.Addr().(*net.TCPAddr)
	if !ok {
		t.Fatalf("address %v", listener.Addr())
	}
	trapped := &trap{port: tcp.Port}
	if handler == nil {
		handler = http.NotFoundHandler()
	}
	server := &http.Server{Handler: handler, ReadHeaderTimeout: 10 * time.Second, ConnState: func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			trapped.hits.Add(1)
		}
	}}
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Close() })
	return trapped
}

// connects tries to have the manager connect to servers of the management network, and to
// BMCs of others.
func (i *intruder) connects() {
	i.t.Helper()
	internal := newTrap(i.t, excluded+":0", nil)
	port := strconv.Itoa(internal.port)
	service := &corev1.Service{}
	check(i.t, i.site.Client.Get(i.t.Context(), client.ObjectKey{Namespace: "default", Name: "kubernetes"}, service))
	for what, address := range map[string]string{
		"an excluded address":              "redfish+http://" + excluded + ":" + port,
		"the same as IPv4 in IPv6":         "redfish+http://[::ffff:" + excluded + "]:" + port,
		"the same through NAT64":           "redfish+http://[64:ff9b::7f42:1]:" + port,
		"a metadata service":               "redfish+http://169.254.169.254",
		"the same, a protocol unspecified": "169.254.169.254:80",
		"the unspecified address":          "redfish+http://0.0.0.0:" + port,
		"a link-local address":             "redfish://[fe80::1]",
		"the cluster IP of the API server": "redfish://" + service.Spec.ClusterIP,
	} {
		i.forbidden("BMC address: "+what+", created", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("reaches", i.roomy, madeUp(20), address))
		}, "spec.bmc.address", "--bmc-sources")
		i.forbidden("BMC address: "+what+", changed", i.change(fakeName, leadTo(address)), "spec.bmc.address", "--bmc-sources")
	}
	for _, address := range []string{"redfish+http://2130706433:" + port, "redfish+http://127.66.1:" + port,
		"redfish+http://user@" + excluded + ":" + port, "redfish+http://" + excluded + ":" + port + "/api/v1/secrets"} {
		i.forbidden("BMC address: "+address, func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("reaches", i.roomy, madeUp(20), address))
		}, "spec.bmc.address")
	}
	i.resolves(internal, port)
	i.guesses()
}

// resolves tries the same by names, which admission does not look up, and by redirects.
func (i *intruder) resolves(internal *trap, port string) {
	i.t.Helper()
	untouched := func() error {
		if n := internal.hits.Load(); n > 0 {
			return fmt.Errorf("the manager connected to the internal server %d times", n)
		}
		return nil
	}
	i.attack("BMC address: a name that leads to an excluded address", func(ctx context.Context) error {
		i.works("register a host by a name", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("by-name", i.roomy, madeUp(21), "redfish+http://"+internalName+":"+port))
		})
		return errors.Join(i.says("by-name", infrav1.ReasonBMCAddressNotAllowed, "--bmc-sources"), untouched())
	})
	i.attack("BMC address: a number that some resolvers take for an excluded address", func(ctx context.Context) error {
		i.works("register a host by a name", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("by-number", i.roomy, madeUp(27), "redfish+http://0x7f420001:"+port))
		})
		return errors.Join(i.says("by-number", "BMC"), untouched())
	})
	redirect := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://"+excluded+":"+port+r.URL.Path, http.StatusTemporaryRedirect)
	})
	newTrap(i.t, "127.0.0.1:"+port, redirect)
	i.attack("BMC address: a name that leads elsewhere after the first query (DNS rebinding)", func(ctx context.Context) error {
		i.works("register a host by a name", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("rebinds", i.roomy, madeUp(22), "redfish+http://"+rebindName+":"+port))
		})
		i.site.Await(i.t, "the manager to look the name up again", func(context.Context) (string, error) {
			if n := i.names.Asked(rebindName); n < 2 {
				return fmt.Sprintf("it asked %d times", n), nil
			}
			return "", nil
		})
		return errors.Join(i.says("rebinds", infrav1.ReasonBMCAddressNotAllowed), untouched())
	})
	i.attack("BMC address: a BMC that redirects to an excluded address", func(ctx context.Context) error {
		own := newTrap(i.t, "127.0.0.1:0", redirect)
		i.works("register a host", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("redirects", i.roomy, madeUp(23), fmt.Sprint("redfish+http://127.0.0.1:", own.port)))
		})
		err := i.says("redirects", "BMC")
		if own.hits.Load() == 0 {
			return errors.New("the manager did not connect to the tenant's BMC: nothing was tried")
		}
		return errors.Join(err, untouched())
	})
	i.attack("BMC address: a name that leads to another tenant's BMC", func(ctx context.Context) error {
		before := i.refusedLogins(victimName)
		_, port, _ := strings.Cut(strings.TrimPrefix(i.site.bmcURL[victimName], "redfish://"), ":")
		i.works("register a host by a name", func(ctx context.Context) error {
			return i.client.Create(ctx, i.host("alias", i.roomy, madeUp(24), "redfish://"+aliasName+":"+port))
		})
		err := i.says("alias", infrav1.ReasonDuplicate)
		if n := i.refusedLogins(victimName) - before; n > 0 {
			return fmt.Errorf("the other tenant's BMC refused %d logins", n)
		}
		return err
	})
}

// guesses tries many passwords at a BMC of no registered host.
func (i *intruder) guesses() {
	i.t.Helper()
	const passwords, tolerated = 40, 5
	i.attack(fmt.Sprintf("%d passwords at once for the account of a BMC", passwords), func(ctx context.Context) error {
		host := i.host("guesses", i.roomy, madeUp(25), i.site.bmcURL[unregistered])
		for n := range passwords {
			i.works("create a Secret", func(ctx context.Context) error {
				return i.client.Create(ctx, i.secret(fmt.Sprint("guess-", n), fmt.Sprint("guess ", n)))
			})
		}
		host.Spec.BMC.CredentialsRef.Name = "guess-0"
		i.works("register the host", func(ctx context.Context) error { return i.client.Create(ctx, host) })
		for n := range passwords {
			i.works("name another Secret", i.change(host.Name, func(h *infrav1.IngotHost) { h.Spec.BMC.CredentialsRef.Name = fmt.Sprint("guess-", n) }))
			time.Sleep(50 * time.Millisecond)
		}
		// Deleting the host and registering it again must not begin the count again.
		i.works("delete the host", func(ctx context.Context) error { return client.IgnoreNotFound(i.client.Delete(ctx, host)) })
		again := i.host("guesses-again", i.roomy, madeUp(26), i.site.bmcURL[unregistered])
		again.Spec.BMC.CredentialsRef.Name = "guess-7"
		i.site.Await(i.t, "the host to be registered again, once the first is gone", func(ctx context.Context) (string, error) {
			if err := i.client.Create(ctx, again); err != nil && !apierrors.IsAlreadyExists(err) {
				return err.Error(), nil
			}
			return "", nil
		})
		if err := i.says("guesses-again", "BMC"); err != nil {
			return err
		}
		if n := i.refusedLogins(unregistered); n == 0 || n > tolerated {
			return fmt.Errorf("the BMC refused %d logins, want 1 to %d", n, tolerated)
		}
		return nil
	})
}

// refusedLogins counts the logins that a BMC refused.
func (i *intruder) refusedLogins(name string) (count int) {
	for _, write := range i.site.Server(name).BMC.Writes() {
		if write.Action == "Login" && write.Status == http.StatusUnauthorized {
			count++
		}
	}
	return count
}

// takesIdentity has a server of the intruder's report the UUID and serial number of a free
// host of another tenant.
func (i *intruder) takesIdentity() {
	i.t.Helper()
	i.attack("an inspection that reports another tenant's UUID and serial number", func(ctx context.Context) error {
		i.register(forgerName)
		i.site.Await(i.t, "the inspection to be refused", func(ctx context.Context) (string, error) {
			text, err := i.event(ctx, i.namespace, forgerName, infrav1.ReasonDuplicate)
			if text == "" {
				return "there is no event", err
			}
			return "", err
		})
		facts := &infrav1.IngotHardware{}
		if err := i.site.Client.Get(ctx, client.ObjectKey{Namespace: i.namespace, Name: forgerName}, facts); client.IgnoreNotFound(err) != nil {
			return err
		}
		if facts.Spec.System.UUID != "" || facts.Spec.System.SerialNumber != "" {
			return fmt.Errorf("the identity was recorded: %+v", facts.Spec.System)
		}
		if lack, err := i.site.Free(victimName)(ctx); lack != "" || err != nil {
			return errors.Join(errors.New(lack), err)
		}
		return nil
	})
}

// pushes has Ingot fetch firmware from an address, and push it to the intruder's BMC.
func (i *intruder) pushes() {
	i.t.Helper()
	i.attack("firmware without a checksum, for a BMC that takes it by push", func(ctx context.Context) error {
		i.register(pushName)
		i.site.Await(i.t, "host inspected", i.own.Free(pushName))
		secret := newTrap(i.t, "127.0.0.1:0", http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("internal")) }))
		err := i.change(pushName, func(h *infrav1.IngotHost) {
			h.Spec.Firmware = []infrav1.FirmwareComponent{{Component: "BIOS", Version: "9.9.9", URL: fmt.Sprintf("http://127.0.0.1:%d/secret", secret.port)}}
		})(ctx)
		if err != nil {
			return nil // a refusal
		}
		server := i.site.Server(pushName).BMC
		err = i.says(pushName, "", "checksum")
		if server.PushedBytes() > 0 || secret.hits.Load() > 0 || slices.ContainsFunc(server.Writes(), func(w bmc.Write) bool { return strings.Contains(w.Path, "update") }) {
			return fmt.Errorf("the BMC was given %d bytes, and %d connections were made to the image's server", server.PushedBytes(), secret.hits.Load())
		}
		return err
	})
}
