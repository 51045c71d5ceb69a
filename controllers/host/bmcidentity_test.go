// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// Calls in a new session reach the same server or none, from the worker and from background calls.
func TestIdentityGuard(t *testing.T) {
	server, other := bmc.Identity{UUID: "u-1", Serial: "A1"}, bmc.Identity{UUID: "u-2", Serial: "B2"}
	send := func(ctx context.Context, conn bmc.Conn) error { return conn.SetPower(ctx, bmc.ActionForceOff) }
	calls := map[string]func(context.Context, *Reconciler, bmc.Target) error{
		"worker": func(ctx context.Context, r *Reconciler, target bmc.Target) error {
			return firmwareBMC{r}.Do(ctx, target, send)
		},
		"in the background": func(ctx context.Context, r *Reconciler, target bmc.Target) error {
			return firmwareBMC{r}.DoWithin(ctx, target, time.Minute, send)
		},
	}
	for name, call := range calls {
		for _, tc := range []struct {
			name    string
			session uint64
			now     bmc.Identity
			sent    bool
		}{
			{"the same session", 7, server, true},
			{"a new session", 8, server, true},
			{"a new session with another server", 8, other, false},
		} {
			t.Run(name+"/"+tc.name, func(t *testing.T) {
				host := &infrav1.IngotHost{
					ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "h", UID: "1"},
					Spec:       infrav1.IngotHostSpec{BMC: &infrav1.BMC{Address: "redfish://bmc"}},
				}
				metal := &sessioned{identified: &identified{fakeBMC: &fakeBMC{}, identity: tc.now}, session: tc.session}
				r := &Reconciler{BMC: metal}
				seen := &observation{target: bmc.Target{Address: "redfish://bmc", Username: "root", Password: canary}, known: bmcState{
					listed: true, session: 7, identity: inventory.SystemIdentity{UUID: "u-1", SerialNumber: "A1"},
				}}
				r.memory.keepBMC(host, seen.known)
				err := call(r.withIdentityGuard(t.Context(), host, seen), r, seen.target)
				if sent := len(metal.writes) > 0; sent != tc.sent || tc.sent != (err == nil) || !tc.sent && !errors.Is(err, bmc.ErrBusy) {
					t.Errorf("sent %t, %v; want %t", sent, err, tc.sent)
				}
				if r.memory.bmcOf(host).listed != tc.sent {
					t.Error("another server is not looked at, or ours is looked at once more")
				}
				if name == "in the background" && !seen.known.listed {
					t.Error("a background call writes into the reconcile's view")
				}
			})
		}
	}
}

// The NIC list is replaced only by a non-empty list of the same server (I8).
func TestMissingNICIsListedAgain(t *testing.T) {
	server, other := bmc.Identity{UUID: "u-1", Serial: "A1"}, bmc.Identity{UUID: "u-2", Serial: "B2"}
	now := time.Unix(10_000, 0)
	before := bmcState{
		listed: true, macs: []string{"52:54:00:ff:ff:01"}, identity: identityOf(server),
		sought: "52:54:00:00:00:01", soughtAt: now.Add(-relistAfter),
	}
	for name, tc := range map[string]struct {
		metal  identified
		mac    string
		asked  int
		listed bool
		macs   []string
		// soon: the next poll continues.
		soon bool
	}{
		"lists a part":           {metal: identified{fakeBMC: &fakeBMC{}, identity: server, slow: bmc.ErrUnfinished}, asked: 1, listed: true, macs: before.macs, soon: true},
		"lists it now":           {metal: identified{fakeBMC: &fakeBMC{macs: []string{"52:54:00:00:00:01"}}, identity: server}, asked: 1, listed: true, macs: []string{"52:54:00:00:00:01"}},
		"lists none for once":    {metal: identified{fakeBMC: &fakeBMC{}, identity: server}, asked: 1, listed: true, macs: before.macs},
		"is too slow":            {metal: identified{fakeBMC: &fakeBMC{}, identity: server, slow: bmc.ErrTimeout}, asked: 1, listed: true, macs: before.macs},
		"is another server's":    {metal: identified{fakeBMC: &fakeBMC{macs: []string{"52:54:00:00:00:01"}}, identity: other}, asked: 1, macs: before.macs},
		"listed it all the time": {metal: identified{fakeBMC: &fakeBMC{}, identity: server}, mac: "52:54:00:ff:ff:01", listed: true, macs: before.macs},
	} {
		t.Run(name, func(t *testing.T) {
			wanted := before.sought
			if tc.mac != "" {
				wanted = tc.mac
			}
			got := before.withMissingNICSought(t.Context(), &tc.metal, wanted, now)
			if tc.metal.listed != tc.asked || got.listed != tc.listed {
				t.Errorf("asked %d times, want %d; listed %t, want %t", tc.metal.listed, tc.asked, got.listed, tc.listed)
			}
			if diff := cmp.Diff(tc.macs, got.macs); diff != "" {
				t.Errorf("NICs (-want +got):\n%s", diff)
			}
			tc.metal.listed = 0
			if got.withMissingNICSought(t.Context(), &tc.metal, wanted, now.Add(relistAfter-time.Second)); (tc.metal.listed != 0) != tc.soon {
				t.Errorf("asked again soon: %t, want %t", tc.metal.listed != 0, tc.soon)
			}
		})
	}
}
