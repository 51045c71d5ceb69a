// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/hack/tools"
)

// Run runs a program in a directory and returns its standard output. Its standard error is part of the
// error.
func Run(ctx context.Context, dir, name string, args ...string) (string, error) {
	var stdout, stderr bytes.Buffer
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir, cmd.Stdout, cmd.Stderr = dir, &stdout, &stderr
	// File system tools are in sbin, which may be missing in PATH.
	cmd.Env = append(os.Environ(), "PATH="+os.Getenv("PATH")+":/usr/sbin:/sbin", "LC_ALL=C")
	if path, err := lookTool(name); err == nil {
		cmd.Path, cmd.Err = path, nil
	}
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("%s: %w: %s", name, err, lastLines(stderr.String(), 30))
	}
	return stdout.String(), nil
}

// RunGo runs the go command in a directory for linux/amd64, with reproducible results (see
// tools.BuildEnv).
func RunGo(ctx context.Context, dir string, args ...string) (string, error) {
	env, err := tools.BuildEnv()
	if err != nil {
		return "", err
	}
	return Run(ctx, dir, "env", slices.Concat(env, []string{"GOOS=linux", "GOARCH=amd64", "go"}, args)...)
}

func lookTool(name string) (string, error) {
	if path, err := exec.LookPath(name); err == nil {
		return path, nil
	}
	for _, dir := range []string{"/usr/sbin", "/sbin"} {
		path := filepath.Join(dir, name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return path, nil
		}
	}
	return "", fmt.Errorf("%s: %w", name, exec.ErrNotFound)
}

// Need returns an error with the Debian packages of missing tools or files.
func Need(packageOf map[string]string) error {
	var missing []string
	for name, pkg := range packageOf {
		if filepath.IsAbs(name) {
			if _, err := os.Stat(name); err == nil {
				continue
			}
		} else if _, err := lookTool(name); err == nil {
			continue
		}
		missing = append(missing, fmt.Sprintf("%s (package %s)", name, pkg))
	}
	if len(missing) > 0 {
		return errors.New("missing: " + strings.Join(missing, ", "))
	}
	return nil
}

func lastLines(s string, n int) string {
	lines := strings.Split(strings.TrimSpace(s), "\n")
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}
