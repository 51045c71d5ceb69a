// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package badinput

import (
	"slices"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func equal(t *testing.T, what string, want, got any) {
	t.Helper()
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// warnings collects what the API server warns of.
type warnings struct {
	mu   sync.Mutex
	list []string
}

func (w *warnings) HandleWarningHeader(_ int, _ string, text string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.list = append(w.list, text)
}

// What is let in with a warning, because it may become right later.
func (s *server) testWarned(t *testing.T) {
	tests := []struct {
		name string
		testCase
		want []string
	}{
		{"nothing is missing but the CA bundle", testCase{Base: "ingothost-operator", Set: map[string]any{"metadata.name": "a01"}}, []string{
			`spec.bmc.caBundleRef.name: ConfigMap "bmc-ca" does not exist; create it with the key ca.crt, until then the BMC is not contacted`}},
		{"Secret", testCase{Base: "ingothost-operator", Remove: []string{"spec.bmc.caBundleRef"},
			Set: map[string]any{"spec.bmc.credentialsRef.name": "later"}}, []string{
			`spec.bmc.credentialsRef.name: Secret "later" does not exist; create it with the keys username and password, until then the BMC is not contacted`}},
		{"network", testCase{Base: "ingothost-minimal", Set: map[string]any{"spec.networkRef.name": "later"}}, []string{
			`spec.networkRef.name: IngotNetwork "later" does not exist; create it, until then the host is not booted`}},
		{"all there", testCase{Base: "ingothost-minimal"}, nil},
		{"cleaning", testCase{Base: "ingotmachine-operator", Set: map[string]any{"spec.cleaning": "None"}}, []string{
			"spec.cleaning: with None the disks keep their data when the host is released, and the host then serves only the same cluster; use Metadata to free it for others"}},
		{"half an endpoint", testCase{Base: "ingotcluster-maximal", Remove: []string{"spec.controlPlaneEndpoint.port"}}, []string{
			"spec.controlPlaneEndpoint.port: is unset; give it, until then the cluster waits"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			seen := &warnings{}
			cfg := rest.CopyConfig(s.cfg)
			cfg.WarningHandler = seen
			c, err := client.New(cfg, client.Options{Scheme: s.scheme})
			if err != nil {
				t.Fatal(err)
			}
			object := readValid(t, tt.Base)
			tt.apply(t, object)
			object.SetName("warned") // of its own name, so that it does not exist
			if mac := "52:54:00:00:00:aa"; object.GetKind() == "IngotHost" {
				if err := set(object.Object, segments("spec.bootMACAddress"), mac); err != nil {
					t.Fatal(err)
				}
				if _, ok := get(object.Object, segments("spec.bmc.address")); ok {
					if err := set(object.Object, segments("spec.bmc.address"), "redfish://10.9.9.9"); err != nil {
						t.Fatal(err)
					}
				}
			}
			if err := c.Create(t.Context(), object, client.DryRunAll); err != nil {
				t.Fatal(err)
			}
			seen.mu.Lock()
			defer seen.mu.Unlock()
			slices.Sort(seen.list)
			equal(t, "warnings", tt.want, seen.list)
		})
	}
}
