// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package nodeimage

import (
	"fmt"
	"regexp"
	"strings"
)

var (
	languageLine = regexp.MustCompile(`(?m)^go \S+$`)
	godebugLine  = regexp.MustCompile(`(?m)^godebug \S+$`)
	requireBlock = regexp.MustCompile(`(?ms)^require \(\n.*?^\)$`)
	stagingLine  = regexp.MustCompile(`(?m)^\s+(k8s\.io/\S+) => \./staging/`)
)

// kubeModule writes the go.mod of the module that the Kubernetes programs are built
// in, from Kubernetes' own: the same language and the same versions of everything,
// and the staging modules, which replace directives of a dependency do not reach,
// in the versions that were released with it.
func kubeModule(r Release, own string) (string, error) {
	language, blocks := languageLine.FindString(own), requireBlock.FindAllString(own, -1)
	replaced := stagingLine.FindAllStringSubmatch(own, -1)
	if language == "" || len(blocks) == 0 || len(replaced) == 0 {
		return "", fmt.Errorf("go.mod of Kubernetes %s is not as it used to be", r.Kubernetes)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "module node.invalid/kube\n\n%s\n", language)
	if line := godebugLine.FindString(own); line != "" {
		fmt.Fprintf(&b, "\n%s\n", line)
	}
	fmt.Fprintf(&b, "\nrequire k8s.io/kubernetes %s\n\n%s\n\nreplace (\n", r.Kubernetes, strings.Join(blocks, "\n\n"))
	for _, module := range replaced {
		fmt.Fprintf(&b, "\t%s => %s %s\n", module[1], module[1], r.staging())
	}
	b.WriteString(")\n")
	return b.String(), nil
}

// plainModule writes the go.mod of a module that needs one other, in the versions
// which that one asks for.
func plainModule(name, language, needs, version string) string {
	return fmt.Sprintf("module node.invalid/%s\n\n%s\n\nrequire %s %s\n", name, language, needs, version)
}
