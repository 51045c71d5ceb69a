// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A Mark is a moment that a machine reached.
type Mark struct {
	Name string    `json:"name"`
	At   time.Time `json:"at"`
}

// A Machine is one life of a server.
type Machine struct {
	// Name is the Machine's, Host the server's that it had.
	Name string `json:"name"`
	Host string `json:"host"`
	// Marks in any order.
	Marks []Mark `json:"marks"`
}

// sorted are the marks in their order; those of one moment as they were given.
func (m Machine) sorted() []Mark {
	marks := slices.Clone(m.Marks)
	slices.SortStableFunc(marks, func(a, b Mark) int { return a.At.Compare(b.At) })
	return marks
}

// ordered are the machines that have marks, by their first ones, marks in order.
func ordered(machines []Machine) []Machine {
	var all []Machine
	for _, m := range machines {
		if len(m.Marks) > 0 {
			all = append(all, Machine{Name: m.Name, Host: m.Host, Marks: m.sorted()})
		}
	}
	slices.SortStableFunc(all, func(a, b Machine) int {
		return cmp.Or(a.Marks[0].At.Compare(b.Marks[0].At), cmp.Compare(a.Name, b.Name))
	})
	return all
}

// begin is the first moment of all; machines are ordered.
func begin(machines []Machine) time.Time { return machines[0].Marks[0].At }

// Text is a table: a line for each machine with the seconds from its first mark to each
// of the others.
func Text(machines []Machine) string {
	all := ordered(machines)
	if len(all) == 0 {
		return "no machine reached anything\n"
	}
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	for _, m := range all {
		fmt.Fprintf(w, "%s\t%s\tfrom %.0f s", m.Name, m.Host, m.Marks[0].At.Sub(begin(all)).Seconds())
		for i, mark := range m.Marks {
			if i == 0 {
				fmt.Fprintf(w, "\t%s", mark.Name)
				continue
			}
			fmt.Fprintf(w, "\t%s %.1f", mark.Name, mark.At.Sub(m.Marks[0].At).Seconds())
		}
		fmt.Fprintln(w)
	}
	_ = w.Flush() // into memory
	return b.String()
}

// JSON is the same as an array of machines, each mark with its moment and the seconds
// since the machine's first.
func JSON(machines []Machine) ([]byte, error) {
	type mark struct {
		Mark
		Seconds float64 `json:"seconds"`
	}
	type machine struct {
		Name  string `json:"name"`
		Host  string `json:"host"`
		Marks []mark `json:"marks"`
	}
	list := []machine{}
	for _, m := range ordered(machines) {
		out := machine{Name: m.Name, Host: m.Host}
		for _, k := range m.Marks {
			out.Marks = append(out.Marks, mark{Mark: k, Seconds: k.At.Sub(m.Marks[0].At).Round(time.Millisecond).Seconds()})
		}
		list = append(list, out)
	}
	out, err := json.MarshalIndent(list, "", "  ")
	return append(out, '\n'), err
}
