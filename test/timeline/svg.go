// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package timeline

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"slices"
	"time"
)

// Sizes of the chart, in pixels.
const (
	nameWidth   = 260
	chartWidth  = 900
	rowHeight   = 26
	barHeight   = 18
	headHeight  = 40
	legendWidth = 120
	margin      = 12
)

// colours of the steps, in the order of their first appearance; there are as many as
// steps of a machine, and they begin again.
var colours = []string{
	"#b0b7c3", "#f2b134", "#e4572e", "#7b5ea7", "#2e86ab", "#1b998b", "#8cb369", "#d36ba6", "#4f6d7a", "#a44a3f",
}

// SVG is a chart: a row for each machine, a bar for each step, seconds from the first
// mark of all on the axis.
func SVG(title string, machines []Machine) []byte {
	all := ordered(machines)
	var b bytes.Buffer
	steps := stepsOf(all)
	span := spanOf(all)
	height := headHeight + rowHeight*(len(all)+3) + margin
	width := nameWidth + chartWidth + 2*margin
	fmt.Fprintf(&b, "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" height=\"%d\" viewBox=\"0 0 %d %d\" font-family=\"sans-serif\" font-size=\"12\">\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<rect width=\"%d\" height=\"%d\" fill=\"white\"/>\n", width, height)
	fmt.Fprintf(&b, "<text x=\"%d\" y=\"24\" font-size=\"16\">%s</text>\n", margin, escape(title))
	bottom := headHeight + rowHeight*len(all)
	axis(&b, span, bottom)
	for i, m := range all {
		row(&b, m, begin(all), span, headHeight+rowHeight*i, steps)
	}
	for i, name := range steps {
		x, y := margin+legendWidth*(i%9), bottom+rowHeight+rowHeight*(1+i/9)-8
		fmt.Fprintf(&b, "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" fill=\"%s\"/>\n", x, y-10, colour(i))
		fmt.Fprintf(&b, "<text x=\"%d\" y=\"%d\">%s</text>\n", x+16, y, escape(name))
	}
	b.WriteString("</svg>\n")
	return b.Bytes()
}

// stepsOf are the names of all steps, in the order of their first appearance.
func stepsOf(machines []Machine) []string {
	var names []string
	for _, m := range machines {
		for _, k := range m.Marks[1:] {
			if !slices.Contains(names, k.Name) {
				names = append(names, k.Name)
			}
		}
	}
	return names
}

// spanOf is the time from the first mark of all to the last; a second if there is none.
func spanOf(machines []Machine) time.Duration {
	span := time.Second
	for _, m := range machines {
		span = max(span, m.Marks[len(m.Marks)-1].At.Sub(begin(machines)))
	}
	return span
}

// tick is the distance of the lines of the axis: at most twelve of them.
func tick(span time.Duration) time.Duration {
	for _, t := range []time.Duration{time.Second, 5 * time.Second, 10 * time.Second, 30 * time.Second, time.Minute, 2 * time.Minute, 5 * time.Minute} {
		if span <= 12*t {
			return t
		}
	}
	return (span / 12).Round(time.Minute) + time.Minute
}

func axis(b *bytes.Buffer, span time.Duration, bottom int) {
	for t := time.Duration(0); t <= span; t += tick(span) {
		x := at(t, span)
		fmt.Fprintf(b, "<line x1=\"%.1f\" y1=\"%d\" x2=\"%.1f\" y2=\"%d\" stroke=\"#dddddd\"/>\n", x, headHeight-4, x, bottom)
		fmt.Fprintf(b, "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\" fill=\"#666666\">%.0f s</text>\n", x, bottom+16, t.Seconds())
	}
}

// at is where a time lies on the axis.
func at(t, span time.Duration) float64 {
	return float64(nameWidth) + float64(chartWidth)*t.Seconds()/span.Seconds()
}

func row(b *bytes.Buffer, m Machine, from time.Time, span time.Duration, y int, steps []string) {
	fmt.Fprintf(b, "<text x=\"%d\" y=\"%d\">%s on %s</text>\n", margin, y+14, escape(m.Name), escape(m.Host))
	for i := 1; i < len(m.Marks); i++ {
		left, right := at(m.Marks[i-1].At.Sub(from), span), at(m.Marks[i].At.Sub(from), span)
		fmt.Fprintf(b, "<rect x=\"%.1f\" y=\"%d\" width=\"%.1f\" height=\"%d\" fill=\"%s\"><title>%s: %.1f s</title></rect>\n",
			left, y, max(right-left, 0.5), barHeight, colour(slices.Index(steps, m.Marks[i].Name)),
			escape(m.Marks[i].Name), m.Marks[i].At.Sub(m.Marks[i-1].At).Seconds())
	}
}

func colour(i int) string { return colours[i%len(colours)] }

// escape makes text of XML; it cannot fail, since a buffer takes all.
func escape(text string) string {
	var b bytes.Buffer
	_ = xml.EscapeText(&b, []byte(text))
	return b.String()
}
