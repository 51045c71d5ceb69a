// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware_test

import (
	"testing"

	"github.com/go-logr/logr"
	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/event"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// The hardware goes and moves with its host (K45).
func TestNew(t *testing.T) {
	scheme := testscheme.Scheme(t)
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "u"}}
	got, err := hardware.New(host, scheme)
	if err != nil {
		t.Fatal(err)
	}
	want := metav1.ObjectMeta{Namespace: "n", Name: "h", OwnerReferences: []metav1.OwnerReference{{
		APIVersion: infrav1.GroupVersion.String(), Kind: "IngotHost", Name: "h", UID: "u", Controller: ptr.To(true), BlockOwnerDeletion: ptr.To(true),
	}}, Finalizers: []string{infrav1.InUseFinalizer}}
	if diff := cmp.Diff(want, got.ObjectMeta); diff != "" {
		t.Errorf("metadata (-want +got):\n%s", diff)
	}
	if _, err := hardware.New(host, runtime.NewScheme()); err == nil {
		t.Error("a scheme that does not know hosts was accepted")
	}
}

// M41: nobody else's host is a candidate.
func TestLookedAfter(t *testing.T) {
	for value, want := range map[string][]string{"": {"mine", "theirs", "unlabelled"}, "mine": {"mine"}, "nobody": nil} {
		var hosts []infrav1.IngotHost
		for _, name := range []string{"mine", "theirs", "unlabelled"} {
			host := infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Name: name}}
			if name != "unlabelled" {
				host.Labels = map[string]string{clusterv1.WatchLabel: name}
			}
			hosts = append(hosts, host)
		}
		var got []string
		for _, host := range hardware.FilterByWatchLabel(hosts, value) {
			got = append(got, host.Name)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", value, diff)
		}
	}
}

// M41: the label is asked of what people make.
func TestWatchFilter(t *testing.T) {
	labelled := metav1.ObjectMeta{Labels: map[string]string{clusterv1.WatchLabel: "mine"}}
	for name, tc := range map[string]struct {
		value  string
		object client.Object
		want   bool
	}{
		"no filter":               {"", &infrav1.IngotHost{}, true},
		"another manager's":       {"mine", &infrav1.IngotHost{}, false},
		"ours":                    {"mine", &infrav1.IngotHost{ObjectMeta: labelled}, true},
		"hardware without labels": {"mine", &infrav1.IngotHardware{}, true},
		"a promise":               {"mine", &infrav1.IngotReservation{}, true},
		"an address of a pool":    {"mine", &ipamv1.IPAddressClaim{}, true},
		"a catalogue's image":     {"mine", &infrav1.IngotImage{}, true},
		"everybody's network":     {"mine", &infrav1.IngotNetwork{}, true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := hardware.WatchFilter(runtime.NewScheme(), logr.Discard(), tc.value).Create(event.CreateEvent{Object: tc.object}); got != tc.want {
				t.Errorf("lets through: %t, want %t", got, tc.want)
			}
		})
	}
}
