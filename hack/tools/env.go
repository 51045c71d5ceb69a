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

// kept are settings about the location and verification of modules and caches, which mirrors and
// private proxies need.
var kept = []string{
	"GOPROXY", "GOSUMDB", "GOPRIVATE", "GONOPROXY", "GONOSUMDB", "GOINSECURE", "GOVCS", "GOAUTH",
	"GOMODCACHE", "GOCACHE", "GOPATH", "GOTOOLCHAIN", "GOTMPDIR",
}

// fixed are settings of every build: no C code, and a baseline processor. GOENV=off is required,
// because an empty variable does not override "go env -w".
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

// BuildEnv returns variables, NAME=value, that replace the user's environment for reproducible
// results of the go command. The user's settings ("go env -w" or the environment) can change where
// modules come from, but not what is built. GOOS and GOARCH are not included.
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

// GoVersion returns the version of the Go toolchain, such as go1.26.1, which affects the built
// programs.
func GoVersion() (string, error) {
	values, err := settings()
	return values["GOVERSION"], err
}
