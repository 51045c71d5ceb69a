// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Command manifests prints cert-manager's manifests as its releases have them:
// the chart in the module, rendered by Helm's own template engine.
//
//	manifests -chart DIR -version v1.21.2 -kube-version v1.36.3 >cert-manager.yaml
package main

import (
	"bufio"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
)

// name is that of the release, its namespace and the chart.
const name = "cert-manager"

// values differ from the chart's own in what a lab has no use for: the Job that
// checks the API (clusterctl does) and the Service for Prometheus.
var values = map[string]any{
	"crds":            map[string]any{"enabled": true},
	"startupapicheck": map[string]any{"enabled": false},
	"prometheus":      map[string]any{"enabled": false},
}

func main() {
	dir := flag.String("chart", "", "directory of the chart")
	version := flag.String("version", "", "version of cert-manager, which the chart in the module lacks")
	kubeVersion := flag.String("kube-version", "", "version of Kubernetes that the chart may rely on")
	flag.Parse()
	out := bufio.NewWriter(os.Stdout)
	err := render(out, *dir, *version, *kubeVersion)
	if err == nil {
		err = out.Flush()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "manifests:", err)
		os.Exit(1)
	}
}

func render(out io.Writer, dir, version, kubeVersion string) error {
	chart, err := loader.Load(dir)
	if err != nil {
		return fmt.Errorf("load the chart: %w", err)
	}
	chart.Metadata.Version, chart.Metadata.AppVersion = version, version
	capabilities := chartutil.DefaultCapabilities.Copy()
	parsed, err := chartutil.ParseKubeVersion(kubeVersion)
	if err != nil {
		return fmt.Errorf("version of Kubernetes %q: %w", kubeVersion, err)
	}
	capabilities.KubeVersion = *parsed
	release := chartutil.ReleaseOptions{Name: name, Namespace: name, Revision: 1, IsInstall: true}
	input, err := chartutil.ToRenderValues(chart, values, release, capabilities)
	if err != nil {
		return fmt.Errorf("compute the values: %w", err)
	}
	files, err := engine.Render(chart, input)
	if err != nil {
		return fmt.Errorf("render the chart: %w", err)
	}
	if _, err := fmt.Fprintf(out, "apiVersion: v1\nkind: Namespace\nmetadata:\n  name: %s\n", name); err != nil {
		return err
	}
	for _, file := range slices.Sorted(maps.Keys(files)) {
		if err := write(out, file, files[file]); err != nil {
			return err
		}
	}
	return nil
}

// write adds what a template gave, unless it gave nothing or is for people.
func write(out io.Writer, file, content string) error {
	if !strings.HasSuffix(file, ".yaml") || strings.TrimSpace(content) == "" {
		return nil
	}
	if !strings.HasPrefix(content, "---\n") {
		content = "---\n" + content
	}
	_, err := fmt.Fprintf(out, "%s\n", strings.TrimRight(content, "\n"))
	return err
}
