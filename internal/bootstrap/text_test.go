// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootstrap

import (
	"bytes"
	"compress/gzip"
	"errors"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/ingot-metal/ingot/agentapi"
)

func packed(t testing.TB, text string) []byte {
	t.Helper()
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestText(t *testing.T) {
	const config = "#cloud-config\nhostname: größer\n"
	whole := packed(t, config)
	for name, c := range map[string]struct {
		data       []byte
		want, says string
	}{
		"empty":                   {},
		"plain":                   {data: []byte(config), want: config},
		"gzip":                    {data: whole, want: config},
		"gzip in two members":     {data: append(packed(t, config[:7]), packed(t, config[7:])...), want: config},
		"gzip that was cut off":   {data: whole[:len(whole)-9], says: "unpack gzip"},
		"gzip of another content": {data: append(whole[:len(whole):len(whole)], 'x'), says: "unpack gzip"},
		"a head of gzip":          {data: gzipMagic, says: "invalid gzip header"},
		"gzip that is a bomb":     {data: packed(t, strings.Repeat("a", agentapi.MaxBootstrapBytes+1)), says: "longer than"},
		"Latin-1":                 {data: []byte("#cloud-config\nhostname: gr\xf6\xdfer\n"), says: "UTF-8"},
		"gzip of gzip":            {data: packed(t, string(whole)), says: "UTF-8"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Text(c.data)
			if (err != nil) != (c.says != "") || got != c.want {
				t.Fatalf("%q, %v", got, err)
			}
			if err != nil && (!errors.Is(err, ErrNotText) || !strings.Contains(err.Error(), c.says)) {
				t.Errorf("%v, want ErrNotText with %q", err, c.says)
			}
		})
	}
}

func FuzzText(f *testing.F) {
	f.Add([]byte("#cloud-config\n"))
	f.Add(packed(f, "#cloud-config\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		text, err := Text(data)
		if !utf8.ValidString(text) || len(text) > max(len(data), agentapi.MaxBootstrapBytes) || err != nil && (text != "" || !errors.Is(err, ErrNotText)) {
			t.Errorf("%d bytes, %v", len(text), err)
		}
	})
}
