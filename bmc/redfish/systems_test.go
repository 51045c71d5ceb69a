// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
)

// TestSystemsAreNamed: whoever has to choose a system, or chose one that is not there,
// is told which there are.
func TestSystemsAreNamed(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		systems    int
		want       string
	}{
		{"none chosen", "", 3, "the BMC has 3 systems; add the path of one to the address: /redfish/v1/Systems/1, /redfish/v1/Systems/other-1, /redfish/v1/Systems/other-2"},
		{"many", "", 12, "/redfish/v1/Systems/other-5, …"},
		{"another chosen", "/redfish/v1/Systems/7", 3, "the BMC has no system at /redfish/v1/Systems/7; correct the path: /redfish/v1/Systems/1, /redfish/v1/Systems/other-1"},
		{"the only one missed", "/redfish/v1/Systems/7", 1, "correct the path: /redfish/v1/Systems/1"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, func(c *labbmc.Config) { c.Quirks.Systems = tt.systems })
			r.target.Address += tt.path
			conn, err := redfish.Dial(t.Context(), r.target)
			if err == nil {
				_, err = conn.PowerState(t.Context())
				if closeErr := conn.Close(t.Context()); closeErr != nil {
					t.Error(closeErr)
				}
			}
			if !errors.Is(err, bmc.ErrAddress) || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("got %v, want ErrAddress and %q", err, tt.want)
			}
		})
	}
}
