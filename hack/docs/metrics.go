// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
)

// metricDirs are the directories whose packages export metrics.
var metricDirs = []string{"bmc", "cmd/manager", "controllers", "internal", "pxe", "runtimehooks", "webhooks"}

func metricsPage(root string) (string, error) {
	var rows [][]string
	for _, dir := range metricDirs {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
			if err != nil || !entry.IsDir() {
				return err
			}
			found, err := metricsOf(path)
			rows = append(rows, found...)
			return err
		})
		if err != nil {
			return "", err
		}
	}
	slices.SortFunc(rows, slices.Compare)
	if len(rows) == 0 {
		return "", errors.New("no metric was found")
	}
	return "The manager serves these metrics on its diagnostics endpoint (`--diagnostics-address`), together with\n" +
		"those of controller-runtime and Cluster API. A histogram has the suffixes `_bucket`, `_sum` and `_count`.\n\n" +
		table([]string{"Metric", "Type", "Labels", "Meaning"}, rows), nil
}

// metricsOf returns the metrics that a package creates: name, type, labels and help.
func metricsOf(dir string) ([][]string, error) {
	s, err := load(dir)
	if err != nil {
		return nil, err
	}
	var rows [][]string
	var errs []error
	for _, file := range s.files {
		ast.Inspect(file, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			function, ok := call.Fun.(*ast.SelectorExpr)
			if !ok || !isIdent(function.X, "prometheus") {
				return true
			}
			row, ok, err := s.metric(function.Sel.Name, call.Args)
			if err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", dir, err))
			} else if ok {
				rows = append(rows, row)
			}
			return true
		})
	}
	return rows, errors.Join(errs...)
}

// metric returns the metric that prometheus.<function>(args) creates. ok is false for other
// functions.
func (s *source) metric(function string, args []ast.Expr) (row []string, ok bool, err error) {
	kind := strings.ToLower(strings.TrimSuffix(strings.TrimPrefix(function, "New"), "Vec"))
	var name, help string
	switch {
	case function == "NewDesc" && len(args) == 4:
		name = s.text(args[0])
		help = s.text(args[1])
		if kind = "gauge"; strings.HasSuffix(name, "_total") {
			kind = "counter"
		}
		args = args[1:]
	case slices.Contains([]string{"counter", "gauge", "histogram", "summary"}, kind) && len(args) > 0:
		for _, element := range elements(args[0]) {
			if field, isField := element.(*ast.KeyValueExpr); isField && isIdent(field.Key, "Name") {
				name = s.text(field.Value)
			} else if isField && isIdent(field.Key, "Help") {
				help = s.text(field.Value)
			}
		}
	default:
		return nil, false, nil
	}
	if name == "" || help == "" {
		return nil, false, fmt.Errorf("prometheus.%s: name and help must be constants in its arguments", function)
	}
	var labels []string
	if len(args) > 1 {
		for _, element := range elements(args[1]) {
			label := s.text(element)
			if label == "" {
				return nil, false, fmt.Errorf("metric %s: a label is not a constant", name)
			}
			labels = append(labels, code(label))
		}
	}
	return []string{code(name), kind, strings.Join(labels, ", "), plain(help)}, true, nil
}

// elements returns the elements of a composite literal, or nil for another expression.
func elements(expression ast.Expr) []ast.Expr {
	if literal, ok := expression.(*ast.CompositeLit); ok {
		return literal.Elts
	}
	return nil
}

func isIdent(expression ast.Expr, name string) bool {
	identifier, ok := expression.(*ast.Ident)
	return ok && identifier.Name == name
}
