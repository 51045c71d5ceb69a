// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package release

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	v1 "github.com/google/go-containerregistry/pkg/v1"
)

// The image of the Dockerfile has the same configuration as the archive's.
func TestDockerfileConfigures(t *testing.T) {
	got := map[string]string{}
	final := false
	for line := range strings.Lines(read(t, filepath.Join(root, "Dockerfile"))) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		if word == "FROM" {
			final = rest == "scratch"
		} else if final && word != "" {
			got[word] = rest
		}
	}
	config := imageConfig(&v1.ConfigFile{}, testVersion).Config
	want := map[string]string{
		"COPY": "--from=build /image /", "ENV": strings.Join(config.Env, " "), "WORKDIR": config.WorkingDir,
		"USER": config.User, "ENTRYPOINT": `["` + strings.Join(config.Entrypoint, `", "`) + `"]`,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("last stage (-archive +Dockerfile):\n%s", diff)
	}
}

// The Dockerfile updates the package lists before it installs packages, because the builder's
// cache may be old.
func TestDockerfileUpdatesFirst(t *testing.T) {
	found := false
	for line := range strings.Lines(read(t, filepath.Join(root, "Dockerfile"))) {
		if !strings.Contains(line, "hack/images agent") {
			continue
		}
		found = true
		if !strings.HasPrefix(line, "RUN apt-get update && ") {
			t.Errorf("uses old package lists: %s", line)
		}
	}
	if !found {
		t.Error("no step builds the agent")
	}
}

// .dockerignore allows exactly the files that the Dockerfile needs.
func TestDockerignore(t *testing.T) {
	var sent []string
	for line := range strings.Lines(read(t, filepath.Join(root, ".dockerignore"))) {
		if name, ok := strings.CutPrefix(strings.TrimSpace(line), "!"); ok {
			sent = append(sent, name)
		}
	}
	out, err := goTool(t.Context(), root, "list", "-deps", "-f", "{{$.ImportPath}}",
		"./cmd/manager", "./cmd/agent", "./hack/images", "./hack/release/build")
	if err != nil {
		t.Fatal(err)
	}
	needed := []string{"LICENSE", "go.mod", "go.sum"}
	for path := range strings.FieldsSeq(string(out)) {
		below, own := strings.CutPrefix(path, "github.com/ingot-metal/ingot/")
		directory, _, _ := strings.Cut(below, "/")
		if own && !slices.Contains(needed, directory) {
			needed = append(needed, directory)
		}
	}
	slices.Sort(sent)
	slices.Sort(needed)
	if diff := cmp.Diff(needed, sent); diff != "" {
		t.Errorf("(-needed +.dockerignore):\n%s", diff)
	}
}
