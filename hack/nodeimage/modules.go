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

// kubeModule returns the go.mod for building the Kubernetes programs. It has the language version,
// the dependencies of Kubernetes' go.mod, and the staging modules in the versions of the release,
// because replace directives do not apply to dependencies.
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

// plainModule returns a go.mod that requires one module, with the dependency versions of that
// module.
func plainModule(name, language, needs, version string) string {
	return fmt.Sprintf("module node.invalid/%s\n\n%s\n\nrequire %s %s\n", name, language, needs, version)
}
