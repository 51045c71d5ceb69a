// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/ingot-metal/ingot/pxe/httpd"
)

// Firmware images come only from allowed sources, because tenants choose the URLs.
func TestFirmwareSources(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	defer server.Close()
	for _, tc := range []struct {
		name    string
		sources []string
		allowed bool
	}{
		{"none named", nil, false},
		{"another", []string{"images.example.com"}, false},
		{"this one", []string{"127.0.0.0/8"}, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			o := valid()
			o.Images.Sources = tc.sources
			hosts, err := hostReconciler(o, &identity{})
			if err != nil {
				t.Fatal(err)
			}
			if hosts.Images == nil {
				t.Fatal("the reconciler has no client of its own")
			}
			response, err := hosts.Images.Get(server.URL)
			if err == nil {
				_ = response.Body.Close()
			}
			if (err == nil) != tc.allowed || err != nil && !errors.Is(err, httpd.ErrSourceNotAllowed) {
				t.Errorf("allowed %t, want %t: %v", err == nil, tc.allowed, err)
			}
		})
	}
	o := valid()
	o.Images.CAFile = "/nonexistent"
	if _, err := hostReconciler(o, &identity{}); err == nil {
		t.Error("a missing CA file was accepted")
	}
}
