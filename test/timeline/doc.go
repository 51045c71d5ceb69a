// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package timeline shows how long the steps of machines took: as text, as JSON and as a
// chart in SVG. Marks in, bytes out: it must not know who made the marks, and has no
// clock.
//
// A step ends with its mark, and begins with the mark before it:
//
//	machines := []timeline.Machine{{Name: "c1-md-0-x", Host: "r1-s1", Marks: []timeline.Mark{
//		{Name: "claim", At: begin}, {Name: "power", At: begin.Add(2 * time.Second)},
//	}}}
//	fmt.Print(timeline.Text(machines))
//	os.WriteFile("timeline.svg", timeline.SVG("cluster c1", machines), 0o644)
package timeline
