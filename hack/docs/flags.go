// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/cmd/manager/bmccli"
)

func flagsPage(root string) (string, error) {
	var out strings.Builder
	out.WriteString("`--roles` selects the roles of a manager process. A flag of a role that the process does not have\nhas no effect, or is rejected at the start.\n")
	for _, group := range app.DefaultOptions().FlagGroups() {
		var rows [][]string
		group.Flags.VisitAll(func(f *pflag.Flag) {
			if f.Hidden || f.Deprecated != "" {
				return
			}
			kind, usage := pflag.UnquoteUsage(f)
			if kind == "" {
				kind = "bool"
			}
			rows = append(rows, []string{code("--" + f.Name), kind, code(defaultOf(f)), plain(capital(usage))})
		})
		fmt.Fprintf(&out, "\n## %s\n\n%s", group.Title, table([]string{"Flag", "Type", "Default", "Meaning"}, rows))
	}
	// The usage of "manager bmc" is the same for every build: its flags have constant defaults.
	var usage bytes.Buffer
	if err := bmccli.Run(context.Background(), []string{"--help"}, nil, bmccli.Streams{In: strings.NewReader(""), Out: &usage, Err: &usage}); err != nil {
		return "", err
	}
	fmt.Fprintf(&out, "\n## Command bmc\n\n```\n%s```\n", strings.ReplaceAll(usage.String(), "\t", "  "))

	arguments, err := constants(filepath.Join(root, "agentapi"), func(name string) bool { return strings.HasPrefix(name, "Arg") })
	if err != nil {
		return "", err
	}
	var rows [][]string
	for _, c := range arguments {
		rows = append(rows, []string{code(c.value), plain(c.text)})
	}
	fmt.Fprintf(&out, "\n## Agent\n\nThe agent has no flags. It reads these kernel arguments, which Ingot sets:\n\n%s", table([]string{"Argument", "Meaning"}, rows))
	return out.String(), nil
}

// defaultOf returns the default of a flag, or "" if it is the zero value.
func defaultOf(f *pflag.Flag) string {
	value := strings.Trim(f.DefValue, "[]")
	if value == "false" || value == "0s" {
		return ""
	}
	return value
}
