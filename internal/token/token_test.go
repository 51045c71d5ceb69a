// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agentapi"
)

func testKeys(t testing.TB, seeds ...byte) Keys {
	t.Helper()
	var raw [][]byte
	for _, seed := range seeds {
		raw = append(raw, bytes.Repeat([]byte{seed}, MinKeyBytes))
	}
	keys, err := NewKeys(raw...)
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

var sample = Claims{
	Namespace: "dc1", Host: "node-7.rack-2", Purpose: Install,
	OrderID: "0b5c7f0e-6a55-4a0e-9c3e-8b1c2f1f0a11", InstanceID: "6a1df0ce-2a27-4f3c-8e0a-55f6f9a3f3aa",
	Attempt: 2, Expiry: time.Unix(1_800_000_000, 0).UTC(),
}

func TestVerifyReadsWhatMintWrote(t *testing.T) {
	inspect := sample
	inspect.Purpose, inspect.InstanceID, inspect.Attempt = Inspect, "", 1
	disc := sample
	disc.Delivery = ByVirtualMedia
	discover := Claims{Host: "net-1.rack", Purpose: Discover, OrderID: "52:54:00:00:00:01", Expiry: sample.Expiry}
	for name, claims := range map[string]Claims{"install": sample, "inspect without instance": inspect, "discover": discover, "on a disc": disc} {
		t.Run(name, func(t *testing.T) {
			keys := testKeys(t, 1)
			text := keys.Mint(claims)
			if unknownClient := agentapi.IsForUnknownServer(agentapi.Sensitive(text)); unknownClient != (claims.Purpose == Discover) {
				t.Errorf("an agent takes it for an unknown client's: %v", unknownClient)
			}
			if strings.ContainsAny(text, " =?&\"'\n") {
				t.Errorf("token %q has a character that a kernel command line or a URL changes", text)
			}
			got, err := keys.Verify(text)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(claims, got); diff != "" {
				t.Errorf("claims (-want +got):\n%s", diff)
			}
		})
	}
}

func TestVerifyRefuses(t *testing.T) {
	keys := testKeys(t, 1)
	good := keys.Mint(sample)
	disc := sample
	disc.Delivery = ByVirtualMedia
	for name, text := range map[string]string{
		"empty":             "",
		"no separator":      "v1",
		"another key":       testKeys(t, 2).Mint(sample),
		"another host":      strings.Replace(good, "node-7", "node-8", 1),
		"a later expiry":    strings.Replace(good, "1800000000", "1900000000", 1),
		"another purpose":   strings.Replace(good, "Install", "Inspect", 1),
		"MAC cut off":       good[:len(good)-1],
		"MAC missing":       good[:strings.LastIndexByte(good, '/')+1],
		"another way":       strings.Replace(strings.Replace(good, "v1/", "v2/", 1), "/1800000000", "/disc/1800000000", 1),
		"without its way":   strings.Replace(strings.Replace(keys.Mint(disc), "v2/", "v1/", 1), "/disc/", "/", 1),
		"fields moved over": strings.Replace(good, "dc1/node-7", "dc1/x/node-7", 1),
	} {
		t.Run(name, func(t *testing.T) {
			if _, err := keys.Verify(text); !errors.Is(err, ErrInvalid) {
				t.Errorf("Verify(%q) = %v, want ErrInvalid", text, err)
			}
		})
	}
}

func TestOldKeyStillVerifies(t *testing.T) {
	text := testKeys(t, 1).Mint(sample)
	if _, err := testKeys(t, 2, 1).Verify(text); err != nil {
		t.Errorf("token of the old key: %v", err)
	}
}

func TestShortKeyIsRefused(t *testing.T) {
	if _, err := NewKeys([]byte("short")); err == nil {
		t.Error("a key of 5 bytes was taken")
	}
}

func FuzzVerify(f *testing.F) {
	keys := testKeys(f, 1)
	f.Add(keys.Mint(sample))
	f.Add(keys.Mint(Claims{Host: "h", Purpose: Clean, Delivery: ByVirtualMedia, Expiry: sample.Expiry}))
	f.Add("v1/a/b/c/d/e/1/2/x")
	f.Fuzz(func(t *testing.T, text string) {
		claims, err := keys.Verify(text)
		if err == nil && keys.Mint(claims) != text {
			t.Errorf("%q verified, and is not what its claims mint", text)
		}
	})
}
