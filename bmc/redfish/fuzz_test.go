// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
	"github.com/ingot-metal/ingot/bmc/redfish"
)

// FuzzAnswers answers every read with any status and body, and every write with any status. The
// driver must return values or a classified error, and never show the password.
func FuzzAnswers(f *testing.F) {
	for _, body := range []string{
		`{"@odata.id":"/redfish/v1/Systems/1","PowerState":"On","Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"},` +
			`"Actions":{"#ComputerSystem.Reset":{"target":"/r","ResetType@Redfish.AllowableValues":["On","ForceOff"]}},` +
			`"Members":[{"@odata.id":"/redfish/v1/Systems/1"}],"EthernetInterfaces":{"@odata.id":"/e"},"MACAddress":"52:54:00:00:00:01"}`,
		`{"Members":[{"@odata.id":"@evil.example/x"}],"Members@odata.nextLink":"/redfish/v1/Systems"}`,
		`{"Members":[{"@odata.id":"/redfish/v1/Systems/1"}],"Members@odata.nextLink":"//evil.example/"}`,
		`{"PowerState":7,"Boot":[],"MemorySummary":{"TotalSystemMemoryGiB":"many"},"ProcessorSummary":{"CoreCount":-3}}`,
		`{"error":{"code":"Base.1.0.X","message":"canary","@Message.ExtendedInfo":[{"MessageId":null}]}}`,
		`[]`, `null`, ``, "\xff\xfe",
	} {
		f.Add(uint8(0), 200, 204, "/redfish/v1/SessionService/Sessions/1", body)
		f.Add(uint8(1), 400, 409, "https://h/s/1", body)
	}
	for _, written := range bmctest.CanaryEncodings() {
		f.Add(uint8(0), 400, 400, "/s", fmt.Sprintf(`{"error":{"code":"Base.1.0.X","message":%q}}`, written))
	}
	names := slices.Sorted(maps.Keys(allCalls))
	for i := range names {
		f.Add(uint8(i), 200, 202, "/s", fmt.Sprintf(everything, ""))
	}
	f.Fuzz(func(t *testing.T, verb uint8, readStatus, writeStatus int, location, body string) {
		s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			status := clampStatus(readStatus)
			if r.Method != http.MethodGet {
				status = clampStatus(writeStatus)
			}
			if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "Sessions") {
				status = http.StatusCreated
				w.Header().Set("Location", strings.Map(printable, location))
				w.Header().Set("X-Auth-Token", "token")
			}
			if r.URL.Path == "/redfish/v1/" {
				status = http.StatusOK
			}
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body))
		}))
		defer s.Close()
		ctx, cancel := context.WithTimeout(t.Context(), longWait)
		defer cancel()
		target := bmc.Target{
			Address:  strings.Replace(s.URL, "https", "redfish", 1) + "/redfish/v1/Systems/1",
			Username: username, Password: canary, InsecureSkipVerify: true,
		}
		check := func(err error) {
			if err != nil && strings.Contains(err.Error(), canary) {
				t.Errorf("the password shows: %v", err)
			}
			if o := bmc.OutcomeOf(err); o == bmc.OutcomeOther || o == bmc.OutcomeTimeout {
				t.Errorf("outcome %s: %v", o, err)
			}
		}
		conn, err := redfish.Dial(ctx, target)
		check(err)
		if err != nil {
			return
		}
		redfish.HurryMedia(conn)
		_, err = conn.PowerState(ctx)
		check(err)
		_, err = conn.Inventory(ctx)
		check(err)
		check(conn.SetPower(ctx, bmc.ActionOn))
		check(conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE, Mode: bmc.ModeUEFI}))
		check(allCalls[names[int(verb)%len(names)]](ctx, conn))
		check(conn.Close(ctx))
	})
}

// clampStatus limits a status to those that net/http lets a handler send as a final answer.
func clampStatus(status int) int {
	if status < 200 || status > 599 {
		return http.StatusOK
	}
	return status
}

func printable(r rune) rune {
	if r < ' ' || r > '~' {
		return -1
	}
	return r
}
