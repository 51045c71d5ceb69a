// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package dhcp

import (
	"net/netip"
	"slices"
	"testing"

	"golang.org/x/net/ipv4"
)

func TestControlMessages(t *testing.T) {
	source := netip.MustParseAddr(ours)
	other := (&ipv4.ControlMessage{TTL: 64}).Marshal()
	for name, tc := range map[string]struct {
		oob  []byte
		want int
	}{
		"none":                  {nil, 0},
		"an interface":          {sourceControl(source, 7), 7},
		"no interface":          {sourceControl(source, 0), 0},
		"another message":       {other, 0},
		"after another message": {slices.Concat(other, sourceControl(source, 7)), 7},
	} {
		if got, err := arrivalInterface(tc.oob); err != nil || got != tc.want {
			t.Errorf("%s: interface %d, %v, want %d", name, got, err, tc.want)
		}
	}
	if got, err := arrivalInterface(sourceControl(source, 7)[:20]); err == nil {
		t.Errorf("a message that is cut off names interface %d", got)
	}
	var read ipv4.ControlMessage
	if err := read.Parse(sourceControl(source, 7)); err != nil || read.IfIndex != 7 {
		t.Errorf("an answer leaves by %s, %v", &read, err)
	}
}
