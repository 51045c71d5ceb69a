// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command diagrams renders D2 sources to SVG files next to them:
//
//	diagrams FILE.d2...
//
// The output depends only on the source and on this program: the layout engine, the fonts and the
// theme are linked in.
package main

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strings"

	"oss.terrastruct.com/d2/d2graph"
	"oss.terrastruct.com/d2/d2layouts/d2dagrelayout"
	"oss.terrastruct.com/d2/d2lib"
	"oss.terrastruct.com/d2/d2renderers/d2svg"
	"oss.terrastruct.com/d2/d2themes/d2themescatalog"
	"oss.terrastruct.com/d2/lib/log"
	"oss.terrastruct.com/d2/lib/textmeasure"
)

func main() {
	status := 0
	for _, path := range os.Args[1:] {
		if err := render(path); err != nil {
			fmt.Fprintf(os.Stderr, "diagrams: %s: %v\n", path, err)
			status = 1
		}
	}
	os.Exit(status)
}

func render(path string) error {
	target, found := strings.CutSuffix(path, ".d2")
	if !found {
		return fmt.Errorf("not a .d2 file")
	}
	source, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	// A ruler keeps the fonts that it has measured, so each diagram gets its own.
	ruler, err := textmeasure.NewRuler()
	if err != nil {
		return err
	}
	pad, theme, dark := int64(20), d2themescatalog.NeutralDefault.ID, d2themescatalog.DarkMauve.ID
	options := &d2svg.RenderOpts{Pad: &pad, ThemeID: &theme, DarkThemeID: &dark}
	ctx := log.With(context.Background(), slog.New(slog.NewTextHandler(io.Discard, nil)))
	diagram, _, err := d2lib.Compile(ctx, string(source), &d2lib.CompileOptions{
		Ruler: ruler,
		LayoutResolver: func(string) (d2graph.LayoutGraph, error) {
			return d2dagrelayout.DefaultLayout, nil
		},
	}, options)
	if err != nil {
		return err
	}
	svg, err := d2svg.Render(diagram, options)
	if err != nil {
		return err
	}
	return os.WriteFile(target+".svg", append(svg, '\n'), 0o644)
}
