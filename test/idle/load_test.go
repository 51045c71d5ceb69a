// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// TestLoad: requests are counted in the window only, by server and by second.
func TestLoad(t *testing.T) {
	from := time.Date(2026, 1, 2, 3, 4, 0, 0, time.UTC)
	at := func(seconds ...int) []time.Time {
		var out []time.Time
		for _, s := range seconds {
			out = append(out, from.Add(time.Duration(s)*time.Second))
		}
		return out
	}
	m := &meter{seen: map[string][]time.Time{"a": at(-5, 10, 70, 110, 130), "b": at(10, 71), "c": nil}}
	w := window{from: from, to: from.Add(2 * time.Minute)}
	got := loadOf(m, []string{"a", "b", "c"}, w)
	want := load{servers: 3, total: 5, busiest: "a", most: 3, peak: 2, gap: 40 * time.Second}
	want.seconds[10], want.seconds[11], want.seconds[50] = 3, 1, 1
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(load{})); diff != "" {
		t.Errorf("load (-want +got):\n%s", diff)
	}
	if text := got.report(w); !strings.Contains(text, "5 by 3 servers; per host and minute 0.83 in the mean, 1.50 at most (a, 3)") {
		t.Errorf("report: %s", text)
	}
}
