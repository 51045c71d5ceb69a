// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendorbmc_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/hex"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
	"github.com/ingot-metal/ingot/lab/vendorbmc"
)

const secret = "s3cret"

func config(t *testing.T) (vendorbmc.Config, *machine.Bench, *http.Client) {
	t.Helper()
	ca, err := endpoint.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.PEM())
	transport := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}}
	t.Cleanup(transport.CloseIdleConnections)
	bench := &machine.Bench{}
	return vendorbmc.Config{Authority: ca, Machine: bench, Username: "admin", Password: secret}, bench, &http.Client{Transport: transport}
}

// post sends a body and returns status and answer.
func post(t *testing.T, client *http.Client, url, body string, header http.Header) (int, string) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	resp, err := client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(text)
}

func signed(body string) http.Header {
	mac := hmac.New(sha256.New, []byte(secret))
	_, _ = mac.Write([]byte(body))
	return http.Header{"X-Bmclib-Signature-256": {"sha256=" + hex.EncodeToString(mac.Sum(nil))}}
}

func TestWebhook(t *testing.T) {
	cfg, bench, client := config(t)
	s, err := vendorbmc.StartWebhook(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, tc := range []struct {
		name, body string
		header     func(string) http.Header
		status     int
		want       string
		powered    bool
	}{
		{"unsigned", `{"method":"ping"}`, func(string) http.Header { return http.Header{} }, 401, "the signature is wrong\n", false},
		{"signed for another", `{"method":"ping"}`, func(string) http.Header { return signed("x") }, 401, "the signature is wrong\n", false},
		{"ping", `{"id":7,"host":"h","method":"ping"}`, signed, 200, `{"id":7,"host":"h","result":"pong"}`, false},
		{"on", `{"id":8,"method":"setPowerState","params":{"state":"on"}}`, signed, 200, `{"id":8,"host":"","result":"ok"}`, true},
		{"state", `{"id":9,"method":"getPowerState"}`, signed, 200, `{"id":9,"host":"","result":"on"}`, true},
		{"levitate", `{"id":10,"method":"setPowerState","params":{"state":"levitate"}}`, signed, 200,
			`{"id":10,"host":"","error":{"code":400,"message":"no such state"}}`, true},
		{"unknown", `{"id":11,"method":"screenshot"}`, signed, 200, `{"id":11,"host":"","error":{"code":501,"message":"no such method"}}`, true},
	} {
		t.Run(tc.name, func(t *testing.T) {
			status, text := post(t, client, "https://"+s.Host()+"/", tc.body, tc.header(tc.body))
			if diff := cmp.Diff(tc.want, text); diff != "" || status != tc.status || bench.Powered() != tc.powered {
				t.Errorf("status %d, powered %v (-want +got):\n%s", status, bench.Powered(), diff)
			}
		})
	}
	if n := s.Requests(); n != 7 {
		t.Errorf("%d requests counted", n)
	}
}

// TestAMTRequiresDigest checks that AMT requires Digest credentials; the driver's tests check the
// rest.
func TestAMTRequiresDigest(t *testing.T) {
	cfg, bench, client := config(t)
	s, err := vendorbmc.StartAMT(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	for _, header := range []http.Header{{}, {"Authorization": {`Digest username="admin",response="0"`}}, {"Authorization": {"Basic YWRtaW46czNjcmV0"}}} {
		if status, _ := post(t, client, "https://"+s.Host()+"/wsman", "<x/>", header); status != http.StatusUnauthorized || bench.Powered() {
			t.Errorf("%v: status %d", header, status)
		}
	}
	if status, _ := post(t, client, "https://"+s.Host()+"/redfish/v1", "", http.Header{}); status != http.StatusNotFound {
		t.Errorf("another path: status %d", status)
	}
}

func TestASRockRack(t *testing.T) {
	cfg, _, client := config(t)
	s, err := vendorbmc.StartASRockRack(cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	url := "https://" + s.Host()
	if status, _ := post(t, client, url+"/api/session", "username=admin&password=wrong&certlogin=0", http.Header{}); status != 401 || s.Sessions() != 0 {
		t.Errorf("wrong password: status %d, %d sessions", status, s.Sessions())
	}
	if status, text := post(t, client, url+"/api/session", "username=admin&password=s3cret&certlogin=0", http.Header{}); status != 200 || s.Sessions() != 1 {
		t.Errorf("login: status %d %s, %d sessions", status, text, s.Sessions())
	}
	if status, _ := post(t, client, url+"/api/actions/power", `{"power_command":1}`, http.Header{}); status != 401 {
		t.Errorf("without a session: status %d", status)
	}
}

func TestRequiredConfig(t *testing.T) {
	for _, start := range []func(vendorbmc.Config) (*vendorbmc.Server, error){vendorbmc.StartWebhook, vendorbmc.StartAMT} {
		if _, err := start(vendorbmc.Config{}); err == nil {
			t.Error("started without anything")
		}
	}
}
