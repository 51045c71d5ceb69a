// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clocktesting "k8s.io/utils/clock/testing"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/testscheme"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// fakeAccess allows one user to restore, and records the requests.
type fakeAccess struct {
	restorer string
	err      error
	asked    []authorizationv1.ResourceAttributes
}

func (f *fakeAccess) allowed(_ context.Context, user authenticationv1.UserInfo, attributes authorizationv1.ResourceAttributes) (bool, error) {
	f.asked = append(f.asked, attributes)
	return user.Username == f.restorer && attributes.Verb == restoreVerb, f.err
}

// request returns the context of a request by user.
func request(ctx context.Context, user string) context.Context {
	return admission.NewContextWithRequest(ctx, admission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UserInfo: authenticationv1.UserInfo{Username: user},
	}})
}

func claimed(name string) *v1beta2.IngotHost {
	host := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: name}}
	host.Spec.BootMACAddress = "52:54:00:00:00:01"
	host.Spec.Claim = &v1beta2.HostClaim{
		MachineRef: v1beta2.LocalReference{Name: "m1"}, ClusterName: "c1", State: v1beta2.ClaimProvisioned,
	}
	return host
}

func newReader(t *testing.T, objects ...client.Object) client.Client {
	t.Helper()
	scheme := testscheme.Scheme(t)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	return builder.Build()
}

func newHostValidator(t *testing.T, managerUsername string, objects ...client.Object) *hostValidator {
	t.Helper()
	reader := newReader(t, objects...)
	return &hostValidator{
		guard: guard{managerUsername: managerUsername, access: &fakeAccess{restorer: "restorer"}},
		hosts: reader, live: reader, checker: warnings.Checker{Reader: reader},
		clock: clocktesting.NewFakePassiveClock(commandTime()),
	}
}

// Only the manager and users with restore write the persistent state (I9).
func TestLedgerGuard(t *testing.T) {
	change := func(mutate func(*v1beta2.IngotHost)) func(*hostValidator, context.Context) error {
		return func(v *hostValidator, ctx context.Context) error {
			before, after := claimed("h1"), claimed("h1")
			mutate(after)
			_, err := v.ValidateUpdate(ctx, before, after)
			return err
		}
	}
	create := func(v *hostValidator, ctx context.Context) error {
		_, err := v.ValidateCreate(ctx, claimed("h1"))
		return err
	}
	state := change(func(h *v1beta2.IngotHost) { h.Spec.Claim.State = v1beta2.ClaimReleasing })
	tests := []struct {
		name          string
		manager, user string
		do            func(*hostValidator, context.Context) error
		wantField     string // of the refusal; empty: accepted
	}{
		{"manager changes", "ingot", "ingot", state, ""},
		{"operator changes", "ingot", "alice", state, "spec.claim.state"},
		{"who may restore changes", "ingot", "restorer", state, "spec.claim.state"},
		{"nobody is the manager", "", "", state, "spec.claim.state"},
		{"operator removes the claim", "ingot", "alice", change(func(h *v1beta2.IngotHost) { h.Spec.Claim = nil }), "spec.claim"},
		{"operator adds an empty record", "ingot", "alice", change(func(h *v1beta2.IngotHost) { h.Spec.Record = &v1beta2.HostRecord{} }), "spec.record"},
		{"operator adds an order", "ingot", "alice", change(func(h *v1beta2.IngotHost) {
			h.Spec.Order = &v1beta2.HostOrder{Kind: v1beta2.OrderClean}
		}), "spec.order"},
		{"operator changes it under delete-for-move", "ingot", "alice", change(func(h *v1beta2.IngotHost) {
			h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
			h.Spec.Claim.State = v1beta2.ClaimReleasing
		}), "spec.claim.state"},
		{"operator changes another field", "ingot", "alice", change(func(h *v1beta2.IngotHost) { h.Spec.Maintenance = new(true) }), ""},
		{"manager creates", "ingot", "ingot", create, ""},
		{"who may restore creates", "ingot", "restorer", create, ""},
		{"operator creates", "ingot", "alice", create, "spec.claim"},
		{"nobody is the manager, and creates", "", "", create, "spec.claim"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := tt.do(newHostValidator(t, tt.manager), request(t.Context(), tt.user))
			checkRefusal(t, err, tt.wantField)
		})
	}
}

func checkRefusal(t *testing.T, err error, wantField string) {
	t.Helper()
	if wantField == "" {
		if err != nil {
			t.Errorf("was refused: %v", err)
		}
		return
	}
	var status apierrors.APIStatus
	if !errors.As(err, &status) {
		t.Fatalf("got %v, want a refusal about %s", err, wantField)
	}
	for _, cause := range status.Status().Details.Causes {
		if strings.HasPrefix(cause.Field, wantField) {
			return
		}
	}
	t.Errorf("got %v, want a refusal about %s", err, wantField)
}

// A request is rejected if the permission cannot be checked.
func TestGuardFailsClosed(t *testing.T) {
	v := newHostValidator(t, "ingot")
	v.access = &fakeAccess{restorer: "restorer", err: errors.New("no answer")}
	if _, err := v.ValidateCreate(request(t.Context(), "restorer"), claimed("h1")); err == nil {
		t.Error("a ledger was admitted without a permission check")
	}
	before, after := claimed("h1"), claimed("h1")
	after.Spec.Claim.Attempt = 2
	if _, err := v.ValidateUpdate(t.Context(), before, after); err == nil {
		t.Error("a change without a requester was admitted")
	}
}

// The SubjectAccessReview names verb, resource and object.
func TestGuardAsksForTheObject(t *testing.T) {
	v := newHostValidator(t, "ingot")
	access := &fakeAccess{restorer: "restorer"}
	v.access = access
	if _, err := v.ValidateCreate(request(t.Context(), "restorer"), claimed("h1")); err != nil {
		t.Fatal(err)
	}
	want := []authorizationv1.ResourceAttributes{{
		Verb: "restore", Group: "infrastructure.cluster.x-k8s.io", Version: "v1beta2", Resource: "ingothosts", Namespace: "ns", Name: "h1",
	}}
	if diff := cmp.Diff(want, access.asked); diff != "" {
		t.Errorf("asked (-want +got):\n%s", diff)
	}
}

func TestHostDelete(t *testing.T) {
	annotated := func(annotation string) *v1beta2.IngotHost {
		host := claimed("h1")
		host.Annotations = map[string]string{annotation: commandTime().Format(time.RFC3339)}
		return host
	}
	expired := claimed("h1")
	expired.Annotations = map[string]string{v1beta2.ForceReleaseAnnotation: commandTime().Add(-time.Hour).Format(time.RFC3339)}
	in := func(state v1beta2.ClaimState, host *v1beta2.IngotHost) *v1beta2.IngotHost {
		host.Spec.Claim.State = state
		return host
	}
	fenced := func(host *v1beta2.IngotHost) *v1beta2.IngotHost {
		host.Spec.Claim.State, host.Spec.Claim.FencedTime = v1beta2.ClaimReleasing, metav1.Now()
		return host
	}
	free := claimed("h1")
	free.Spec.Claim = nil
	elsewhere := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "other", Name: "c2"}}
	paused := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c1"}, Spec: clusterv1.ClusterSpec{Paused: ptr.To(true)}}
	active := &clusterv1.Cluster{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "c0"}}
	const refused, force = "spec.claim.machineRef.name", v1beta2.ForceReleaseAnnotation
	tests := []struct {
		name      string
		host      *v1beta2.IngotHost
		wantField string
	}{
		{"claimed", claimed("h1"), "spec.claim.machineRef.name"},
		{"another annotation", annotated(v1beta2.ApproveAnnotation), "spec.claim.machineRef.name"},
		{"in use, with a force that does not apply", in(v1beta2.ClaimProvisioned, annotated(force)), refused},
		{"being installed, with a force that does not apply", in(v1beta2.ClaimProvisioning, annotated(force)), refused},
		{"being released, not fenced", in(v1beta2.ClaimReleasing, claimed("h1")), refused},
		{"being released, not fenced, forced", in(v1beta2.ClaimReleasing, annotated(force)), ""},
		{"being released, not fenced, forced an hour ago", in(v1beta2.ClaimReleasing, expired), refused},
		{"being cleaned", fenced(claimed("h1")), ""},
		{"being cleaned, forced", fenced(annotated(force)), ""},
		{"being cleaned, in the foreground", fenced(claimed("h1")), refused},
		{"being cleaned, forced, in the foreground", fenced(annotated(force)), ""},
		{"free, in the foreground", free, ""},
		{"moved", annotated(clusterctlv1.DeleteForMoveAnnotation), ""},
		{"moved, a Cluster is not paused", annotated(clusterctlv1.DeleteForMoveAnnotation), "metadata.annotations[" + clusterctlv1.DeleteForMoveAnnotation + "]"},
		{"free", free, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []client.Object{elsewhere, paused}
			if strings.Contains(tt.name, "is not paused") {
				objects = append(objects, active)
			}
			policy := metav1.DeletePropagationBackground
			if strings.Contains(tt.name, "in the foreground") {
				policy = metav1.DeletePropagationForeground
			}
			options, err := json.Marshal(metav1.DeleteOptions{PropagationPolicy: &policy})
			if err != nil {
				t.Fatal(err)
			}
			_, err = newHostValidator(t, "ingot", objects...).ValidateDelete(admission.NewContextWithRequest(t.Context(), admission.Request{
				AdmissionRequest: admissionv1.AdmissionRequest{Options: runtime.RawExtension{Raw: options}}}), tt.host)
			checkRefusal(t, err, tt.wantField)
		})
	}
}

// A host with the MAC address or BMC of another host is rejected, except after clusterctl move,
// which leaves objects behind in the source namespace.
func TestHostIdentity(t *testing.T) {
	host := func(namespace, name, mac, bmc string) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		h.Spec.BootMACAddress = mac
		if bmc != "" {
			h.Spec.BMC = &v1beta2.BMC{Address: bmc}
		}
		return h
	}
	asMoved := func(namespace, name, mac, bmc string) *v1beta2.IngotHost {
		h := host(namespace, name, mac, bmc)
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
		return h
	}
	leftover := asMoved("ns", "h1", "52:54:00:00:00:01", "redfish://10.0.0.1")
	first := host("ns", "h1", "52:54:00:00:00:01", "redfish://10.0.0.1")
	tests := []struct {
		name      string
		exists    *v1beta2.IngotHost
		new       *v1beta2.IngotHost
		wantField string
	}{
		{"itself", first, first, ""},
		{"same MAC", first, host("ns", "h2", "52:54:00:00:00:01", ""), "spec.bootMACAddress"},
		{"same MAC in another namespace", first, host("other", "h1", "52:54:00:00:00:01", ""), "spec.bootMACAddress"},
		{"same BMC", first, host("ns", "h2", "52:54:00:00:00:02", "redfish://10.0.0.1:443/"), "spec.bmc.address"},
		{"same BMC by IPMI", first, host("ns", "h2", "52:54:00:00:00:02", "ipmi://10.0.0.1"), "spec.bmc.address"},
		{"same BMC by its host alone", first, host("ns", "h2", "52:54:00:00:00:02", "10.0.0.1"), "spec.bmc.address"},
		{"another BMC", first, host("ns", "h2", "52:54:00:00:00:02", "redfish://10.0.0.2"), ""},
		{"another BMC behind one address", first, host("ns", "h2", "52:54:00:00:00:02", "ipmi://10.0.0.1:6231"), ""},
		{"leftover of a move", leftover, host("other", "h1", "52:54:00:00:00:01", "redfish://10.0.0.1"), ""},
		{"same MAC, as if clusterctl took it away", first, asMoved("other", "h2", "52:54:00:00:00:01", ""), "spec.bootMACAddress"},
		{"same BMC, as if clusterctl took it away", first, asMoved("other", "h2", "52:54:00:00:00:02", "redfish://10.0.0.1"), "spec.bmc.address"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			v := newHostValidator(t, "ingot", tt.exists.DeepCopy())
			_, err := v.ValidateCreate(request(t.Context(), "alice"), tt.new)
			checkRefusal(t, err, tt.wantField)
			named := strings.Contains(fmt.Sprint(err), first.Namespace+"/"+first.Name)
			if err != nil && named != (tt.new.Namespace == first.Namespace) {
				t.Errorf("for users of namespace %s the rejection is: %v", tt.new.Namespace, err)
			}
		})
	}
}

// An existing host cannot take the address of another host.
func TestHostCannotTakeAnAddress(t *testing.T) {
	victim := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "victim"}}
	victim.Spec.BootMACAddress = "52:54:00:00:00:01"
	second := func(mac string, change func(*v1beta2.IngotHost)) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "tenant", Name: "h"}}
		h.Spec.BootMACAddress = mac
		change(h)
		return h
	}
	free := "52:54:00:00:00:02"
	plain := func(*v1beta2.IngotHost) {}
	moved := func(h *v1beta2.IngotHost) {
		h.Annotations = map[string]string{clusterctlv1.DeleteForMoveAnnotation: ""}
	}
	dying := func(h *v1beta2.IngotHost) {
		h.DeletionTimestamp, h.Finalizers = new(metav1.Now()), []string{"example.com/kept"}
	}
	for name, tt := range map[string]struct {
		before, after *v1beta2.IngotHost
		wantField     string
	}{
		"by a change":                        {second(free, plain), second(victim.Spec.BootMACAddress, plain), "spec.bootMACAddress"},
		"kept by a finalizer":                {second(free, dying), second(victim.Spec.BootMACAddress, dying), "spec.bootMACAddress"},
		"as if clusterctl took it away":      {second(free, moved), second(victim.Spec.BootMACAddress, moved), "spec.bootMACAddress"},
		"no longer taken away":               {second(victim.Spec.BootMACAddress, moved), second(victim.Spec.BootMACAddress, plain), "spec.bootMACAddress"},
		"let in before, changed otherwise":   {second(victim.Spec.BootMACAddress, plain), second(victim.Spec.BootMACAddress, dying), ""},
		"a free one":                         {second(victim.Spec.BootMACAddress, plain), second(free, plain), ""},
		"taken away, and its finalizer goes": {second(victim.Spec.BootMACAddress, moved), second(victim.Spec.BootMACAddress, func(h *v1beta2.IngotHost) { moved(h); dying(h) }), ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newHostValidator(t, "ingot", victim.DeepCopy()).ValidateUpdate(request(t.Context(), "somebody"), tt.before, tt.after)
			checkRefusal(t, err, tt.wantField)
		})
	}
}

// The rejection names a discovered host of any namespace, but no host of another tenant.
func TestDiscoveredHostIsNamed(t *testing.T) {
	at := func(namespace, name string) *v1beta2.IngotHost {
		h := &v1beta2.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}
		h.Spec.BootMACAddress = "52:54:00:00:00:01"
		return h
	}
	enrolled := at("found", "dc1")
	enrolled.Labels = map[string]string{v1beta2.EnrolledLabel: ""}
	used := claimed("h1")
	used.Namespace, used.Spec.BootMACAddress, used.Labels = "tenant", "52:54:00:00:00:01", map[string]string{v1beta2.EnrolledLabel: ""}
	for name, tt := range map[string]struct {
		there []client.Object
		named bool
	}{
		"enrolled":                 {[]client.Object{enrolled}, true},
		"in use, whatever it says": {[]client.Object{used}, false},
		"both":                     {[]client.Object{enrolled, used}, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := newHostValidator(t, "ingot", tt.there...).ValidateCreate(request(t.Context(), "somebody"), at("ns", "h2"))
			checkRefusal(t, err, "spec.bootMACAddress")
			text := fmt.Sprint(err)
			if named := strings.Contains(text, "found/dc1, a discovered host"); named != tt.named || strings.Contains(text, "tenant/") {
				t.Error(text)
			}
		})
	}
}

// A host that violates a newer rule can still be changed.
func TestUnchangedFieldsAreNotChecked(t *testing.T) {
	before := claimed("h1")
	before.Spec.BMC = &v1beta2.BMC{Address: "redfish://10.0.0.999"}
	after := before.DeepCopy()
	after.Finalizers = nil
	after.Spec.Maintenance = new(true)
	if _, err := newHostValidator(t, "ingot").ValidateUpdate(request(t.Context(), "alice"), before, after); err != nil {
		t.Error(err)
	}
}

func TestChanges(t *testing.T) {
	machine := func(mutate func(*v1beta2.IngotMachineSpec)) v1beta2.IngotMachineSpec {
		spec := v1beta2.IngotMachineSpec{Image: v1beta2.Image{URL: "u", Checksum: "c"}}
		mutate(&spec)
		return spec
	}
	none := machine(func(*v1beta2.IngotMachineSpec) {})
	tests := []struct {
		name  string
		after v1beta2.IngotMachineSpec
		want  map[string]any
	}{
		{"nothing", none, map[string]any{}},
		{"scalar", machine(func(s *v1beta2.IngotMachineSpec) { s.Image.URL = "v" }), map[string]any{"spec.image.url": "v"}},
		{"removed", machine(func(s *v1beta2.IngotMachineSpec) { s.Image.URL = "" }), map[string]any{"spec.image.url": nil}},
		{"object added", machine(func(s *v1beta2.IngotMachineSpec) {
			s.RootDeviceHints = &v1beta2.RootDeviceHints{Model: "m", Vendor: "v"}
		}), map[string]any{"spec.rootDeviceHints.model": "m", "spec.rootDeviceHints.vendor": "v"}},
		{"empty object added", machine(func(s *v1beta2.IngotMachineSpec) { s.HostSelector = &v1beta2.HostSelector{} }),
			map[string]any{"spec.hostSelector": map[string]any{}}},
		{"list as a whole", machine(func(s *v1beta2.IngotMachineSpec) {
			s.HostSelector = &v1beta2.HostSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "k", Operator: "Exists"}}}
		}), map[string]any{"spec.hostSelector.matchExpressions": []any{map[string]any{"key": "k", "operator": "Exists"}}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			list, err := changes(field.NewPath("spec"), none, tt.after)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]any{}
			for _, c := range list {
				got[c.path.String()] = c.value
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("changes (-want +got):\n%s", diff)
			}
		})
	}
}
