// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"io"
	"slices"
)

// Comparison is one thing that was measured at two servers, in rounds.
type Comparison struct {
	Name string
	// Unit is that of the values.
	Unit string
	// Bar is what the ratio of the medians, ours by theirs, is to reach; 0: it is
	// told, but not judged.
	Bar float64
	// Ours and Theirs hold one value for each round.
	Ours, Theirs []float64
}

// Median of the values; of an even number the mean of the middle two.
func Median(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	s := slices.Sorted(slices.Values(values))
	return (s[(len(s)-1)/2] + s[len(s)/2]) / 2
}

// Ratio of the medians; 0 without a value of theirs.
func (c Comparison) Ratio() float64 {
	theirs := Median(c.Theirs)
	if theirs == 0 {
		return 0
	}
	return Median(c.Ours) / theirs
}

// Write writes the line that is looked for, and one with the values behind it.
func (c Comparison) Write(w io.Writer) {
	bar := "none"
	if c.Bar != 0 {
		bar = fmt.Sprintf("%.2f", c.Bar)
	}
	fmt.Fprintf(w, "bench: %s ratio %.2f bar %s\n", c.Name, c.Ratio(), bar)
	fmt.Fprintf(w, "  ours %s, theirs %s %s\n", rounded(c.Ours), rounded(c.Theirs), c.Unit)
}

func rounded(values []float64) string {
	s := make([]string, 0, len(values))
	for _, v := range values {
		s = append(s, fmt.Sprintf("%.4g", v))
	}
	return fmt.Sprintf("%v", s)
}
