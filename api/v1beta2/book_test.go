// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strconv"
	"strings"
	"testing"
)

// fine are reasons that nobody looks up: all is well, work goes on, or the message
// repeats what the reader has just asked for.
var fine = map[string]bool{
	"Unknown": true, "Ready": true, "NotReady": true, "InProgress": true, "NotPaused": true, "NotStalled": true, "Waiting": true,
	"Deleting": true, "NotApplicable": true, "BMCResponding": true, "HealthOK": true, "CredentialsAccepted": true,
	"Enrolled": true, "Inspected": true, "Inspecting": true, "Available": true, "Claimed": true, "NotClaimed": true,
	"Provisioning": true, "Provisioned": true, "Releasing": true, "Cleaning": true, "Cleaned": true, "NotCleaned": true,
	"Fenced": true, "CredentialsRotated": true, "CredentialsRotating": true, "HostClaimed": true, "Installed": true, "Booted": true,
	"EndpointSet": true, "FailureDomainsPublished": true,
	"ReservationSatisfied": true, "ReservationConsumed": true, "ImageReachable": true,
	"Prepared": true, "Preparing": true, "UpdatingFirmware": true,
	"AgentStarted":       true,
	"OrderNotUnderstood": true, // of an agent that is not of this release
}

// Every reason by which Ingot says that something is wrong, or that it waits for
// somebody, has its remedy in the book.
func TestEveryReasonHasItsRemedy(t *testing.T) {
	page, err := os.ReadFile("../../docs/book/trouble.md")
	if err != nil {
		t.Fatal(err)
	}
	known := map[string]bool{}
	for _, file := range []string{"conditions.go", "names.go", "../../agent/config.go"} {
		for _, reason := range reasons(t, file) {
			known[reason] = true
			if !fine[reason] && !strings.Contains(string(page), "`"+reason+"`") {
				t.Errorf("docs/book/trouble.md has no remedy for the reason %s (%s)", reason, file)
			}
		}
	}
	if len(known) < 60 {
		t.Fatalf("only %d reasons were found", len(known))
	}
	for reason := range fine {
		if !known[reason] {
			t.Errorf("%s is no reason of Ingot's any more", reason)
		}
	}
}

// reasons are the values of a file's constants called Reason….
func reasons(t *testing.T, path string) []string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || !strings.HasPrefix(spec.Names[0].Name, "Reason") {
			return true
		}
		if literal, ok := spec.Values[0].(*ast.BasicLit); ok && literal.Kind == token.STRING {
			value, err := strconv.Unquote(literal.Value)
			if err != nil {
				t.Fatal(err)
			}
			found = append(found, value)
		}
		return true
	})
	return found
}
