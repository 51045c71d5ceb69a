// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"errors"
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
)

// These tests cover behavior that was reported of BMCs in the field.

// TestBasicAuthentication checks that a service without sessions gets the credentials with each
// request, even without TLS or verification: a login would expose them too.
func TestBasicAuthentication(t *testing.T) {
	verified := newPersonality(t, bmctest.BasicOnly, nil)
	if _, err := verified.dial(t).PowerState(t.Context()); err != nil {
		t.Errorf("verified: %v", err)
	}
	verified.target.Address += verified.SystemPath()
	if _, err := verified.dial(t).PowerState(t.Context()); err != nil {
		t.Errorf("verified, with the path of the system: %v", err)
	}
	verified.target.Password += "-wrong"
	_, err := redfish.Dial(t.Context(), verified.target)
	if clean(t, err); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("a wrong password: %v", err)
	}
	for name, change := range map[string]func(*labbmc.Config, *bmc.Target){
		"not verified": func(_ *labbmc.Config, t *bmc.Target) { t.CABundle, t.InsecureSkipVerify = nil, true },
		"in clear":     func(c *labbmc.Config, t *bmc.Target) { c.Plain, t.CABundle = true, nil },
	} {
		t.Run(name, func(t *testing.T) {
			var target bmc.Target
			r := newPersonality(t, bmctest.BasicOnly, func(c *labbmc.Config) { change(c, &target) })
			change(&labbmc.Config{}, &r.target)
			if _, err := r.dial(t).PowerState(t.Context()); err != nil {
				t.Error(err)
			}
			if n := r.BasicRequests(); n == 0 {
				t.Error("no request carried the password")
			}
			r.target.Password += "-wrong"
			_, err := redfish.Dial(t.Context(), r.target)
			if clean(t, err); !errors.Is(err, bmc.ErrUnauthorized) {
				t.Errorf("a wrong password: %v", err)
			}
		})
	}
}

// TestControlCharacters checks that raw control characters in texts lose no resource.
func TestControlCharacters(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, nil)
	r.SetFaults(labbmc.Faults{RawControls: true})
	conn := r.dial(t)
	if _, err := conn.PowerState(t.Context()); err != nil {
		t.Error(err)
	}
	if inv, err := conn.Inventory(t.Context()); err != nil || len(inv.MACs) != 2 {
		t.Errorf("%+v, %v", inv, err)
	}
	if schemas, err := conn.SettingSchemas(t.Context()); err != nil || len(schemas) == 0 {
		t.Errorf("%d schemas, %v", len(schemas), err)
	}
	if items, err := conn.FirmwareInventory(t.Context()); err != nil || len(items) == 0 || strings.ContainsAny(items[0].Name, "\t\r\n\x01") {
		t.Errorf("%+v, %v", items, err)
	}
}

// TestMissingMediaParameters checks that InsertMedia adds the parameters that refusals name, one
// after the other.
func TestMissingMediaParameters(t *testing.T) {
	for name, tc := range map[string]struct {
		wants  []string
		writes int
		err    error
	}{
		"three, named in three ways": {[]string{"TransferProtocolType", "TransferMethod", "UserName"}, 4, nil},
		"two":                        {[]string{"Inserted", "WriteProtected"}, 3, nil},
		"one that Ingot has not":     {[]string{"Oem"}, 1, bmc.ErrNotApplied},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) { c.Personality.Quirks.MediaWants = tc.wants })
			_, err := r.dial(t).InsertMedia(t.Context(), bmc.MediaCD, "http://192.0.2.1/UserName/x.iso")
			if !errors.Is(err, tc.err) {
				t.Errorf("error %v, want %v", err, tc.err)
			}
			if n := len(writesOf(r)); n != tc.writes {
				t.Errorf("%d writes, want %d: %v", n, tc.writes, writesOf(r))
			}
		})
	}
}

// TestFactoryPassword checks that a required password change is reported and made at the account
// that the BMC names.
func TestFactoryPassword(t *testing.T) {
	factory, _ := personality.Named("openbmc-factory")
	for _, path := range []string{"", "with the system's path"} {
		t.Run(path, func(t *testing.T) {
			r := newPersonality(t, bmctest.OpenBMC, func(c *labbmc.Config) { c.Personality = factory })
			if path != "" {
				r.target.Address += r.SystemPath()
			}
			pool := bmc.NewPool(redfish.Dial, bmc.PoolOptions{})
			defer closePool(t, pool)
			err := pool.Do(t.Context(), r.target, readState)
			if !errors.Is(err, bmc.ErrPasswordChange) || errors.Is(err, bmc.ErrUnauthorized) {
				t.Errorf("error %v, want ErrPasswordChange", err)
			}
			const next = "NewPassw0rd"
			if err := pool.Do(t.Context(), r.target, func(ctx context.Context, c bmc.Conn) error { return c.SetPassword(ctx, next) }); err != nil {
				t.Fatal(err)
			}
			r.target.Password = next
			if err := pool.Do(t.Context(), r.target, readState); err != nil || r.Password() != next {
				t.Errorf("after the change: %v", err)
			}
		})
	}
}

// TestServerErrorIsNotAnAnswer checks that a 5xx answer to a read causes ErrBusy and no
// conclusion: neither a list without the item nor "not supported".
func TestServerErrorIsNotAnAnswer(t *testing.T) {
	for name, tc := range map[string]struct {
		path string
		call func(context.Context, bmc.Conn) error
	}{
		"an item of firmware":    {"/FirmwareInventory/", func(ctx context.Context, c bmc.Conn) error { _, err := c.FirmwareInventory(ctx); return err }},
		"the list of firmware":   {"/UpdateService", func(ctx context.Context, c bmc.Conn) error { _, err := c.FirmwareInventory(ctx); return err }},
		"a network interface":    {"/EthernetInterfaces/", func(ctx context.Context, c bmc.Conn) error { _, err := c.Inventory(ctx); return err }},
		"the network interfaces": {"/EthernetInterfaces", func(ctx context.Context, c bmc.Conn) error { _, err := c.Inventory(ctx); return err }},
		"the manager":            {"/Managers/", func(ctx context.Context, c bmc.Conn) error { _, err := c.Identity(ctx); return err }},
		"the registries": {"/Registries", func(ctx context.Context, c bmc.Conn) error {
			return c.SetSettings(ctx, map[string]string{"QuietBoot": "false"})
		}},
		"the drives for media": {"/VirtualMedia/", func(ctx context.Context, c bmc.Conn) error { _, err := c.MediaSlots(ctx); return err }},
		"the accounts":         {"/Accounts/", func(ctx context.Context, c bmc.Conn) error { return c.SetPassword(ctx, canary+"2") }},
		"the log":              {"/LogServices/", func(ctx context.Context, c bmc.Conn) error { _, err := c.EventLog(ctx, 1); return err }},
		"Secure Boot":          {"/SecureBoot", func(ctx context.Context, c bmc.Conn) error { _, err := c.SecureBoot(ctx); return err }},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) { c.Personality.Quirks.Expand = false })
			conn := r.dial(t)
			r.SetFaults(labbmc.Faults{Status: 500, MessageID: "IDRAC.2.8.SYS518", Match: func(method, path string) bool {
				return method == http.MethodGet && strings.Contains(path, tc.path)
			}})
			err := tc.call(t.Context(), conn)
			if !errors.Is(err, bmc.ErrBusy) || errors.Is(err, bmc.ErrNotSupported) {
				t.Errorf("error %v, want ErrBusy", err)
			}
			if got := writesOf(r); len(got) > 0 {
				t.Errorf("writes: %v", got)
			}
			r.SetFaults()
			if err := tc.call(t.Context(), conn); err != nil {
				t.Errorf("when it can tell: %v", err)
			}
		})
	}
}

// TestRegistryNames checks that the attribute registry is found however its names differ, and that
// read-only settings are not sent.
func TestRegistryNames(t *testing.T) {
	const usual = "BiosAttributeRegistry.v1_0_0"
	others := []string{"ManagerAttributeRegistry.v1_0_0", "NetworkAttributesRegistry_NIC.1", "Base.1.8.1", "BiosAttributeRegistryX"}
	for name, tc := range map[string]struct {
		id    string
		names personality.RegistryNames
		found bool
	}{
		"all agree":                     {usual, personality.RegistryNames{}, true},
		"another version in Bios":       {usual, personality.RegistryNames{Bios: "BiosAttributeRegistry.v1_0_3", ID: "BiosAttributeRegistry.v1_0_3"}, true},
		"another version in Bios alone": {usual, personality.RegistryNames{Bios: "BiosAttributeRegistry.v1_0_3"}, true},
		"a version without a dot":       {usual, personality.RegistryNames{Bios: "BiosAttributeRegistry.1.0.0", File: "BiosAttributeRegistry1.0"}, true},
		"no name in Bios":               {usual, personality.RegistryNames{Bios: "-"}, true},
		"named by the file alone":       {usual, personality.RegistryNames{Member: "Bios", File: usual}, true},
		"another's name in Bios":        {usual, personality.RegistryNames{Bios: "Contoso.v1_0_0"}, false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) {
				tc.names.Others = others[:3]
				c.Personality.BIOSRegistry, c.Personality.Quirks.RegistryNames = tc.id, tc.names
			})
			conn := r.dial(t)
			schemas, err := conn.SettingSchemas(t.Context())
			if (err == nil) != tc.found || !tc.found && !errors.Is(err, bmc.ErrNotSupported) {
				t.Fatalf("found %v, error %v", slices.Sorted(maps.Keys(schemas)), err)
			}
			if !tc.found {
				return
			}
			var refused *bmc.SettingError
			if err := conn.SetSettings(t.Context(), map[string]string{"SystemBiosVersion": "2"}); !errors.As(err, &refused) || refused.Reason != "read-only" {
				t.Errorf("a read-only value: %v", err)
			}
			if got := writesOf(r); len(got) > 0 {
				t.Errorf("writes: %v", got)
			}
		})
	}
	t.Run("several, and no name in Bios", func(t *testing.T) {
		r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) {
			c.Personality.BIOSRegistry, c.Personality.Quirks.RegistryNames = usual, personality.RegistryNames{Bios: "-", Others: others[3:]}
		})
		if schemas, err := r.dial(t).SettingSchemas(t.Context()); !errors.Is(err, bmc.ErrNotSupported) {
			t.Errorf("%d schemas, %v", len(schemas), err)
		}
	})
}

// TestChassisOnlyNetworkCard checks that a card that the system does not list is found.
func TestChassisOnlyNetworkCard(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) { c.Personality.Quirks.ChassisAdapter = true })
	conn := r.dial(t)
	inv, err := conn.Inventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"52:54:00:00:00:01", "52:54:00:00:00:02"}, inv.MACs); diff != "" {
		t.Errorf("MACs (-want +got):\n%s", diff)
	}
	r.SetFaults(labbmc.Faults{Body: "no JSON", Match: func(_, path string) bool { return strings.Contains(path, "NetworkAdapters/") }})
	if inv, err = conn.Inventory(t.Context()); err != nil || inv.MACs != nil {
		t.Errorf("where it cannot be read: %v, %v; want no list", inv.MACs, err)
	}
}

// TestExpand checks that firmware is read in one answer if the BMC expands collections, and is
// equal if the BMC expands them wrongly.
func TestExpand(t *testing.T) {
	items := func(set func(*labbmc.Quirks), faults ...labbmc.Faults) ([]bmc.FirmwareItem, int) {
		r := newPersonality(t, bmctest.Standard, func(c *labbmc.Config) {
			c.Personality.Quirks.Expand = false
			set(&c.Personality.Quirks)
		})
		conn := r.dial(t)
		r.SetFaults(faults...)
		before := r.Reads()
		all, err := conn.FirmwareInventory(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		return all, r.Reads() - before
	}
	want, single := items(func(*labbmc.Quirks) {})
	got, one := items(func(q *labbmc.Quirks) { q.Expand = true })
	if diff := cmp.Diff(want, got); diff != "" || one != 2 || single != 2+len(want) {
		t.Errorf("in %d requests, one by one in %d (-want +got):\n%s", one, single, diff)
	}
	got, all := items(func(q *labbmc.Quirks) { q.ExpandLies = true })
	if diff := cmp.Diff(want, got); diff != "" || all != single+1 {
		t.Errorf("left out: %d requests (-want +got):\n%s", all, diff)
	}
}

// TestExpandTimeout checks that after a timeout of an expanded read, the next try reads the
// members one by one.
func TestExpandTimeout(t *testing.T) {
	r := newPersonality(t, bmctest.Standard, nil)
	conn := r.dial(t)
	want, err := conn.FirmwareInventory(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	expands := 0
	r.SetFaults(labbmc.Faults{Hang: true, Match: func(_, path string) bool {
		expands++
		return strings.HasSuffix(path, "/FirmwareInventory") && expands == 2 // after the service
	}})
	ctx, cancel := context.WithTimeout(t.Context(), shortWait)
	defer cancel()
	if _, err := conn.FirmwareInventory(ctx); err == nil {
		t.Fatal("it was not cut off")
	}
	got, err := conn.FirmwareInventory(t.Context())
	for i := range got {
		got[i].FromEarlierRead = false
	}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
