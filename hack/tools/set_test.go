// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package tools

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestCacheDir(t *testing.T) {
	home := t.TempDir()
	tests := map[string]struct{ ingot, xdg, want string }{
		"its own variable wins":       {ingot: "/a", xdg: "/b", want: "/a"},
		"then the XDG base directory": {xdg: "/b", want: "/b/ingot"},
		"a relative one is ignored":   {xdg: "b", want: filepath.Join(home, ".cache/ingot")}, // XDG Base Directory Specification 0.8
		"else below home":             {want: filepath.Join(home, ".cache/ingot")},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Setenv("HOME", home)
			t.Setenv("INGOT_CACHE", test.ingot)
			t.Setenv("XDG_CACHE_HOME", test.xdg)
			got, err := CacheDir()
			if err != nil || got != test.want {
				t.Errorf("CacheDir() = %q, %v, want %q", got, err, test.want)
			}
		})
	}
}

func TestOpenFindsThisTree(t *testing.T) {
	t.Setenv("INGOT_CACHE", t.TempDir())
	set, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(set.Root(), "hack", "tools", "kube", "go.mod")); err != nil {
		t.Error(err)
	}
	t.Chdir(t.TempDir())
	if set, err := Open(); err == nil {
		t.Errorf("found a source tree at %s, outside of any", set.Root())
	}
}

// Every program is known by its names and pinned, and an empty cache contains none.
func TestBinaryNotBuilt(t *testing.T) {
	t.Setenv("INGOT_CACHE", t.TempDir())
	set, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"etcd", "kube-apiserver", "kube-controller-manager", "kubectl", "kubeadm", "kube", "clusterctl", "controller-gen",
		"capi-core-manager", "capi-kubeadm-bootstrap-manager", "capi-kubeadm-control-plane-manager",
		"kube-scheduler", "kubelet", "kube-proxy", "pause", "containerd", "containerd-shim-runc-v2", "ctr",
		"cert-manager", "cert-manager-manifests", "etcdctl", "etcdutl", "crd-ref-docs", "diagrams", "hugo",
	} {
		if path, err := set.Binary(name); !errors.Is(err, ErrNotBuilt) {
			t.Errorf("Binary(%q) = %q, %v, want ErrNotBuilt", name, path, err)
		}
	}
	if _, err := set.Binary("helm"); err == nil || errors.Is(err, ErrNotBuilt) {
		t.Errorf("Binary(helm) = %v, want an error about an unknown program", err)
	}
	t.Setenv("KUBEBUILDER_ASSETS", "/elsewhere")
	if dir, err := set.Assets(); err != nil || dir != "/elsewhere" {
		t.Errorf("Assets() = %q, %v, want KUBEBUILDER_ASSETS", dir, err)
	}
	if err := set.Build(t.Context(), &bytes.Buffer{}, "no-such-group"); err == nil {
		t.Error("built a group that does not exist")
	}
}

// toy is a group with a program that prints its version.
var toy = group{
	name:            "toy",
	pin:             "example.com/toy",
	programs:        []program{{file: "toy", pkg: ".", aliases: []string{"doll"}}},
	versionPackages: []string{"main"},
}

const toySource = `package main

var gitVersion, gitMajor, gitMinor string

func main() { print(gitVersion, " ", gitMajor, " ", gitMinor) }
`

func newToy(t *testing.T, source string) *Set {
	t.Helper()
	set := &Set{root: t.TempDir(), cache: t.TempDir()}
	write(t, filepath.Join(set.source("toy"), "go.mod"), "module toy\n\ngo 1.26.0\n\nrequire example.com/toy v1.36.3\n")
	write(t, filepath.Join(set.source("toy"), "main.go"), source)
	return set
}

func TestBuildOnce(t *testing.T) {
	set := newToy(t, toySource)
	var logs [2]bytes.Buffer
	var builds sync.WaitGroup
	for i := range logs {
		builds.Go(func() {
			if err := set.buildGroup(t.Context(), &logs[i], toy); err != nil {
				t.Error(err)
			}
		})
	}
	builds.Wait()
	if n := strings.Count(logs[0].String()+logs[1].String(), "building toy v1.36.3"); n != 1 {
		t.Errorf("built %d times, want once:\n%s%s", n, &logs[0], &logs[1])
	}
	dir, err := set.dir(toy)
	if err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(dir, "doll")).CombinedOutput()
	if err != nil || string(out) != "v1.36.3 1 36" {
		t.Errorf("the alias says %q, %v", out, err)
	}
	if diff := cmp.Diff([]string{".lock-toy", filepath.Base(dir)}, names(t, filepath.Dir(dir))); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
}

// TestOneVersionOfEachModule compares the pins of Cluster API's programs with Ingot's own. Equal
// versions let both builds share their packages in the build cache, which saves minutes of
// make test from nothing.
func TestOneVersionOfEachModule(t *testing.T) {
	s := &Set{root: filepath.Join("..", "..")}
	ours, theirs := requirements(t, filepath.Join(s.root, "go.mod")), requirements(t, filepath.Join(s.source("capi"), "go.mod"))
	for module, version := range theirs {
		if own := ours[module]; own != "" && own != version {
			t.Errorf("%s: hack/tools/capi requires %s, go.mod requires %s; run go get %[1]s@%[3]s in hack/tools/capi", module, version, own)
		}
	}
}

// requirements returns the version of each module that a go.mod requires.
func requirements(t *testing.T, path string) map[string]string {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, m := range regexp.MustCompile(`(?m)^(?:require)?\s+(\S+/\S+) (v\S+)`).FindAllStringSubmatch(string(data), -1) {
		versions[m[1]] = m[2]
	}
	if len(versions) < 50 {
		t.Fatalf("%s requires %d modules, want at least 50", path, len(versions))
	}
	return versions
}

// TestOneKubernetes fails if the programs of nodes and of the control plane have different versions.
func TestOneKubernetes(t *testing.T) {
	set, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, name := range []string{"kube", "node"} {
		if versions[name], err = set.Version(name, "k8s.io/kubernetes"); err != nil {
			t.Fatal(err)
		}
	}
	if versions["kube"] != versions["node"] {
		t.Errorf("hack/tools/kube pins %s, hack/tools/node %s", versions["kube"], versions["node"])
	}
}

func TestFailedBuildLeavesNothing(t *testing.T) {
	set := newToy(t, "package main\n\nfunc main() { undefined() }\n")
	var log bytes.Buffer
	if err := set.buildGroup(t.Context(), &log, toy); err == nil {
		t.Fatal("built a program that does not compile")
	}
	if !strings.Contains(log.String(), "undefined") {
		t.Errorf("the compiler's message is not in the log: %s", &log)
	}
	if diff := cmp.Diff([]string{".lock-toy"}, names(t, filepath.Join(set.cache, "tools"))); diff != "" {
		t.Errorf("cache (-want +got):\n%s", diff)
	}
}

// Every input changes the directory.
func TestKey(t *testing.T) {
	set := newToy(t, toySource)
	key := func(g group) string {
		t.Helper()
		dir, err := set.dir(g)
		if err != nil {
			t.Fatal(err)
		}
		return filepath.Base(dir)
	}
	seen := map[string]string{key(toy): "as it was"}
	if again := key(toy); seen[again] == "" {
		t.Error("the key is another one the second time")
	}
	tagged := toy
	tagged.tags = "x"
	changes := []struct {
		name  string
		apply func() string
	}{
		{"a build tag", func() string { return key(tagged) }},
		{"the Go that builds", func() string {
			asked := toy
			asked.onRequest = true
			dir, err := set.dirOf(asked, "go1.0")
			if err != nil {
				t.Fatal(err)
			}
			return filepath.Base(dir)
		}},
		{"our source", func() string {
			write(t, filepath.Join(set.source("toy"), "main.go"), toySource+"\n")
			return key(toy)
		}},
		{"a source in a directory below", func() string {
			write(t, filepath.Join(set.source("toy"), "sub", "main.go"), toySource)
			return key(toy)
		}},
		{"a checksum", func() string {
			write(t, filepath.Join(set.source("toy"), "go.sum"), "x\n")
			return key(toy)
		}},
		{"the version", func() string {
			write(t, filepath.Join(set.source("toy"), "go.mod"), "module toy\n\nrequire example.com/toy v2.0.0\n")
			return key(toy)
		}},
	}
	for _, change := range changes {
		got := change.apply()
		if before, ok := seen[got]; ok {
			t.Errorf("changing %s gives the same key as %s: %s", change.name, before, got)
		}
		seen[got] = change.name
	}
	if got := key(toy); !strings.HasPrefix(got, "toy-v2.0.0-") {
		t.Errorf("key %s does not name the version", got)
	}
}

func TestModuleDirVerifiesAndFails(t *testing.T) {
	set, err := Open()
	if err != nil {
		t.Fatal(err)
	}
	dir, err := set.ModuleDir(t.Context(), "certmanager", "github.com/cert-manager/cert-manager")
	if err != nil {
		t.Fatal(err)
	}
	if files, _ := filepath.Glob(filepath.Join(dir, "deploy", "crds", "*.yaml")); len(files) == 0 {
		t.Errorf("no definitions in %s", dir)
	}
	if dir, err := set.ModuleDir(t.Context(), "certmanager", "github.com/stmcginnis/gofish"); err == nil {
		t.Errorf("a module that is not pinned there is at %s", dir)
	}
}

func write(t *testing.T, path, content string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
		t.Fatal(err)
	}
}

func names(t *testing.T, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, entry := range entries {
		all = append(all, entry.Name())
	}
	return all
}
