// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package soak

import (
	"bufio"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

// A gauge reads the manager's memory and goroutines, every second.
type gauge struct {
	stop context.CancelFunc
	done sync.WaitGroup

	mu    sync.Mutex
	reads int
	// memory is the most resident memory in bytes, goroutines their most.
	memory, goroutines float64
	err                error
}

// startGauge reads the metrics at a URL until it is ended.
func startGauge(url func() string) *gauge {
	ctx, cancel := context.WithCancel(context.Background())
	g := &gauge{stop: cancel}
	g.done.Go(func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-ticker.C:
				body, err := fetch(ctx, url())
				g.note(parseMetrics(body), err)
			}
		}
	})
	return g
}

func (g *gauge) note(values map[string]float64, err error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil || len(values) == 0 {
		g.err = cmp.Or(g.err, err)
		return
	}
	g.reads++
	g.memory, g.goroutines = max(g.memory, values[memoryMetric]), max(g.goroutines, values[goroutineMetric])
}

// end stops the gauge; what it read stays.
func (g *gauge) end() {
	g.stop()
	g.done.Wait()
}

// Metrics of every Go process that Prometheus reads.
const (
	memoryMetric    = "process_resident_memory_bytes"
	goroutineMetric = "go_goroutines"
)

func parseMetrics(text string) map[string]float64 {
	values := map[string]float64{}
	for line := range strings.Lines(text) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if name == memoryMetric || name == goroutineMetric {
			values[name], _ = strconv.ParseFloat(value, 64)
		}
	}
	return values
}

func fetch(ctx context.Context, url string) (string, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", url, response.Status)
	}
	return string(body), err
}

// goroutinesOf counts the goroutines of a profile (pprof, debug=1) by the function
// that each began with.
func goroutinesOf(profile string) map[string]int {
	counts := map[string]int{}
	var n int
	var entry string
	lines := bufio.NewScanner(strings.NewReader(profile + "\n\n"))
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		line := lines.Text()
		switch {
		case strings.HasPrefix(line, "#"):
			if fields := strings.Fields(line); len(fields) > 2 {
				entry, _, _ = strings.Cut(fields[2], "+0x")
			}
		case line == "":
			if n > 0 && entry != "" {
				counts[entry] += n
			}
			n, entry = 0, ""
		default:
			n, _ = strconv.Atoi(strings.Fields(line)[0])
		}
	}
	return counts
}

// leaks compares two profiles of a manager at rest with so many hosts, and names what
// has grown by more than chance: some requests are always under way, and a BMC may
// have its idle connection (two goroutines of net/http) at one time and not at the
// other.
func leaks(before, after map[string]int, hosts int) (out []string) {
	for _, entry := range slices.Sorted(maps.Keys(after)) {
		allowed := before[entry] + 5 + hosts/50
		if strings.HasPrefix(entry, "net/http.(*persistConn)") {
			allowed = max(before[entry], hosts) + 5
		}
		if n := after[entry]; n > allowed {
			out = append(out, fmt.Sprintf("%s: %d before, %d after", entry, before[entry], n))
		}
	}
	return out
}

func total(counts map[string]int) (n int) {
	for _, c := range counts {
		n += c
	}
	return n
}

const profile = `goroutine profile: total 12
8 @ 0x47 0x48
#	0x47	net/http.(*persistConn).readLoop+0x1	/go/transport.go:1
#	0x48	created/by.nobody+0x0

3 @ 0x49
#	0x49	a/b.(*C).wait+0x22	/b.go:1
#	0x4a	a/b.(*C).Run.func1+0x22	/b.go:1

1 @ 0x49
#	0x4a	a/b.(*C).Run.func1+0x22	/b.go:1
`

func TestGoroutinesOf(t *testing.T) {
	got := goroutinesOf(profile)
	if len(got) != 2 || got["created/by.nobody"] != 8 || got["a/b.(*C).Run.func1"] != 4 || total(got) != 12 {
		t.Errorf("counts %v", got)
	}
}

func TestLeaks(t *testing.T) {
	before := map[string]int{"a": 10, "net/http.(*persistConn).readLoop": 3}
	for name, tc := range map[string]struct {
		after map[string]int
		want  string
	}{
		"nothing":          {map[string]int{"a": 10}, ""},
		"by chance":        {map[string]int{"a": 17, "b": 2}, ""},
		"one a host":       {map[string]int{"a": 110}, "a: 10 before, 110 after"},
		"connections":      {map[string]int{"net/http.(*persistConn).readLoop": 100}, ""},
		"two connections":  {map[string]int{"net/http.(*persistConn).readLoop": 200}, "readLoop: 3 before, 200 after"},
		"something unseen": {map[string]int{"b": 8}, "b: 0 before, 8 after"},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Join(leaks(before, tc.after, 100), "\n")
			if (got == "") != (tc.want == "") || !strings.Contains(got, tc.want) {
				t.Errorf("%q, want %q", got, tc.want)
			}
		})
	}
}

func TestParseMetrics(t *testing.T) {
	got := parseMetrics("# HELP go_goroutines x\ngo_goroutines 42\nprocess_resident_memory_bytes 1.5e+08\ngo_goroutines_total 7\n")
	if len(got) != 2 || got[goroutineMetric] != 42 || got[memoryMetric] != 1.5e8 {
		t.Errorf("metrics %v", got)
	}
}
