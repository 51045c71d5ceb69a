// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/hack/tools"
)

// shipped are the programs whose dependencies' licenses are in the image.
var shipped = []string{"./cmd/manager", "./cmd/agent"}

// ownTypes is Ingot's second module, which has the license of the source tree.
const ownTypes = "github.com/ingot-metal/ingot/api"

// licenseName matches the license files of a Go module.
var licenseName = regexp.MustCompile(`^(LICEN[CS]E|COPYING|NOTICE|PATENTS)([.-].*)?$`)

// linkedLicenses lists the licenses of all modules that are linked into the shipped programs, and
// of Go, as /usr/share/doc/<module>/<file>.
func linkedLicenses(ctx context.Context, root string) ([]file, error) {
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Dir}}{{end}}{{end}}"}, shipped...)
	out, err := goTool(ctx, root, args...)
	if err != nil {
		return nil, fmt.Errorf("list what is linked: %w", err)
	}
	goroot, err := goTool(ctx, root, "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("find Go's license: %w", err)
	}
	dirs := map[string]string{"go": strings.TrimSpace(string(goroot))}
	lines := bufio.NewScanner(bytes.NewReader(out))
	for lines.Scan() {
		if module, dir, ok := strings.Cut(lines.Text(), " "); ok && module != ownTypes {
			dirs[module] = dir
		}
	}
	var files []file
	for module, dir := range dirs {
		found, err := licensesIn(dir, "/usr/share/doc/ingot/linked/"+module)
		if err != nil {
			return nil, fmt.Errorf("find the license of %s: %w", module, err)
		}
		files = append(files, found...)
	}
	slices.SortFunc(files, func(a, b file) int { return strings.Compare(a.path, b.path) })
	return files, nil
}

func licensesIn(dir, path string) ([]file, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var files []file
	for _, e := range entries {
		if e.Type().IsRegular() && filepath.Ext(e.Name()) != ".go" && licenseName.MatchString(strings.ToUpper(e.Name())) {
			files = append(files, file{path: path + "/" + e.Name(), source: filepath.Join(dir, e.Name()), mode: 0o644})
		}
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("none of its files looks like one")
	}
	return files, nil
}

// goTool runs the go command on the source tree in the environment of the manager's build.
func goTool(ctx context.Context, root string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = root
	env, err := buildEnv()
	if err != nil {
		return nil, err
	}
	cmd.Env = env
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("go %s: %w: %s", args[0], err, strings.TrimSpace(stderr.String()))
	}
	return out, nil
}

// buildEnv returns an environment in which the user's settings cannot change the result.
func buildEnv() ([]string, error) {
	env, err := tools.BuildEnv()
	return append(append(os.Environ(), env...), "GOOS=linux", "GOARCH="+architecture), err
}
