// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package demo

import (
	"cmp"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"k8s.io/utils/ptr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// row is one host in the table.
type row struct {
	Host, Rack, Phase, Power, Step, Progress, Machine string
}

// rowsOf returns the rows of the table, sorted by rack and host.
func rowsOf(v view) []row {
	rows := make([]row, 0, len(v.hosts))
	for i := range v.hosts {
		host := &v.hosts[i]
		r := row{
			Host: host.Name, Rack: host.Labels[infrav1.RackLabel],
			Phase: cmp.Or(string(host.Status.Phase), "-"), Power: cmp.Or(string(host.Status.Power), "-"),
			Step: "-", Progress: bar(nil), Machine: "-",
		}
		if operation := host.Status.Operation; operation != nil {
			r.Step = string(operation.Kind) + " " + operation.Step
			r.Progress = progressOf(operation)
		}
		if claim := host.Spec.Claim; claim != nil {
			r.Machine = claim.MachineRef.Name
			switch {
			case host.Status.Operation != nil:
			case claim.State == infrav1.ClaimReleasing:
				r.Step = "Shutting down"
			case host.Status.Booted != nil:
				r.Step = "Booted " + strings.Join(host.Status.Addresses, " ")
			}
		}
		rows = append(rows, r)
	}
	slices.SortFunc(rows, func(a, b row) int { return strings.Compare(a.Rack+a.Host, b.Rack+b.Host) })
	return rows
}

// barWidth is the width of a progress bar in characters.
const barWidth = 20

// bar draws a progress bar of 0 to 100 percent, or spaces for nil.
func bar(percent *int32) string {
	if percent == nil {
		return strings.Repeat(" ", barWidth+7)
	}
	full := int(ptr.Deref(percent, 0)) * barWidth / 100
	return fmt.Sprintf("[%s%s] %3d%%", strings.Repeat("#", full), strings.Repeat(".", barWidth-full), *percent)
}

// progressOf draws the percentage or, if the total is unknown, the number of GiB.
func progressOf(operation *infrav1.HostOperation) string {
	if ptr.Deref(operation.Percent, 0) == 0 && operation.Bytes > 0 {
		return fmt.Sprintf("%-*s", len(bar(nil)), fmt.Sprintf("%.1f GiB", float64(operation.Bytes)/(1<<30)))
	}
	return bar(operation.Percent)
}

// table draws rows in place on a terminal, and otherwise prints a line for each change.
type table struct {
	out     io.Writer
	live    bool
	title   string
	started time.Time
	// lines and last are the number of lines and the rows of the last drawing.
	lines int
	last  []row
}

func (t *table) draw(rows []row) {
	if !t.live {
		t.log(rows)
		return
	}
	var text strings.Builder
	fmt.Fprintf(&text, "%s, %.0fs\n", t.title, time.Since(t.started).Seconds())
	w := tabwriter.NewWriter(&text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "HOST\tRACK\tPHASE\tPOWER\tSTEP\tPROGRESS\tMACHINE")
	for _, r := range rows {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", r.Host, r.Rack, r.Phase, r.Power, r.Step, r.Progress, r.Machine)
	}
	_ = w.Flush()
	if t.lines > 0 {
		fmt.Fprintf(t.out, "\x1b[%dA\x1b[J", t.lines)
	}
	fmt.Fprint(t.out, text.String())
	t.lines = strings.Count(text.String(), "\n")
}

// log prints the rows that differ from the last drawing, ignoring the progress.
func (t *table) log(rows []row) {
	for _, r := range rows {
		same := slices.ContainsFunc(t.last, func(old row) bool {
			old.Progress = r.Progress
			return old == r
		})
		if !same {
			fmt.Fprintf(t.out, "[%4.0fs] %-8s %-7s %-14s power %-7s %-24s %s  %s\n",
				time.Since(t.started).Seconds(), r.Host, r.Rack, r.Phase, r.Power, r.Step, r.Progress, r.Machine)
		}
	}
	t.last = rows
}

// finish keeps the current table on the terminal.
func (t *table) finish() { t.lines = 0 }

// isTerminal reports whether the writer is a terminal with cursor control.
func isTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	if !ok || os.Getenv("TERM") == "dumb" {
		return false
	}
	info, err := file.Stat()
	return err == nil && info.Mode()&os.ModeCharDevice != 0
}
