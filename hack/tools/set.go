// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

// ErrNotBuilt is returned for a known program that is not built in the pinned version.
var ErrNotBuilt = errors.New("not built: run \"make tools\"")

// modulePath is the module at the root of the source tree.
const modulePath = "github.com/ingot-metal/ingot"

// Set contains the pinned tools of a source tree in a cache.
type Set struct {
	root  string // of the source tree
	cache string // $INGOT_CACHE
}

// Open finds the source tree of the working directory and the cache: INGOT_CACHE, or "ingot" in
// XDG_CACHE_HOME or ~/.cache. It builds nothing.
func Open() (*Set, error) {
	wd, err := os.Getwd()
	if err != nil {
		return nil, fmt.Errorf("find the source tree: %w", err)
	}
	root, err := findRoot(wd)
	if err != nil {
		return nil, err
	}
	cache, err := CacheDir()
	if err != nil {
		return nil, err
	}
	return &Set{root: root, cache: cache}, nil
}

// CacheDir returns the absolute path of the cache of tools and images, which may not exist yet.
func CacheDir() (string, error) {
	if dir := os.Getenv("INGOT_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	if dir := os.Getenv("XDG_CACHE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "ingot"), nil
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return "", fmt.Errorf("find the cache directory, set INGOT_CACHE: %w", err)
	}
	return filepath.Join(home, ".cache", "ingot"), nil
}

// findRoot walks up from dir to the directory whose go.mod is Ingot's.
func findRoot(dir string) (string, error) {
	for at := dir; ; at = filepath.Dir(at) {
		data, err := os.ReadFile(filepath.Join(at, "go.mod"))
		if err == nil && strings.HasPrefix(string(data), "module "+modulePath+"\n") {
			return at, nil
		}
		if at == filepath.Dir(at) {
			return "", fmt.Errorf("no Ingot source tree around %s", dir)
		}
	}
}

// Root returns the top directory of the source tree.
func (s *Set) Root() string { return s.root }

// Binary returns the path of a program, such as "kubectl" or "capi-core-manager". The error wraps
// ErrNotBuilt if the program is not built.
func (s *Set) Binary(name string) (string, error) {
	for _, g := range groups() {
		if !g.has(name) {
			continue
		}
		dir, err := s.dir(g)
		if err != nil {
			return "", err
		}
		path := filepath.Join(dir, name)
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%s: %w", name, ErrNotBuilt)
		}
		return path, nil
	}
	return "", fmt.Errorf("no tool is called %q", name)
}

// Assets returns a directory with etcd, kube-apiserver and kubectl for envtest: KUBEBUILDER_ASSETS
// if set, and else the built programs.
func (s *Set) Assets() (string, error) {
	if dir := os.Getenv("KUBEBUILDER_ASSETS"); dir != "" {
		return dir, nil
	}
	etcd, err := s.Binary("etcd")
	if err != nil {
		return "", err
	}
	return filepath.Dir(etcd), nil
}

// Version returns the version of a module that a group pins, for example
// Version("capi", "sigs.k8s.io/cluster-api").
func (s *Set) Version(groupName, module string) (string, error) {
	data, err := os.ReadFile(filepath.Join(s.source(groupName), "go.mod"))
	if err != nil {
		return "", fmt.Errorf("read the pin of %s: %w", module, err)
	}
	line := regexp.MustCompile(`(?m)^(?:require)?\s*` + regexp.QuoteMeta(module) + ` (v\S+)`)
	if m := line.FindSubmatch(data); m != nil {
		return string(m[1]), nil
	}
	return "", fmt.Errorf("hack/tools/%s/go.mod does not require %s", groupName, module)
}

// ModuleDir returns the read-only directory of a pinned module in the module cache. It downloads
// the module if needed, verified by go.sum.
func (s *Set) ModuleDir(ctx context.Context, groupName, module string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", "mod", "download", "-json", module)
	cmd.Dir = s.source(groupName)
	var stderr strings.Builder
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	var answer struct{ Dir, Error string }
	if jsonErr := json.Unmarshal(out, &answer); jsonErr == nil && answer.Dir != "" {
		return answer.Dir, nil
	}
	if err == nil {
		err = errors.New("no directory in the answer")
	}
	return "", fmt.Errorf("find module %s: %w: %s%s", module, err, answer.Error, strings.TrimSpace(stderr.String()))
}

func (s *Set) source(groupName string) string {
	return filepath.Join(s.root, "hack", "tools", groupName)
}

// dir returns the directory of a group's build, named by its version and a hash of all inputs.
func (s *Set) dir(g group) (string, error) {
	language, err := GoVersion()
	if err != nil {
		return "", err
	}
	return s.dirOf(g, language)
}

func (s *Set) dirOf(g group, language string) (string, error) {
	version, err := s.Version(g.name, g.pin)
	if err != nil {
		return "", err
	}
	sum := sha256.New()
	fmt.Fprintf(sum, "%q %q\n", g.programs, g.flags(version))
	if g.onRequest { // of servers' images, not of tests: the Go that links it has security fixes
		fmt.Fprintln(sum, language)
	}
	source := os.DirFS(s.source(g.name))
	err = fs.WalkDir(source, ".", func(file string, entry fs.DirEntry, err error) error { // in lexical order
		if err != nil || entry.IsDir() {
			return err
		}
		data, err := fs.ReadFile(source, file)
		if err != nil {
			return err
		}
		fmt.Fprintf(sum, "%s %d\n", file, len(data))
		sum.Write(data)
		return nil
	})
	if err != nil {
		return "", fmt.Errorf("hash the sources of %s: %w", g.name, err)
	}
	key := hex.EncodeToString(sum.Sum(nil))[:12]
	return filepath.Join(s.cache, "tools", g.name+"-"+version+"-"+key), nil
}
