// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/bmc"
)

// moreCalls are the calls that TestLimits does not need.
var moreCalls = map[string]func(context.Context, bmc.Conn) error{
	"Identity":     func(ctx context.Context, c bmc.Conn) error { _, err := c.Identity(ctx); return err },
	"BootOverride": func(ctx context.Context, c bmc.Conn) error { _, err := c.BootOverride(ctx); return err },
	"SetBootOverride": func(ctx context.Context, c bmc.Conn) error {
		return c.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE})
	},
	"SetPower":  func(ctx context.Context, c bmc.Conn) error { return c.SetPower(ctx, bmc.ActionForceOff) },
	"Indicator": func(ctx context.Context, c bmc.Conn) error { _, err := c.Indicator(ctx); return err },
	"SetSettings": func(ctx context.Context, c bmc.Conn) error {
		return c.SetSettings(ctx, map[string]string{"A": "1", "B": "other"})
	},
	"UpdateWays": func(ctx context.Context, c bmc.Conn) error { _, err := c.UpdateMethods(ctx); return err },
	"Update by FTP": func(ctx context.Context, c bmc.Conn) error {
		_, err := c.UpdateFirmware(ctx, bmc.Update{URL: "ftp://x/y"})
		return err
	},
}

// TestErrorsHideRepeatedPassword puts the password into each text that a BMC shows, also where the
// text is cut, and checks that no error shows it (I18).
func TestErrorsHideRepeatedPassword(t *testing.T) {
	shown := strings.NewReplacer(
		`"Type":"Integer","UpperBound":5}`, `"Type":"Integer","UpperBound":5},{"AttributeName":"B","Type":"Enumeration","Value":[{"ValueName":"x"}]}`,
		`"#UpdateService.SimpleUpdate":{"target":"/x"`, `"#UpdateService.SimpleUpdate":{"target":"/x","TransferProtocol@Redfish.AllowableValues":["HTTP"]`,
		`"SecureBootEnable"`, `"UUID":"u","Boot":{"BootSourceOverrideTarget":"None","BootSourceOverrideTarget@Redfish.AllowableValues":["Pxe"],"BootSourceOverrideEnabled":"Disabled"},"SecureBootEnable"`,
		`"#Manager.Reset"`, `"#ComputerSystem.Reset":{"target":"/x","ResetType@Redfish.AllowableValues":["ForceOff"]},"#Manager.Reset"`,
	).Replace(fmt.Sprintf(everything, ""))
	allCalls := maps.Clone(allCalls)
	maps.Copy(allCalls, moreCalls)
	var document any
	if err := json.Unmarshal([]byte(shown), &document); err != nil {
		t.Fatal(err)
	}
	var body []byte
	b := newRepeater(t, &body)
	failed := map[string]bool{}
	for _, place := range texts(nil, document) {
		for _, said := range []string{canary, strings.Repeat("x", 15) + canary, strings.Repeat("x", 290) + canary, strings.ToLower(canary) + " " + canary} {
			changed, err := json.Marshal(withText(document, place, said))
			if err != nil {
				t.Fatal(err)
			}
			body = changed
			conn, err := dialFast(t.Context(), b)
			if shows(err) {
				t.Errorf("Dial shows %s: %v", strings.Join(place, "."), err)
			}
			if err != nil {
				continue
			}
			for name, verb := range allCalls {
				err := verb(t.Context(), conn)
				failed[name] = failed[name] || err != nil
				if shows(err) {
					t.Errorf("%s shows %s: %v", name, strings.Join(place, "."), err)
				}
			}
			_ = conn.Close(t.Context())
		}
	}
	for name := range allCalls {
		if !failed[name] {
			t.Logf("%s: no text made an error of it", name)
		}
	}
	if len(failed) != len(allCalls) {
		t.Errorf("%d of %d allCalls were tried", len(failed), len(allCalls))
	}
}

// newRepeater starts a BMC that answers every request with body.
func newRepeater(t *testing.T, body *[]byte) bmc.Target {
	t.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if r.Method == http.MethodPost && strings.HasSuffix(r.URL.Path, "Sessions") {
			w.Header().Set("Location", "/s")
			w.Header().Set("X-Auth-Token", "token")
			w.WriteHeader(http.StatusCreated)
			return
		}
		_, _ = w.Write(*body)
	}))
	t.Cleanup(s.Close)
	return bmc.Target{
		Address:  strings.Replace(s.URL, "https", "redfish", 1) + "/redfish/v1/Systems/1",
		Username: username, Password: canary, InsecureSkipVerify: true,
	}
}

// texts are the places of a document's texts.
func texts(at []string, document any) (places [][]string) {
	switch v := document.(type) {
	case string:
		return [][]string{slices.Clone(at)}
	case map[string]any:
		for _, key := range slices.Sorted(maps.Keys(v)) {
			places = append(places, texts(append(at, key), v[key])...)
		}
	case []any:
		for i, element := range v {
			places = append(places, texts(append(at, strconv.Itoa(i)), element)...)
		}
	}
	return places
}

// with returns a copy of a document with another text at a path.
func withText(document any, place []string, text string) any {
	if len(place) == 0 {
		return text
	}
	switch v := document.(type) {
	case map[string]any:
		v = maps.Clone(v)
		v[place[0]] = withText(v[place[0]], place[1:], text)
		return v
	case []any:
		v = slices.Clone(v)
		i, _ := strconv.Atoi(place[0]) // texts wrote it
		v[i] = withText(v[i], place[1:], text)
		return v
	}
	return document
}

// TestErrorsHideImageSignature checks that an error hides the signature of an image URL that the
// BMC repeats (I18).
func TestErrorsHideImageSignature(t *testing.T) {
	const image, signature = "http://store/BIOS.bin", "c2lnbmF0dXJlLW9mLWltYWdl"
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Method != http.MethodPost:
			_, _ = fmt.Fprintf(w, everything, "")
		case strings.HasSuffix(r.URL.Path, "Sessions"):
			w.Header().Set("Location", "/s")
			w.Header().Set("X-Auth-Token", "token")
			w.WriteHeader(http.StatusCreated)
		default:
			sent, _ := io.ReadAll(r.Body)
			w.WriteHeader(http.StatusBadRequest)
			_ = json.NewEncoder(w).Encode(map[string]any{"error": map[string]any{"message": "not taken: " + string(sent)}})
		}
	}))
	t.Cleanup(s.Close)
	conn, err := dialFast(t.Context(), bmc.Target{
		Address:  strings.Replace(s.URL, "https", "redfish", 1) + "/redfish/v1/Systems/1",
		Username: username, Password: canary, InsecureSkipVerify: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	_, err = conn.UpdateFirmware(t.Context(), bmc.Update{URL: image + "?Expires=1790000000&Signature=" + signature})
	if err == nil || !strings.Contains(err.Error(), image+"?***") || strings.Contains(err.Error(), signature) {
		t.Errorf("error %v, want the image without its signature", err)
	}
}
