// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"sync"
)

// kept are settings that say where modules and caches are, and by whom they are vouched for.
// A mirror or a private proxy needs them, wherever they were set.
var kept = []string{
	"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
	"GOMODCACHE", "GOCACHE", "GOPATH", "GOTOOLCHAIN", "GOTMPDIR",
}

// fixed are settings of every build: programs without C, for every processor there is.
// An empty variable alone would leave what go env -w wrote: GOENV=off does not.
var fixed = []string{"GOENV=off", "CGO_ENABLED=0", "GOAMD64=v1", "GOEXPERIMENT=", "GOFLAGS=", "GOWORK=off"}

var settings = sync.OnceValues(readSettings)

func readSettings() (map[string]string, error) {
	out, err := exec.Command("go", append([]string{"env", "-json", "GOVERSION"}, kept...)...).Output()
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		return nil, fmt.Errorf("go env: %w: %s", err, failed.Stderr)
	}
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	values := map[string]string{}
	if err := json.Unmarshal(out, &values); err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	return values, nil
}

// BuildEnv returns variables, NAME=value, that take the place of the user's where the go
// command's result must be the same whoever runs it: what a user has set, by the
// environment or by go env -w, changes where modules come from, and nothing of what is
// built. GOOS and GOARCH are not among them.
func BuildEnv() ([]string, error) {
	values, err := settings()
	if err != nil {
		return nil, err
	}
	return envOf(values), nil
}

func envOf(values map[string]string) []string {
	env := slices.Clone(fixed)
	for _, name := range kept {
		if value := values[name]; value != "" {
			env = append(env, name+"="+value)
		}
	}
	return env
}

// GoVersion is that of the Go that builds, like go1.26.1: a program linked by another is
// another program.
func GoVersion() (string, error) {
	values, err := settings()
	return values["GOVERSION"], err
}
