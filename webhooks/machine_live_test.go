// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"testing"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Cluster API may change in place: cleaning at any time, and hostSelector to a valid value once the
// machine has a host (M64).
func TestMutableFields(t *testing.T) {
	const host = "ingot://dc1/h1/00000000-0000-0000-0000-000000000001"
	selector := func(key string) *v1beta2.HostSelector {
		return &v1beta2.HostSelector{MatchLabels: map[string]string{key: "a"}}
	}
	for name, tc := range map[string]struct {
		providerID  string
		is          v1beta2.IngotMachineSpec
		left, wrong bool
	}{
		"nothing":                     {host, v1beta2.IngotMachineSpec{}, false, false},
		"cleaning":                    {"", v1beta2.IngotMachineSpec{Cleaning: v1beta2.CleaningNone}, false, false},
		"hostSelector":                {host, v1beta2.IngotMachineSpec{HostSelector: selector("class")}, false, false},
		"hostSelector without a host": {"", v1beta2.IngotMachineSpec{HostSelector: selector("class")}, true, false},
		"hostSelector of nonsense":    {host, v1beta2.IngotMachineSpec{HostSelector: selector("a b")}, false, true},
		"host name":                   {host, v1beta2.IngotMachineSpec{Hostname: "x"}, true, false},
	} {
		before := &v1beta2.IngotMachine{Spec: v1beta2.IngotMachineSpec{ProviderID: tc.providerID}}
		was, is := v1beta2.IngotMachineSpec{}, tc.is
		errs := checkMutable(before, &was, &is)
		left := is.HostSelector != nil || is.Hostname != "" || is.Cleaning != ""
		if left != tc.left || (len(errs) > 0) != tc.wrong {
			t.Errorf("%s: left %+v, errors %v", name, is, errs)
		}
	}
}
