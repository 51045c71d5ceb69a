// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline_test

import (
	"bytes"
	"encoding/xml"
	"errors"
	"flag"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/test/timeline"
)

var update = flag.Bool("update", false, "write the golden files")

var start = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func mark(name string, after float64) timeline.Mark {
	return timeline.Mark{Name: name, At: start.Add(time.Duration(after * float64(time.Second)))}
}

// machines are two that overlap, the later one first, its marks in no order, and one
// that reached nothing.
func machines() []timeline.Machine {
	return []timeline.Machine{
		{Name: "c1-md-0-a<b", Host: "r2-s1", Marks: []timeline.Mark{mark("power", 92.5), mark("claim", 90), mark("Ready", 210.25)}},
		{Name: "c1-control-plane-x", Host: "r1-s1", Marks: []timeline.Mark{mark("claim", 0), mark("power", 2), mark("DHCP", 8.125), mark("Ready", 150)}},
		{Name: "c1-md-0-none", Host: "r3-s1"},
	}
}

func TestGolden(t *testing.T) {
	asJSON, err := timeline.JSON(machines())
	if err != nil {
		t.Fatal(err)
	}
	for name, got := range map[string][]byte{
		"timeline.txt": []byte(timeline.Text(machines())), "timeline.json": asJSON,
		"timeline.svg": timeline.SVG("cluster c1 & its machines", machines()),
	} {
		path := filepath.Join("testdata", name)
		if *update {
			if err := os.WriteFile(path, got, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// TestSVGIsXML: also of nothing, of one moment, and of a span longer than any.
func TestSVGIsXML(t *testing.T) {
	for name, of := range map[string][]timeline.Machine{
		"some": machines(), "none": nil,
		"one moment": {{Name: "a", Host: "b", Marks: []timeline.Mark{mark("claim", 0)}}},
		"days":       {{Name: "a", Host: "b", Marks: []timeline.Mark{mark("claim", 0), mark("Ready", 1e6)}}},
	} {
		t.Run(name, func(t *testing.T) {
			decoder := xml.NewDecoder(bytes.NewReader(timeline.SVG("<title>", of)))
			lines := 0
			for {
				token, err := decoder.Token()
				if errors.Is(err, io.EOF) {
					break
				}
				if err != nil {
					t.Fatal(err)
				}
				if element, ok := token.(xml.StartElement); ok && element.Name.Local == "line" {
					lines++
				}
			}
			if lines < 1 || lines > 14 {
				t.Errorf("%d lines of the axis", lines)
			}
		})
	}
}

func TestTextOfNothing(t *testing.T) {
	if got := timeline.Text([]timeline.Machine{{Name: "a"}}); got != "no machine reached anything\n" {
		t.Errorf("%q", got)
	}
}
