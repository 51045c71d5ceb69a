// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// distrusted: the host's claim demands more than its boots are worth. The world's BMC
// is a verified one.
func (w *world) distrusted(host *infrav1.IngotHost) bool {
	c := host.Spec.Claim
	return c != nil && c.BootTrust == infrav1.BootTrustVerified && host.Spec.BootMethod != infrav1.BootMethodVirtualMedia
}

// checkBootMethod holds a decision against what the boot method asks for.
func (w *world) checkBootMethod(host *infrav1.IngotHost, _ Observation, d Decision) {
	byMedia := host.Spec.BootMethod == infrav1.BootMethodVirtualMedia
	named := byMedia || host.Spec.BootMethod == infrav1.BootMethodHTTP
	noted := host.Spec.Record != nil && !host.Spec.Record.VirtualMediaTime.IsZero()
	switch d.Step.(type) {
	case BootAgent:
		switch {
		case byMedia && !noted:
			w.violate("an image is put into the drive, and nothing remembers it")
		case named && w.serverless:
			w.violate("a host is booted from a server that nobody knows")
		case host.Spec.Claim != nil && host.Spec.Claim.State == infrav1.ClaimProvisioning && w.distrusted(host):
			w.violate("an install is booted in a way that its cluster does not trust")
		}
	case RemoveFinalizer:
		told := w.bmc == BMCOK && !w.powerUnknown && !w.wrongServer && !w.duplicate && host.Spec.BMC != nil
		if host == w.host && w.media && told && !w.asked(host, infrav1.ForceReleaseAnnotation) {
			w.violate("the object is let go with an image in the drive")
		}
	}
	if d.Reason == infrav1.ReasonBootServerUnknown && !(named && w.serverless) {
		w.violate("a boot server is asked for without need")
	}
	if d.Reason == infrav1.ReasonBootNotVerified && !w.distrusted(host) {
		w.violate("a boot is distrusted without reason")
	}
}

// checkEject: only what is ours is ejected, and never from under a boot.
func (w *world) checkEject(host *infrav1.IngotHost) {
	o := host.Spec.Order
	if host.Spec.Record == nil || host.Spec.Record.VirtualMediaTime.IsZero() {
		w.violate("a drive is emptied that nothing of ours is in")
	}
	booting := o != nil && o.Result == nil && o.Revoked == nil && o.AgentKey == ""
	if host == w.host && booting && host.Spec.BootMethod == infrav1.BootMethodVirtualMedia && !w.deleting && host.Spec.Power != infrav1.PowerIntentOff && !worksOn(host) {
		w.violate("the image is ejected that the host boots from")
	}
}

// bootMethodEvents are what people and managers do about boot methods.
func bootMethodEvents() []event {
	set := func(m infrav1.BootMethod) func(*world) {
		return func(w *world) { w.write(func(h *infrav1.IngotHost) { h.Spec.BootMethod = m }) }
	}
	return []event{
		{"person: boots by virtual media", 2, false, func(w *world) bool { return w.methods && w.host.Spec.BootMethod == "" }, set(infrav1.BootMethodVirtualMedia)},
		{"person: boots by HTTP", 1, false, func(w *world) bool { return w.methods && w.host.Spec.BootMethod == "" }, set(infrav1.BootMethodHTTP)},
		{"person: boots by PXE", 1, false, func(w *world) bool { return w.methods && w.host.Spec.BootMethod != "" }, set("")},
		{"cluster: demands a verified boot", 2, false, func(w *world) bool {
			c := w.claim()
			return w.methods && c != nil && c.State == infrav1.ClaimProvisioning && c.Attempt == 0 && c.BootTrust == ""
		}, func(w *world) {
			w.write(func(h *infrav1.IngotHost) { h.Spec.Claim.BootTrust = infrav1.BootTrustVerified })
		}},
		{"manager: knows no boot server", 1, true, func(w *world) bool { return w.methods && !w.serverless }, func(w *world) { w.serverless = true }},
		{"manager: knows one again", 2, false, func(w *world) bool { return w.methods && w.serverless }, func(w *world) { w.serverless = false }},
	}
}

// endingOfMedia deletes hosts in whose drive is an image, with and without a BMC that
// can be told. The second is made as a manager leaves it that dies before it empties the
// drive: nothing else comes to it. And it has hosts given back whose boots are worth less
// by now than their clusters demanded: these are wiped all the same.
func (w *world) endingOfMedia(kind uint64) {
	if c := w.claim(); c != nil {
		if kind == 20 && c.State == infrav1.ClaimReleasing {
			w.write(func(h *infrav1.IngotHost) {
				h.Spec.BootMethod, h.Spec.Claim.BootTrust = "", infrav1.BootTrustVerified
			})
		}
		return
	}
	switch {
	case kind == 8 && w.media:
		w.deleting = true
	case kind == 14 && w.order() == nil && w.host.Spec.BMC != nil:
		w.media = true
		w.write(func(h *infrav1.IngotHost) {
			if h.Spec.Record == nil {
				h.Spec.Record = &infrav1.HostRecord{}
			}
			h.Spec.Record.VirtualMediaTime = metav1.NewTime(w.now)
		})
		w.deleting, w.bmc = true, BMCUnreachable
	}
}

func TestBootTrustOf(t *testing.T) {
	verified := infrav1.BMC{Address: "redfish://bmc"}
	for name, tc := range map[string]struct {
		method infrav1.BootMethod
		mode   infrav1.BootMode
		bmc    *infrav1.BMC
		want   string
	}{
		"PXE":                                 {"", infrav1.BootModeUEFI, &verified, "Network NetworkTrusted"},
		"PXE, said so":                        {infrav1.BootMethodPXE, infrav1.BootModeUEFI, &verified, "Network NetworkTrusted"},
		"virtual media":                       {infrav1.BootMethodVirtualMedia, infrav1.BootModeUEFI, &verified, "Verified BootVerified"},
		"virtual media, Secure Boot":          {infrav1.BootMethodVirtualMedia, infrav1.BootModeUEFISecureBoot, &verified, "Verified BootVerified"},
		"HTTP":                                {infrav1.BootMethodHTTP, infrav1.BootModeUEFI, &verified, "Network ImageNotVerified"},
		"HTTP, Secure Boot":                   {infrav1.BootMethodHTTP, infrav1.BootModeUEFISecureBoot, &verified, "Verified BootVerified"},
		"a CA":                                {infrav1.BootMethodVirtualMedia, "", &infrav1.BMC{Address: "redfish://bmc", CABundleRef: &infrav1.CABundleReference{}}, "Verified BootVerified"},
		"Redfish in clear":                    {infrav1.BootMethodVirtualMedia, "", &infrav1.BMC{Address: "redfish+http://bmc"}, "Network BMCNotVerified"},
		"IPMI":                                {infrav1.BootMethodHTTP, infrav1.BootModeUEFISecureBoot, &infrav1.BMC{Address: "ipmi://bmc"}, "Network BMCNotVerified"},
		"a host alone, which may end in IPMI": {infrav1.BootMethodVirtualMedia, "", &infrav1.BMC{Address: "bmc"}, "Network BMCNotVerified"},
		"any certificate":                     {infrav1.BootMethodVirtualMedia, "", &infrav1.BMC{Address: "redfish://bmc", InsecureSkipVerify: new(true)}, "Network BMCNotVerified"},
		"first use":                           {infrav1.BootMethodVirtualMedia, "", &infrav1.BMC{Address: "redfish://bmc", TrustOnFirstUse: new(true)}, "Network BMCNotVerified"},
		"no BMC":                              {infrav1.BootMethodVirtualMedia, "", nil, "Network BMCNotVerified"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{Spec: infrav1.IngotHostSpec{BootMethod: tc.method, BootMode: tc.mode, BMC: tc.bmc}}
			trust, reason, message := BootTrustOf(host)
			if got := string(trust) + " " + reason; got != tc.want || message == "" {
				t.Errorf("got %s (%s), want %s", got, message, tc.want)
			}
			status := "False "
			if strings.HasPrefix(tc.want, "Verified") {
				status = "True "
			}
			condition := (&input{host: host}).bootSecure()
			if got := string(condition.Status) + " " + condition.Reason; got != status+reason || condition.Message != message {
				t.Errorf("condition %+v", condition)
			}
		})
	}
}
