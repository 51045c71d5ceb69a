// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package sushy_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/sushy"
)

const (
	uuid   = "27946b59-9e44-4fa7-8e91-f3527a1ef094"
	system = "/redfish/v1/Systems/" + uuid
)

// TestAnswers compares the answers with the source of sushy-tools.
func TestAnswers(t *testing.T) {
	bench := &machine.Bench{}
	s, err := sushy.Start(sushy.Config{Machine: bench, UUID: uuid, Name: "fake", Username: "admin", Password: "secret", MACs: []string{"00:5c:52:31:3a:9c"}})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	base := "http" + strings.TrimPrefix(s.Address(), "redfish+http")
	for _, tc := range []struct {
		method, path, body string
		anonymous          bool
		status             int
		has                string // in the answer
	}{
		{"GET", "/redfish/v1", "", true, 200, `"RedfishVersion":"1.5.0"`},
		{"GET", "/redfish/v1/Systems", "", true, 401, "Authorization required"},
		{"GET", "/redfish/v1/SessionService", "", false, 404, "Base.1.0.GeneralError"},
		{"GET", system, "", false, 200, `"BootSourceOverrideEnabled":"Continuous"`},
		{"GET", system + "/", "", false, 200, `"HttpBootUri":"None"`},
		{"GET", "/redfish/v1/Systems/fake", "", false, 307, ""},
		{"GET", system + "/Memory", "", false, 404, ""},
		{"GET", system + "/BIOS", "", false, 501, "Not implemented"},
		{"PATCH", system, `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`, false, 204, ""},
		{"PATCH", system, `{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`, false, 400, "Missing the BootSourceOverrideTarget"},
		{"PATCH", system, `{}`, false, 400, "PATCH only works for Boot"},
		{"POST", system + "/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`, false, 204, ""},
		{"POST", system + "/Actions/ComputerSystem.Reset", `{"ResetType":"Levitate"}`, false, 501, "is not supported"},
		{"POST", system + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", `{"Image":"http://x/y.iso","UserName":"a"}`, false, 400, "must be passed together"},
		{"POST", system + "/VirtualMedia/Cd/Actions/VirtualMedia.InsertMedia", `{"Image":"http://x/y.iso"}`, false, 204, ""},
		{"GET", system + "/VirtualMedia/Cd", "", false, 200, `"ImageName":"y.iso"`},
		{"POST", system + "/VirtualMedia/Cd/Actions/VirtualMedia.EjectMedia", `{}`, false, 204, ""},
	} {
		t.Run(tc.method+" "+tc.path, func(t *testing.T) {
			r, err := http.NewRequestWithContext(t.Context(), tc.method, base+tc.path, strings.NewReader(tc.body))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if !tc.anonymous {
				r.SetBasicAuth("admin", "secret")
			}
			resp, err := (&http.Transport{}).RoundTrip(r)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = resp.Body.Close() }()
			text, err := io.ReadAll(resp.Body)
			if err != nil || resp.StatusCode != tc.status || !strings.Contains(string(text), tc.has) {
				t.Errorf("%v, status %d, %s", err, resp.StatusCode, text)
			}
			if resp.Header.Get("ETag") != "" || tc.status == 200 && !json.Valid(text) {
				t.Errorf("ETag %q, %s", resp.Header.Get("ETag"), text)
			}
		})
	}
	if !bench.Powered() || bench.Boot().Target != machine.TargetPXE {
		t.Errorf("powered %v, boot %+v", bench.Powered(), bench.Boot())
	}
}
