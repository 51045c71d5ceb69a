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

// stageDone is the stage of a boot whose agent has reported the end of its order.
const stageDone = "Done"

// maxBootTime is the maximum time from the start of a boot to its end: work on large disks takes hours.
const maxBootTime = 12 * time.Hour

// Limits of the schema.
const (
	maxShort  = 64
	maxText   = 256
	maxStages = 16
)

// recordOf converts a boot into the form of the status.
func recordOf(b bootlog.Boot) infrav1.BootRecord {
	out := infrav1.BootRecord{
		StartTime: metav1.NewMicroTime(b.Started().Truncate(time.Microsecond)), Outcome: infrav1.BootOutcome(b.Outcome),
		Firmware: cut(b.Firmware, maxShort), Server: cut(b.Server, maxShort), Port: cut(b.Port, maxText), Error: cut(b.LastFailure, maxText),
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

// add inserts a boot, newest first, each once. If the end of the boot's order was recorded before, the
// boot replaces that record.
func add(boots []infrav1.BootRecord, b infrav1.BootRecord) []infrav1.BootRecord {
	if slices.ContainsFunc(boots, func(other infrav1.BootRecord) bool { return other.StartTime.Equal(&b.StartTime) }) {
		return boots // reported again, because the answer was lost
	}
	boots = slices.Clone(boots)
	for i, other := range boots {
		isEnd := len(other.Stages) == 1 && other.Stages[0].Name == stageDone
		after := other.StartTime.Sub(b.StartTime.Time)
		if isEnd && b.Outcome == infrav1.BootRanAgent && after >= 0 && after < maxBootTime {
			b.Outcome = other.Outcome
			b.Stages = append(slices.Clone(b.Stages), stage(stageDone, other.StartTime.Time, b.StartTime.Time))
			boots = slices.Delete(boots, i, i+1)
			break
		}
	}
	return newest(append(boots, b))
}

// end records how the order of the last boot ended. If that boot was not reported yet, it adds a record
// of the end, which add merges.
func end(boots []infrav1.BootRecord, at time.Time, outcome infrav1.BootOutcome) []infrav1.BootRecord {
	boots = slices.Clone(boots)
	if len(boots) > 0 {
		last := &boots[0]
		since := at.Sub(last.StartTime.Time)
		ranAgent := last.Outcome == infrav1.BootRanAgent || last.Outcome == infrav1.BootIncomplete
		if ranAgent && since >= 0 && since < maxBootTime {
			last.Outcome = outcome
			last.Stages = append(slices.Clone(last.Stages), stage(stageDone, at, last.StartTime.Time))
			return boots
		}
	}
	record := infrav1.BootRecord{StartTime: metav1.NewMicroTime(at.Truncate(time.Microsecond)), Outcome: outcome}
	record.Stages = []infrav1.BootStage{stage(stageDone, at, at)}
	return newest(append(boots, record))
}

// newest keeps as many boots as the schema allows. If there are several boots with DHCP only, which
// forged packets can cause, it drops the oldest of them first: together they displace one other boot at
// most.
func newest(boots []infrav1.BootRecord) []infrav1.BootRecord {
	slices.SortStableFunc(boots, func(a, b infrav1.BootRecord) int { return b.StartTime.Compare(a.StartTime.Time) })
	for len(boots) > infrav1.MaxBoots {
		drop, bare := len(boots)-1, 0
		for i := len(boots) - 1; i >= 0; i-- {
			if !isBare(boots[i]) {
				continue
			}
			if bare++; bare == 1 {
				drop = i
			}
		}
		if bare == 1 {
			drop = len(boots) - 1
		}
		boots = slices.Delete(boots, drop, drop+1)
	}
	return boots
}

// isBare reports whether nothing was fetched in a boot, and no order ended.
func isBare(b infrav1.BootRecord) bool {
	return !slices.ContainsFunc(b.Stages, func(s infrav1.BootStage) bool {
		return s.Name != string(bootlog.DHCP) && s.Name != string(bootlog.Agent)
	})
}
