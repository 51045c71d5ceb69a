// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseProviderID(t *testing.T) {
	const instance = "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa"
	want := ProviderID{Namespace: "dc1", Host: "node-7.rack-2", InstanceID: instance}
	got, err := ParseProviderID("ingot://dc1/node-7.rack-2/" + instance)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if back, err := ParseProviderID(got.String()); err != nil || back != got {
		t.Errorf("%q read back as %+v (%v)", got.String(), back, err)
	}
}

func TestParseProviderIDRefuses(t *testing.T) {
	for _, text := range []string{
		"", "ingot://", "ingot://a/b", "ingot://a//c", "ingot:///b/c", "ingot://a/b/", "ingot://a/b/c/d", "aws:///us-east-1a/i-0123", "ingot:/a/b/c",
	} {
		if got, err := ParseProviderID(text); err == nil {
			t.Errorf("%q was read as %+v", text, got)
		}
	}
}

func FuzzParseProviderID(f *testing.F) {
	f.Add("ingot://dc1/node-7/6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseProviderID(text); err == nil && id.String() != text {
			t.Errorf("%q became %q", text, id)
		}
	})
}
