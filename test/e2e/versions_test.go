// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/mod/semver"

	"github.com/ingot-metal/ingot/hack/release"
	"github.com/ingot-metal/ingot/test/site"
)

// versions are what is installed first and what it is upgraded to.
type versions struct {
	first, next string
	// tagged: first is a tag of the repository, and is built from it. Otherwise both
	// are this source tree under two names.
	tagged bool
}

// versionsOf finds the newest release that the source tree descends from. err says
// why there is none.
func versionsOf(ctx context.Context, root string) (v versions, err error) {
	v.first = site.Version
	out, err := inDir(ctx, root, "git", "tag", "--merged", "HEAD", "--no-contains", "HEAD")
	if err == nil {
		if tag := newest(strings.Fields(string(out))); tag != "" {
			v.first, v.tagged = tag, true
		} else {
			err = errors.New("no tag vX.Y.Z before HEAD")
		}
	}
	v.next = nextPatch(v.first)
	return v, err
}

// newest of the tags vX.Y.Z; empty: none is.
func newest(tags []string) string {
	latest := ""
	for _, tag := range tags {
		if semver.Canonical(tag) == tag && semver.Prerelease(tag) == "" && semver.Compare(tag, latest) > 0 {
			latest = tag
		}
	}
	return latest
}

// nextPatch of a version vX.Y.Z.
func nextPatch(version string) string {
	var major, minor, patch int
	if _, err := fmt.Sscanf(version, "v%d.%d.%d", &major, &minor, &patch); err != nil {
		return ""
	}
	return fmt.Sprintf("v%d.%d.%d", major, minor, patch+1)
}

// writeReleases writes two versions of Ingot into one repository.
func writeReleases(t *testing.T, root string) (first, next *release.Release, v versions) {
	t.Helper()
	out := t.TempDir()
	v, err := versionsOf(t.Context(), root)
	if v.tagged {
		t.Logf("from %s, built from its tag, to %s, built from this source tree", v.first, v.next)
		first, err = writeTagged(t, root, v.first, out)
	} else {
		t.Logf("from %s to %s, both built from this source tree: %v", v.first, v.next, err)
		first, err = release.Write(t.Context(), release.Options{Root: root, Version: v.first, Out: out})
	}
	if err == nil {
		next, err = release.Write(t.Context(), release.Options{Root: root, Version: v.next, Out: out})
	}
	if err != nil {
		t.Fatal(err)
	}
	return first, next, v
}

// writeTagged writes a release as its own tag does, from a tree of its own that ends
// with the test.
func writeTagged(t *testing.T, root, tag, out string) (*release.Release, error) {
	t.Helper()
	tree := filepath.Join(t.TempDir(), "tree")
	if _, err := inDir(t.Context(), root, "git", "worktree", "add", "--detach", tree, "refs/tags/"+tag); err != nil {
		return nil, err
	}
	t.Cleanup(func() {
		if _, err := inDir(context.WithoutCancel(t.Context()), root, "git", "worktree", "remove", "--force", tree); err != nil {
			t.Error(err)
		}
	})
	for _, command := range [][]string{
		{"go", "run", "./hack/images", "agent"},
		{"go", "run", "./hack/release/build", "-version", tag, "-out", out},
	} {
		if _, err := inDir(t.Context(), tree, command...); err != nil {
			return nil, err
		}
	}
	dir := filepath.Join(out, release.Provider, tag)
	r := &release.Release{
		Dir: dir, Components: filepath.Join(dir, "infrastructure-components.yaml"),
		BootComponents: filepath.Join(out, "addon-ingot", tag, "addon-components.yaml"),
	}
	archives, err := filepath.Glob(filepath.Join(out, "images", "ingot-"+tag+"-*.tar"))
	if err != nil || len(archives) != 1 {
		return nil, fmt.Errorf("archives of %s: %q, %w", tag, archives, err)
	}
	r.Archive = archives[0]
	return r, nil
}

// inDir runs a command and returns its standard output; the error has what it said.
func inDir(ctx context.Context, dir string, command ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, command[0], command[1:]...)
	var stderr bytes.Buffer
	cmd.Dir, cmd.Stderr = dir, &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("%q: %w\n%s", command, err, stderr.Bytes())
	}
	return out, nil
}

func TestNewest(t *testing.T) {
	for name, tc := range map[string]struct {
		tags       []string
		want, next string
	}{
		"none":                 {nil, "", ""},
		"by number":            {[]string{"v0.1.9", "v0.1.10", "v0.1.2"}, "v0.1.10", "v0.1.11"},
		"no candidate":         {[]string{"v0.1.0", "v0.2.0-rc.1"}, "v0.1.0", "v0.1.1"},
		"other names":          {[]string{"latest", "0.3.0", "v1", "v1.2", "v0.0.1+x"}, "", ""},
		"the next is a patch ": {[]string{"v1.2.3"}, "v1.2.3", "v1.2.4"},
	} {
		t.Run(name, func(t *testing.T) {
			got := newest(tc.tags)
			if next := nextPatch(got); got != tc.want || next != tc.next {
				t.Errorf("newest %q and then %q, want %q and %q", got, next, tc.want, tc.next)
			}
		})
	}
}

// builder stands for a tag's own hack/release: it writes where it was told to what
// the source tree says.
const builder = `package main

import ("os"; "path/filepath")

func main() {
	version, out := os.Args[2], os.Args[4]
	source, err := os.ReadFile("source")
	for _, path := range []string{
		filepath.Join(out, "infrastructure-ingot", version, "infrastructure-components.yaml"),
		filepath.Join(out, "images", "ingot-"+version+"-linux-amd64.tar"),
	} {
		if err == nil { err = os.MkdirAll(filepath.Dir(path), 0o700) }
		if err == nil { err = os.WriteFile(path, source, 0o600) }
	}
	if err != nil { panic(err) }
}
`

// A tag's release is written by the tag's own source, not by what is checked out, and
// leaves nothing behind in the repository.
func TestTaggedRelease(t *testing.T) {
	root := t.TempDir()
	write := func(path, text string) {
		t.Helper()
		path = filepath.Join(root, path)
		if err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	git := func(args ...string) string {
		t.Helper()
		out, err := inDir(t.Context(), root, append([]string{"git", "-c", "user.name=a", "-c", "user.email=a@example.com"}, args...)...)
		if err != nil {
			t.Fatal(err)
		}
		return string(out)
	}
	commit := func(source string) {
		t.Helper()
		write("source", source)
		git("add", ".")
		git("commit", "--quiet", "--message", source)
	}
	if _, err := versionsOf(t.Context(), root); err == nil {
		t.Error("versions of what is no repository")
	}
	git("init", "--quiet", "--initial-branch=main")
	write("go.mod", "module example.com/m\n\ngo 1.24\n")
	write("hack/images/main.go", "package main\n\nfunc main() {}\n")
	write("hack/release/build/main.go", builder)
	commit("one")
	if v, err := versionsOf(t.Context(), root); err == nil || !cmp.Equal(v, versions{site.Version, nextPatch(site.Version), false}, cmp.AllowUnexported(versions{})) {
		t.Errorf("without tags: %+v, %v", v, err)
	}
	git("tag", "v0.1.3")
	git("checkout", "--quiet", "-b", "side")
	commit("side")
	git("tag", "v9.0.0")
	git("checkout", "--quiet", "main")
	commit("two")
	git("tag", "v0.1.4")
	v, err := versionsOf(t.Context(), root)
	if want := (versions{"v0.1.3", "v0.1.4", true}); err != nil || v != want {
		t.Fatalf("versions %+v, %v, want %+v", v, err, want)
	}
	t.Run("written", func(t *testing.T) {
		r, err := writeTagged(t, root, v.first, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range []string{r.Components, r.Archive} {
			if text, err := os.ReadFile(path); err != nil || string(text) != "one" {
				t.Errorf("%s: %q, %v", path, text, err)
			}
		}
	})
	if trees := strings.Count(git("worktree", "list"), "\n"); trees != 1 {
		t.Errorf("%d trees are left, want the one that there was:\n%s", trees, git("worktree", "list"))
	}
	if status := git("status", "--porcelain"); status != "" {
		t.Errorf("changed:\n%s", status)
	}
}
