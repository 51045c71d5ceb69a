// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/agent/erase"
)

// working is a controller that accepts nothing else during a sanitize, as the standard
// requires, and may lose commands meanwhile, as during a reset by the kernel.
type working struct {
	*flash
	// loses reports whether the n-th query during a sanitize is lost.
	loses func(n int) bool
	looks int
	// losesAnswer: the first sanitize starts but reports an error. endless: no sanitize ends.
	losesAnswer, endless bool
}

var (
	errAtWork = errors.New("NVMe status 0x1d") // sanitize in progress
	errLost   = errors.New("interrupted system call")
)

func (w *working) atWork() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.state == 2
}

func (w *working) ReadAt(p []byte, off int64) (int, error) {
	if w.atWork() {
		return 0, errAtWork
	}
	return w.flash.ReadAt(p, off)
}

func (w *working) WriteAt(p []byte, off int64) (int, error) {
	if w.atWork() {
		return 0, errAtWork
	}
	return w.flash.WriteAt(p, off)
}

func (w *working) NVMe(ctx context.Context, c erase.NVMeCommand) error {
	const getLogPage, format, sanitize = 0x02, 0x80, 0x84
	atWork := w.atWork()
	switch {
	case atWork && c.Opcode == getLogPage:
		if w.looks++; w.loses != nil && w.loses(w.looks) {
			return errLost
		}
		if w.endless {
			w.polls = 3
		}
	case atWork && (c.Opcode == format || c.Opcode == sanitize):
		w.sent = append(w.sent, "refused")
		return errAtWork
	}
	err := w.flash.NVMe(ctx, c)
	if c.Opcode == sanitize && w.losesAnswer {
		w.losesAnswer = false
		return errLost
	}
	return err
}

// A lost query says nothing about the sanitize, which continues. A controller that may be
// sanitizing gets no other command, since it would refuse with misleading errors.
func TestSanitizeSurvivesLostQueries(t *testing.T) {
	for _, c := range []struct {
		name string
		disk func(w *working)
		want string
		sent []string
		// failed is part of Result.Failed, or of the error if want is empty.
		failed string
	}{
		{
			name: "one query is lost", disk: func(w *working) { w.loses = func(n int) bool { return n == 2 } },
			want: erase.NVMeSanitizeBlock, sent: []string{"sanitize"},
		},
		{
			name: "all queries of some minutes are lost, twice", disk: func(w *working) { w.loses = func(n int) bool { return n != 50 && n < 100 } },
			want: erase.NVMeSanitizeBlock, sent: []string{"sanitize"},
		},
		{
			name: "all queries are lost", disk: func(w *working) { w.loses = func(n int) bool { return n > 1 } },
			sent: []string{"sanitize"}, failed: "interrupted system call",
		},
		{name: "it does not end", disk: func(w *working) { w.endless = true }, sent: []string{"sanitize"}, failed: "not done after 2h0m0s"},
		{
			name: "started, but reports an error", disk: func(w *working) { w.losesAnswer = true },
			want: erase.NVMeSanitizeCrypto, sent: []string{"sanitize", "sanitize"}, failed: "NVMeSanitizeBlock: sanitize: interrupted",
		},
		{
			name: "started, then no answers", disk: func(w *working) {
				w.losesAnswer, w.loses = true, func(int) bool { return true }
			},
			sent: []string{"sanitize"}, failed: "NVMeSanitizeBlock: sanitize: interrupted",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := &working{flash: newFlash()}
			w.nvme, w.sanitize, w.oacs = true, 3, 2
			c.disk(w)
			result, reported, err := runOn(t.Context(), w.flash, w, false)
			if c.want == "" && (!errors.Is(err, erase.ErrNotErased) || !strings.Contains(err.Error(), c.failed)) || c.want != "" && err != nil {
				t.Errorf("error %v, want %q", err, c.failed)
			}
			if err == nil && (result.Method != c.want || !strings.Contains(result.Failed, c.failed) || (c.failed == "") != (result.Failed == "")) {
				t.Errorf("%+v, want %s after %q", result, c.want, c.failed)
			}
			if err != nil && strings.Count(err.Error(), "NVMe") != 1 {
				t.Errorf("more than the one reason: %v", err)
			}
			if diff := cmp.Diff(c.sent, w.sent); diff != "" {
				t.Error(diff)
			}
			if len(slices.Compact(slices.Clone(reported))) < w.looks-5 { // unchanged progress looks like a hanging agent
				t.Errorf("%d looks, reported %+v", w.looks, reported)
			}
		})
	}
}
