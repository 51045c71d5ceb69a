// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"bytes"
	"context"
	"encoding/base64"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	testclock "k8s.io/utils/clock/testing"

	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// watched says whether a body was read.
type watched struct {
	io.Reader
	read bool
}

func (w *watched) Read(b []byte) (int, error) {
	w.read = true
	return w.Reader.Read(b)
}

// Nothing of a body is read that no boot server has sealed, nothing is believed that is
// another body than the sealed one, and only so many are worked on at once.
func TestSealBeforeBody(t *testing.T) {
	keys, err := token.NewKeys(bytes.Repeat([]byte{7}, token.MinKeyBytes))
	must(t, err)
	const body = `{"boots":[]}`
	good := begin.Format(time.RFC3339Nano)
	seal := func(at, sum string) string {
		return base64.StdEncoding.EncodeToString(keys.Seal(sealed(at, sum)))
	}
	for name, tc := range map[string]struct {
		at, sum, seal, body string
		busy                int32
		want                int
		read                bool
	}{
		"sealed":             {good, sumOf([]byte(body)), seal(good, sumOf([]byte(body))), body, maxAtOnce - 1, http.StatusNoContent, true},
		"too many":           {good, sumOf([]byte(body)), seal(good, sumOf([]byte(body))), body, maxAtOnce, http.StatusServiceUnavailable, false},
		"no seal":            {good, sumOf([]byte(body)), "", body, 0, http.StatusForbidden, false},
		"the seal of others": {good, sumOf([]byte(body)), seal(good, sumOf([]byte("x"))), body, 0, http.StatusForbidden, false},
		"another time":       {begin.Add(time.Second).Format(time.RFC3339Nano), sumOf([]byte(body)), seal(good, sumOf([]byte(body))), body, 0, http.StatusForbidden, false},
		"no time":            {"x", sumOf([]byte(body)), seal("x", sumOf([]byte(body))), body, 0, http.StatusForbidden, false},
		"another body":       {good, sumOf([]byte(body)), seal(good, sumOf([]byte(body))), `{"boots":[{}]}`, 0, http.StatusForbidden, true},
		"too large":          {good, sumOf([]byte(body)), seal(good, sumOf([]byte(body))), strings.Repeat(" ", maxBody+1), 0, http.StatusRequestEntityTooLarge, true},
	} {
		t.Run(name, func(t *testing.T) {
			handler := &Handler{Clock: testclock.NewFakePassiveClock(begin), Sealed: keys.Sealed, Log: logr.Discard(),
				Record: func(context.Context, []bootlog.Boot) error { return nil }}
			handler.busy.Store(tc.busy)
			in := &watched{Reader: strings.NewReader(tc.body)}
			r := httptest.NewRequest(http.MethodPost, Path, in)
			r.Header.Set(atHeader, tc.at)
			r.Header.Set(sumHeader, tc.sum)
			r.Header.Set(sealHeader, tc.seal)
			w := httptest.NewRecorder()
			handler.ServeHTTP(w, r)
			if w.Code != tc.want || in.read != tc.read {
				t.Errorf("status %d, body read %t; want %d, %t", w.Code, in.read, tc.want, tc.read)
			}
			if got := handler.busy.Load(); got != tc.busy {
				t.Errorf("%d places are held, want %d", got, tc.busy)
			}
		})
	}
}
