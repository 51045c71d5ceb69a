// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package network

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestCaptureIsRead(t *testing.T) {
	var file bytes.Buffer
	w, err := newPcapWriter(&file)
	if err != nil {
		t.Fatal(err)
	}
	want := []Frame{{time.Unix(1000, 5000), frameTo(1, 2, "one")}, {time.Unix(1001, 999_999_000), frameTo(2, 1, "two")}}
	for _, f := range want {
		w.write(f.At, f.Data)
	}
	whole := file.Bytes()
	got, err := ReadCapture(bytes.NewReader(whole))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	for _, tc := range []struct {
		name, want string
		file       []byte
	}{
		{"empty", "pcap header", nil},
		{"truncated header", "header of frame 1", whole[:24+16+17+5]},
		{"truncated frame", "read frame 1", whole[:len(whole)-1]},
		{"too short frame", "frame 0 has 3 bytes", append(bytes.Clone(whole[:24]), 0, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 3, 0, 0, 0, 'a', 'b', 'c')},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if _, err := ReadCapture(bytes.NewReader(tc.file)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want %q", err, tc.want)
			}
		})
	}
}
