// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package marker_test

import (
	"bytes"
	"errors"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/marker"
	"github.com/ingot-metal/ingot/agentapi"
)

func format(t testing.TB, m agentapi.Marker) []byte {
	t.Helper()
	b, err := marker.Format(m)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestParse(t *testing.T) {
	good := agentapi.Marker{InstanceID: "0b8c6a5e-1", Attempt: 3, Complete: true}
	bytesOf := func(change func([]byte)) []byte {
		b := format(t, good)
		change(b)
		return b
	}
	for _, tc := range []struct {
		name string
		in   []byte
		want *agentapi.Marker
		err  error
	}{
		{"as written", format(t, good), &good, nil},
		{"an empty disk", make([]byte, agentapi.MarkerSize), nil, nil},
		{"nothing", nil, nil, nil},
		{"something else", []byte("LABELONE and so on"), nil, nil},
		{"a flipped bit", bytesOf(func(b []byte) { b[40] ^= 1 }), nil, marker.ErrDamaged},
		{"another attempt, old sum", bytesOf(func(b []byte) {
			copy(b, bytes.Replace(b, []byte(`"attempt":3`), []byte(`"attempt":4`), 1))
		}), nil, marker.ErrDamaged},
		{"cut off after the magic", []byte("ingot-marker-1 "), nil, marker.ErrDamaged},
		{"no end of line", bytesOf(func(b []byte) { copy(b, bytes.ReplaceAll(b, []byte("\n"), []byte("x"))) }), nil, marker.ErrDamaged},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got, err := marker.Parse(tc.in)
			if !errors.Is(err, tc.err) {
				t.Fatalf("error %v, want %v", err, tc.err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestFormatFitsIntoOneSector(t *testing.T) {
	b := format(t, agentapi.Marker{InstanceID: strings.Repeat("x", 63), Attempt: 1<<31 - 1})
	if len(b) != agentapi.MarkerSize {
		t.Errorf("%d bytes, want %d", len(b), agentapi.MarkerSize)
	}
	if rest := b[512:]; !bytes.Equal(rest, make([]byte, len(rest))) {
		t.Error("marker is longer than a sector: it could be torn")
	}
	for _, id := range []string{"", strings.Repeat("x", 600)} {
		if _, err := marker.Format(agentapi.Marker{InstanceID: id}); err == nil {
			t.Errorf("instance of %d characters accepted", len(id))
		}
	}
}

type disk struct {
	b     []byte
	syncs int
}

func (d *disk) WriteAt(p []byte, off int64) (int, error) { return copy(d.b[off:], p), nil }
func (d *disk) Sync() error                              { d.syncs++; return nil }

func TestWriteIsDurableAndChangesNothingElse(t *testing.T) {
	d := &disk{b: bytes.Repeat([]byte{0xee}, 2<<20)}
	want := agentapi.Marker{InstanceID: "i1", Attempt: 1}
	if err := marker.Write(d, want); err != nil {
		t.Fatal(err)
	}
	if d.syncs != 1 {
		t.Errorf("%d syncs, want 1", d.syncs)
	}
	got, err := marker.Read(bytes.NewReader(d.b))
	if diff := cmp.Diff(&want, got); err != nil || diff != "" {
		t.Error(err, diff)
	}
	outside := append(d.b[:agentapi.MarkerOffset:agentapi.MarkerOffset], d.b[agentapi.MarkerOffset+agentapi.MarkerSize:]...)
	if !bytes.Equal(outside, bytes.Repeat([]byte{0xee}, len(outside))) {
		t.Error("bytes outside the marker changed")
	}
	if m, err := marker.Read(bytes.NewReader(make([]byte, 100))); m != nil || err != nil {
		t.Errorf("a disk too small for a marker: %v, %v", m, err)
	}
}

// The name of a damaged marker depends on the damaged content.
func TestDamagedMarkersHaveDistinctNames(t *testing.T) {
	names := map[string]bool{}
	for _, text := range []string{"ingot-marker-1 x", "ingot-marker-1 y", "ingot-marker-1 y"} {
		b := make([]byte, 1<<20)
		copy(b[agentapi.MarkerOffset:], text)
		_, err := marker.Read(bytes.NewReader(b))
		damaged, ok := errors.AsType[*marker.DamagedError](err)
		if !ok || !errors.Is(err, marker.ErrDamaged) || !regexp.MustCompile(`^damaged-[0-9a-f]{16}$`).MatchString(damaged.Name) || !strings.Contains(err.Error(), damaged.Name) {
			t.Fatalf("%q: %v", text, err)
		}
		names[damaged.Name] = true
	}
	if len(names) != 2 {
		t.Errorf("names %v, want one for each damage", names)
	}
}

func FuzzParse(f *testing.F) {
	f.Add(format(f, agentapi.Marker{InstanceID: "i1", Attempt: 1, Complete: true}))
	f.Add([]byte("ingot-marker-1 0123456789abcdef {}\n"))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := marker.Parse(b)
		if m == nil {
			return
		}
		if err != nil {
			t.Fatalf("both a marker and %v", err)
		}
		again, err := marker.Parse(format(t, *m))
		if diff := cmp.Diff(m, again); err != nil || diff != "" {
			t.Error(err, diff)
		}
	})
}
