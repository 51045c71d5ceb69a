// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/bmctest"
)

// FuzzAnswers gives every driver arbitrary answers. None may panic or hang, and no error may show
// the password.
func FuzzAnswers(f *testing.F) {
	var challenge, body atomic.Value
	var status atomic.Int64
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if text, _ := challenge.Load().(string); text != "" && r.Header.Get("Authorization") == "" {
			w.Header().Set("WWW-Authenticate", text)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		w.WriteHeader(int(status.Load()))
		_, _ = w.Write([]byte(body.Load().(string)))
	}))
	f.Cleanup(s.Close)
	const digest = `Digest realm="r", nonce="n",qop="auth"`
	f.Add(200, digest, `<a:Envelope xmlns:a="http://www.w3.org/2003/05/soap-envelope"><a:Header/><a:Body/></a:Envelope>`)
	f.Add(200, digest, `<g:AvailableRequestedPowerStates>2</g:AvailableRequestedPowerStates><g:ReturnValue>5</g:ReturnValue>`)
	f.Add(200, "Digest realm", "")
	f.Add(200, "", `{"id":1,"host":"x","result":"on"}`)
	f.Add(200, "", `{"csrftoken":"x","power_status":1}`)
	f.Add(200, "", `[{"board":{"product_name":"E3C246D4I-NL"},"chassis":null}]`)
	for _, text := range bmctest.CanaryEncodings() {
		f.Add(500, "", text)
	}
	f.Add(200, "", `<IPMI><FRU_INFO/></IPMI>url_redirect.cgi?url_name=topmenu`)
	f.Fuzz(func(t *testing.T, code int, auth, text string) {
		if code < 200 || code > 599 || strings.ContainsAny(auth, "\r\n\x00") {
			t.Skip()
		}
		challenge.Store(auth)
		status.Store(int64(code))
		body.Store(text)
		for _, d := range driverSpecs() {
			target := bmc.Target{
				Address: Scheme + d.name + "://" + s.Listener.Addr().String(), Username: "admin", Password: bmctest.Canary, InsecureSkipVerify: true,
			}
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			err := callAll(ctx, d, target)
			cancel()
			if err != nil && (strings.Contains(err.Error(), bmctest.Canary) || ctx.Err() == context.DeadlineExceeded) {
				t.Errorf("%s: %v", d.name, err)
			}
		}
	})
}

// callAll opens bmclib's connection and makes all its calls.
func callAll(ctx context.Context, d driverSpec, target bmc.Target) error {
	l, err := dialLink(ctx, d, target)
	if err != nil {
		return err
	}
	if d.usesRedfish {
		if lib, ok := l.lib.(follower); ok {
			_, err = follow(ctx, l, lib, "", componentBIOS, "1")
		}
		_ = l.close(ctx)
		return err
	}
	conn := d.conn(&base{spec: d, target: target, link: l})
	defer func() { _ = conn.Close(ctx) }()
	for _, call := range []func() error{
		func() error { _, err := conn.PowerState(ctx); return err },
		func() error { return conn.SetPower(ctx, bmc.ActionForceOff) },
		func() error { return conn.SetBootOverride(ctx, bmc.BootOverride{Target: bmc.BootPXE}) },
		func() error { _, err := conn.Inventory(ctx); return err },
		func() error { _, err := conn.Task(ctx, ownTask+componentBMC+":1"); return err },
	} {
		if e := call(); e != nil {
			err = e
		}
	}
	return err
}
