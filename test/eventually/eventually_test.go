// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package eventually_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/test/eventually"
)

// witness is a test that keeps what a wait makes of it.
type witness struct {
	testing.TB
	fatals, logs []string
}

func (w *witness) Fatalf(format string, args ...any) {
	w.fatals = append(w.fatals, fmt.Sprintf(format, args...))
}

func (w *witness) Logf(format string, args ...any) {
	w.logs = append(w.logs, fmt.Sprintf(format, args...))
}

// looks gives these answers one after the other, and then the last for ever; the
// empty one is nothing missing.
func looks(taken *int, answers ...string) eventually.Missing {
	return func(context.Context) (string, error) {
		answer := answers[min(*taken, len(answers)-1)]
		*taken++
		if text, failed := strings.CutPrefix(answer, "error "); failed {
			return "", errors.New(text)
		}
		return answer, nil
	}
}

func TestUntil(t *testing.T) {
	explain := func() string { return "the events" }
	for name, tc := range map[string]struct {
		wait    eventually.Wait
		answers []string
		looks   int      // 0: some
		fatal   []string // what the test fails with
		logs    []string // what it logs
	}{
		"at once":                        {answers: []string{""}, looks: 1},
		"after some looks":               {answers: []string{"a host", "error busy", ""}, looks: 3},
		"broken is not asked at the end": {wait: eventually.Wait{Broken: func() error { return errors.New("dead") }}, answers: []string{""}, looks: 1},
		"broken": {
			wait:    eventually.Wait{Broken: func() error { return errors.New("the manager is dead") }, Explain: explain},
			answers: []string{"a host"}, looks: 1,
			fatal: []string{"for hosts: the manager is dead; missing: a host\nthe events"},
		},
		"broken later": {
			wait:    eventually.Wait{Broken: later("dead", 3)},
			answers: []string{"a host", "two hosts", "three hosts"}, looks: 3,
			fatal: []string{"for hosts: dead; missing: three hosts"},
		},
		"not in time": {
			wait:    eventually.Wait{Limit: 20 * time.Millisecond},
			answers: []string{"a host"},
			fatal:   []string{"for hosts: context deadline exceeded; missing: a host"},
		},
		"never without an error": {
			wait:    eventually.Wait{Limit: 20 * time.Millisecond, Explain: explain},
			answers: []string{"error busy"},
			fatal:   []string{"missing: busy\nthe events"},
		},
		"a wait that reports": {
			wait:    eventually.Wait{Report: time.Nanosecond},
			answers: []string{"a host", "error busy", ""}, looks: 3,
			logs: []string{"; missing: a host", "; missing: busy", "hosts: after "},
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tc.wait.Interval == 0 {
				tc.wait.Interval = time.Millisecond
			}
			w, taken := &witness{TB: t}, 0
			tc.wait.Until(w, "hosts", looks(&taken, tc.answers...))
			if tc.looks != 0 && taken != tc.looks {
				t.Errorf("%d looks, want %d", taken, tc.looks)
			}
			if !slices.EqualFunc(w.fatals, tc.fatal, strings.Contains) {
				t.Errorf("fails with %q, want %q", w.fatals, tc.fatal)
			}
			if !slices.EqualFunc(w.logs, tc.logs, strings.Contains) {
				t.Errorf("logs %q, want %q", w.logs, tc.logs)
			}
		})
	}
}

// later says that something is broken when it is asked for the nth time.
func later(why string, nth int) func() error {
	return func() error {
		if nth--; nth > 0 {
			return nil
		}
		return errors.New(why)
	}
}

// A look that the limit cuts off does not hide what the one before it saw.
func TestLookThatIsCutOff(t *testing.T) {
	w, first := &witness{TB: t}, true
	eventually.Wait{Limit: 20 * time.Millisecond, Interval: time.Millisecond}.Until(w, "hosts", func(ctx context.Context) (string, error) {
		if first {
			first = false
			return "a host", nil
		}
		<-ctx.Done()
		return "", ctx.Err()
	})
	if len(w.fatals) != 1 || !strings.HasSuffix(w.fatals[0], "missing: a host") {
		t.Errorf("fails with %q", w.fatals)
	}
}

// The context of a test has ended when it is cleaned up; its waits have not.
func TestUntilWhileCleanedUp(t *testing.T) {
	w, taken := &witness{}, 0
	t.Run("cleaned up", func(t *testing.T) {
		w.TB = t
		t.Cleanup(func() {
			eventually.Wait{Interval: time.Millisecond}.Until(w, "hosts", looks(&taken, "a host", ""))
		})
	})
	if taken != 2 || len(w.fatals) != 0 {
		t.Errorf("%d looks, fails with %q", taken, w.fatals)
	}
}

func TestAll(t *testing.T) {
	a, b := 0, 0
	all := eventually.All(looks(&a, "a", ""), looks(&b, "error b", ""))
	var said []string
	for range 3 {
		lack, err := all(t.Context())
		said = append(said, fmt.Sprintf("%s %v", lack, err))
	}
	if want := []string{"a <nil>", " b", " <nil>"}; !slices.Equal(said, want) {
		t.Errorf("says %q, want %q", said, want)
	}
}

func TestWorks(t *testing.T) {
	for _, want := range []error{nil, errors.New("busy")} {
		if lack, err := eventually.Works(func(context.Context) error { return want })(t.Context()); lack != "" || !errors.Is(err, want) {
			t.Errorf("%v: missing %q, %v", want, lack, err)
		}
	}
}

func TestHolds(t *testing.T) {
	for _, holds := range []bool{false, true} {
		if lack, err := eventually.Holds(func() bool { return holds })(t.Context()); (lack == "") != holds || err != nil {
			t.Errorf("%t: missing %q, %v", holds, lack, err)
		}
	}
}
