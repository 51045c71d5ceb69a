// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentapi

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestDurationIsText(t *testing.T) {
	for text, want := range map[string]time.Duration{`"2s"`: 2 * time.Second, `"1m30s"`: 90 * time.Second, `"0s"`: 0} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err != nil || time.Duration(d) != want {
			t.Errorf("%s read as %v (%v), want %v", text, time.Duration(d), err, want)
		}
		if back, err := json.Marshal(d); err != nil || string(back) != text {
			t.Errorf("%v written as %s (%v), want %s", want, back, err, text)
		}
	}
	for _, text := range []string{`2`, `"soon"`, `null2`} {
		var d Duration
		if err := json.Unmarshal([]byte(text), &d); err == nil {
			t.Errorf("%s was read as %v", text, time.Duration(d))
		}
	}
}

func TestSensitiveIsNeverPrinted(t *testing.T) {
	const canary = "canary-7f3a"
	bootstrap := Bootstrap{UserData: canary, VendorData: canary}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		for name, value := range map[string]any{"alone": bootstrap.UserData, "in a struct": bootstrap, "by pointer": &bootstrap} {
			if text := fmt.Sprintf(verb, value); strings.Contains(text, canary) || strings.Contains(text, fmt.Sprintf("%x", canary)) {
				t.Errorf("%s %s prints %q", verb, name, text)
			}
		}
	}
	wire, err := json.Marshal(bootstrap)
	if err != nil || !strings.Contains(string(wire), canary) {
		t.Errorf("on the wire it must be itself: %s (%v)", wire, err)
	}
	var back Bootstrap
	if err := json.Unmarshal(wire, &back); err != nil || back.UserData.Reveal() != canary {
		t.Errorf("read back as %q (%v)", back.UserData.Reveal(), err)
	}
}

func TestDiskRefMatches(t *testing.T) {
	disk := Disk{Name: "/dev/sda", Serial: "S1", WWN: "W1", Path: "pci-0000:00:04.0", SizeBytes: 100}
	for _, c := range []struct {
		name string
		ref  DiskRef
		want bool
	}{
		{"serial", DiskRef{Serial: "S1"}, true},
		{"serial, WWN and size", DiskRef{Serial: "S1", WWN: "W1", SizeBytes: 100}, true},
		{"path", DiskRef{Path: "pci-0000:00:04.0"}, true},
		{"another serial", DiskRef{Serial: "S2", WWN: "W1"}, false},
		{"another WWN", DiskRef{Serial: "S1", WWN: "W2"}, false},
		{"another path", DiskRef{Path: "pci-0000:00:05.0"}, false},
		{"a swapped disk", DiskRef{Serial: "S1", SizeBytes: 200}, false},
		{"nothing", DiskRef{}, false},
		{"size alone names nothing", DiskRef{SizeBytes: 100}, false},
	} {
		if got := c.ref.Matches(disk); got != c.want {
			t.Errorf("%s: %+v matches %t, want %t", c.name, c.ref, got, c.want)
		}
	}
}

func TestRefMatchesItsDisk(t *testing.T) {
	for name, c := range map[string]struct {
		disk Disk
		want DiskRef
	}{
		"serial and WWN": {Disk{Serial: "S", WWN: "W", Path: "p", SizeBytes: 1}, DiskRef{Serial: "S", WWN: "W", SizeBytes: 1}},
		"only a path":    {Disk{Path: "p", SizeBytes: 1}, DiskRef{Path: "p", SizeBytes: 1}},
		"only a size":    {Disk{SizeBytes: 1}, DiskRef{SizeBytes: 1}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, c.disk.Ref()); diff != "" {
				t.Errorf("ref (-want +got):\n%s", diff)
			}
			if named := c.disk.Serial+c.disk.WWN+c.disk.Path != ""; c.disk.Ref().Matches(c.disk) != named {
				t.Errorf("the ref of %+v matches it: %t, want %t", c.disk, !named, named)
			}
		})
	}
}
