// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bootlog

import (
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/pxe/bootlog"
)

// stageDone is reached when the agent has reported the end of its order.
const stageDone = "Done"

// longest is how long after its begin a boot can end: work on large disks takes hours.
const longest = 12 * time.Hour

// Bounds of the schema.
const (
	maxShort  = 64
	maxText   = 256
	maxStages = 16
)

// recordOf turns a boot into what the status shows.
func recordOf(b bootlog.Boot) infrav1.BootRecord {
	out := infrav1.BootRecord{
		StartedAt: metav1.NewMicroTime(b.Started().Truncate(time.Microsecond)), Outcome: infrav1.BootOutcome(b.Outcome),
		Firmware: cut(b.Firmware, maxShort), Server: cut(b.Server, maxShort), Port: cut(b.Port, maxText), Trouble: cut(b.Trouble, maxText),
	}
	for _, m := range b.Marks[:min(len(b.Marks), maxStages-1)] {
		out.Stages = append(out.Stages, stage(string(m.Stage), m.At, b.Started()))
	}
	return out
}

func stage(name string, at, started time.Time) infrav1.BootStage {
	return infrav1.BootStage{Name: cut(name, 32), AfterMilliseconds: ptr.To(max(at.Sub(started).Milliseconds(), 0))}
}

func cut(s string, n int) string {
	s = strings.ToValidUTF8(s, "?")
	if runes := []rune(s); len(runes) > n {
		return string(runes[:n])
	}
	return s
}

// add brings a boot among those of a host: the newest first, each once. The end of its
// order may have come before it; then it takes that in.
func add(boots []infrav1.BootRecord, b infrav1.BootRecord) []infrav1.BootRecord {
	if slices.ContainsFunc(boots, func(other infrav1.BootRecord) bool { return other.StartedAt.Equal(&b.StartedAt) }) {
		return boots // told again, because the answer was lost
	}
	boots = slices.Clone(boots)
	for i, other := range boots {
		early := len(other.Stages) == 1 && other.Stages[0].Name == stageDone
		after := other.StartedAt.Sub(b.StartedAt.Time)
		if early && b.Outcome == infrav1.BootRanAgent && after >= 0 && after < longest {
			b.Outcome = other.Outcome
			b.Stages = append(slices.Clone(b.Stages), stage(stageDone, other.StartedAt.Time, b.StartedAt.Time))
			boots = slices.Delete(boots, i, i+1)
			break
		}
	}
	return newest(append(boots, b))
}

// end says how the order of the last boot ended. Where that boot is not there yet, a
// record of the end alone is, until it comes.
func end(boots []infrav1.BootRecord, at time.Time, outcome infrav1.BootOutcome) []infrav1.BootRecord {
	boots = slices.Clone(boots)
	if len(boots) > 0 {
		last := &boots[0]
		since := at.Sub(last.StartedAt.Time)
		runs := last.Outcome == infrav1.BootRanAgent || last.Outcome == infrav1.BootStopped
		if runs && since >= 0 && since < longest {
			last.Outcome = outcome
			last.Stages = append(slices.Clone(last.Stages), stage(stageDone, at, last.StartedAt.Time))
			return boots
		}
	}
	alone := infrav1.BootRecord{StartedAt: metav1.NewMicroTime(at.Truncate(time.Microsecond)), Outcome: outcome}
	alone.Stages = []infrav1.BootStage{stage(stageDone, at, at)}
	return newest(append(boots, alone))
}

// newest keeps as many as the schema takes. Of boots in which only DHCP was seen, which
// anybody's packets can make up, the oldest goes first while there is another: they take
// the place of one boot that went further at most.
func newest(boots []infrav1.BootRecord) []infrav1.BootRecord {
	slices.SortStableFunc(boots, func(a, b infrav1.BootRecord) int { return b.StartedAt.Compare(a.StartedAt.Time) })
	for len(boots) > infrav1.MaxBoots {
		goes, bare := len(boots)-1, 0
		for i := len(boots) - 1; i >= 0; i-- {
			if !isBare(boots[i]) {
				continue
			}
			if bare++; bare == 1 {
				goes = i
			}
		}
		if bare == 1 {
			goes = len(boots) - 1
		}
		boots = slices.Delete(boots, goes, goes+1)
	}
	return boots
}

// isBare says that nothing was fetched in a boot, and no order ended.
func isBare(b infrav1.BootRecord) bool {
	return !slices.ContainsFunc(b.Stages, func(s infrav1.BootStage) bool {
		return s.Name != string(bootlog.DHCP) && s.Name != string(bootlog.Agent)
	})
}
