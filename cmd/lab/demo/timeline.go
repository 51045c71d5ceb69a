// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/ingot-metal/ingot/lab/bmc"
)

// entry is one event of a host.
type entry struct {
	at   time.Time
	text string
}

// timelines prints the BMC actions and Ingot's events of each host.
func (s *show) timelines() {
	if s.dc == nil || s.client == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	events, err := s.events(ctx)
	if err != nil {
		s.say("Failed to list the events for the timelines: %v", err)
	}
	for _, server := range s.dc.Servers {
		p := serverNamed(server.Spec.Name)
		fmt.Fprintf(s.Out, "\n%s (%s)\n", server.Spec.Name, p.rack)
		for _, e := range timeline(server.Spec.Name, server.BMC.Writes(), events) {
			fmt.Fprintf(s.Out, "  %6.1fs  %s\n", e.at.Sub(s.started).Seconds(), e.text)
		}
	}
	fmt.Fprintln(s.Out)
}

// timeline merges the BMC's log and the events of one host.
func timeline(host string, writes []bmc.Write, events []corev1.Event) []entry {
	var entries []entry
	for _, w := range writes {
		if w.Action == "" || w.Action == "Login" || w.Action == "Logout" || w.Status >= 300 {
			continue
		}
		entries = append(entries, entry{at: w.At, text: "BMC    " + w.Action})
	}
	for _, e := range events {
		if e.InvolvedObject.Kind != "IngotHost" || e.InvolvedObject.Name != host {
			continue
		}
		entries = append(entries, entry{at: eventTime(e), text: "Ingot  " + e.Reason + ": " + firstSentence(e.Message)})
	}
	slices.SortStableFunc(entries, func(a, b entry) int { return a.at.Compare(b.at) })
	return entries
}

func eventTime(e corev1.Event) time.Time {
	if !e.EventTime.IsZero() {
		return e.EventTime.Time
	}
	return e.FirstTimestamp.Time
}

func firstSentence(text string) string {
	if i := strings.Index(text, ". "); i >= 0 {
		return text[:i]
	}
	return text
}
