// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ingot-metal/ingot/test/archrules"
)

// listed is what "go list -json" says of a package.
type listed struct {
	ImportPath                               string
	Imports, TestImports, XTestImports, Deps []string
}

func TestImportsRunOneWay(t *testing.T) {
	touchSources(t)
	packages := list(t)
	if len(packages) < 20 {
		t.Fatalf("go list found only %d packages: the rules were not applied to the module", len(packages))
	}
	edges := 0
	for _, p := range packages {
		dir := strings.TrimPrefix(strings.TrimPrefix(p.ImportPath, archrules.Module), "/")
		for _, group := range []struct {
			kind  archrules.Kind
			paths []string
		}{
			{archrules.Production, p.Imports},
			{archrules.Test, p.TestImports},
			{archrules.Test, p.XTestImports},
		} {
			for _, path := range group.paths {
				edges++
				if err := archrules.Check(dir, path, group.kind); err != nil {
					t.Error(err)
				}
			}
		}
		if err := errors.Join(archrules.CheckClean(dir, p.Deps), archrules.CheckMaintained(dir, p.Deps)); err != nil {
			t.Error(err)
		}
	}
	t.Logf("%d imports of %d packages", edges, len(packages))
}

// touchSources looks at every Go file of the module and at every directory, so
// that go test takes them for inputs of this test and does not answer from its
// cache when one has changed; what "go list" reads it cannot see.
func touchSources(t *testing.T) {
	t.Helper()
	root := filepath.Join("..", "..")
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && path != root && strings.HasPrefix(entry.Name(), "."):
			return filepath.SkipDir
		case strings.HasSuffix(path, ".go"):
			_, err := os.Stat(path)
			return err
		default:
			return nil
		}
	})
	if err != nil {
		t.Fatal(err)
	}
}

// list returns the packages of the module around the working directory.
func list(t *testing.T) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "list", "-e", "-json=ImportPath,Imports,TestImports,XTestImports,Deps", archrules.Module+"/...")
	// Linux is what everything is built for, whoever runs the test.
	cmd.Env = append(os.Environ(), "GOOS=linux")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v: %s", err, stderr.String())
	}
	var packages []listed
	for decoder := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, p)
	}
}
