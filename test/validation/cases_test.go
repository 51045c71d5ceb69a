// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// testCase is one invalid input and the words that refuse it.
type testCase struct {
	name string
	kind string
	// Base is the file of testdata/valid that the case starts from (create), or
	// the name of an object that exists (update, delete).
	Base string `json:"base,omitempty"`
	// Version of the API that is written; v1beta2 unless given.
	Version string `json:"version,omitempty"`
	// Op is create, update (PUT), merge (a merge patch), apply (server-side apply,
	// by force) or delete, as a dry run, or real-update; create unless given.
	Op string `json:"op,omitempty"`
	// As is who asks: operator (unless given), restorer or manager.
	As string `json:"as,omitempty"`
	// Field that the refusal must name.
	Field string `json:"field"`
	// Secret says that the value must not be repeated.
	Secret string `json:"secret,omitempty"`
	// Set and Remove change the base. A string "repeat:N:x" is x N times.
	Set    map[string]any `json:"set,omitempty"`
	Remove []string       `json:"remove,omitempty"`

	input, want string
}

const (
	caseMark = "=== "
	wantMark = "--- refused\n"
)

// readCases reads all tables.
func readCases(t *testing.T) map[string][]testCase {
	t.Helper()
	files, err := filepath.Glob("testdata/*.cases")
	if err != nil || len(files) == 0 {
		t.Fatalf("no tables of cases: %v", err)
	}
	out := map[string][]testCase{}
	for _, file := range files {
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		kind := strings.TrimSuffix(filepath.Base(file), ".cases")
		_, body, _ := strings.Cut("\n"+string(data), "\n"+caseMark)
		names := map[string]bool{}
		for text := range strings.SplitSeq(body, "\n"+caseMark) {
			c := parseCase(t, file, kind, text)
			if names[c.name] {
				t.Fatalf("%s: two cases are named %s", file, c.name)
			}
			names[c.name] = true
			out[kind] = append(out[kind], c)
		}
	}
	return out
}

func parseCase(t *testing.T, file, kind, text string) testCase {
	t.Helper()
	name, rest, _ := strings.Cut(text, "\n")
	input, want, _ := strings.Cut(rest+"\n", wantMark)
	c := testCase{name: name, kind: kind, input: input, want: strings.TrimSpace(want)}
	if err := yaml.UnmarshalStrict([]byte(input), &c); err != nil {
		t.Fatalf("%s: case %s: %v", file, name, err)
	}
	if c.Field == "" {
		t.Fatalf("%s: case %s names no field", file, name)
	}
	for value, def := range map[*string]string{&c.Op: "create", &c.As: "operator", &c.Version: "v1beta2", &c.Base: kind + "-maximal"} {
		if *value == "" {
			*value = def
		}
	}
	return c
}

// writeCases writes the tables with new answers, and keeps the head of each file.
func writeCases(t *testing.T, kind string, cases []testCase) {
	t.Helper()
	file := filepath.Join("testdata", kind+".cases")
	data, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	head, _, _ := strings.Cut("\n"+string(data), "\n"+caseMark)
	out := strings.TrimPrefix(head, "\n")
	if out != "" {
		out += "\n"
	}
	for i, c := range cases {
		if i > 0 {
			out += "\n"
		}
		out += caseMark + c.name + "\n" + c.input + wantMark + c.want + "\n"
	}
	if err := os.WriteFile(file, []byte(out), 0o644); err != nil {
		t.Fatal(err)
	}
}

// apply makes the invalid object of a valid one.
func (c testCase) apply(t *testing.T, object *unstructured.Unstructured) {
	t.Helper()
	for path, value := range c.Set {
		if err := set(object.Object, segments(path), expand(value)); err != nil {
			t.Fatalf("set %s: %v", path, err)
		}
	}
	for _, path := range c.Remove {
		if err := set(object.Object, segments(path), nil); err != nil {
			t.Fatalf("remove %s: %v", path, err)
		}
	}
}

// only is an object of the same name that holds what the case sets and nothing else,
// as a server-side apply of it would send.
func (c testCase) only(t *testing.T, object *unstructured.Unstructured) *unstructured.Unstructured {
	t.Helper()
	change := &unstructured.Unstructured{Object: map[string]any{}}
	change.SetGroupVersionKind(object.GroupVersionKind())
	change.SetName(object.GetName())
	change.SetNamespace(object.GetNamespace())
	c.apply(t, change)
	return change
}

// merge is the case as a JSON merge patch (RFC 7396): null removes.
func (c testCase) merge(t *testing.T) []byte {
	t.Helper()
	patch := map[string]any{}
	for path, value := range c.Set {
		at := segments(path)
		parent := patch
		for _, segment := range at[:len(at)-1] {
			name, ok := segment.(string)
			if !ok {
				t.Fatalf("%s: a merge patch has no list items", path)
			}
			if parent[name] == nil {
				parent[name] = map[string]any{}
			}
			parent = parent[name].(map[string]any)
		}
		parent[at[len(at)-1].(string)] = expand(value)
	}
	data, err := json.Marshal(patch)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// expand writes out "repeat:N:x", for values that are too long, in value.
func expand(value any) any {
	switch v := value.(type) {
	case string:
		if rest, ok := strings.CutPrefix(v, "repeat:"); ok {
			count, text, _ := strings.Cut(rest, ":")
			n, err := strconv.Atoi(count)
			if err != nil {
				panic(fmt.Sprintf("%q: %v", v, err))
			}
			return strings.Repeat(text, n)
		}
	case []any:
		for i := range v {
			v[i] = expand(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = expand(v[key])
		}
	case float64: // as the API machinery holds whole numbers
		if v == float64(int64(v)) {
			return int64(v)
		}
	}
	return value
}

var segmentPattern = regexp.MustCompile(`[^.\[\]]+|\[[^\]]+\]`)

// segments splits spec.nics[0].mac and metadata.labels[a.b/c].
func segments(path string) []any {
	var out []any
	for _, s := range segmentPattern.FindAllString(path, -1) {
		inner := strings.Trim(s, "[]")
		if n, err := strconv.Atoi(inner); err == nil && s != inner {
			out = append(out, n)
		} else {
			out = append(out, inner)
		}
	}
	return out
}

// set writes value at path; nil removes. Objects on the way are made.
func set(node any, path []any, value any) error {
	last := len(path) == 1
	switch at := path[0].(type) {
	case int:
		list, ok := node.([]any)
		if !ok || at >= len(list) {
			return fmt.Errorf("no item %d", at)
		}
		if last {
			list[at] = value
			return nil
		}
		return set(list[at], path[1:], value)
	case string:
		object, ok := node.(map[string]any)
		if !ok {
			return fmt.Errorf("%s: not in an object", at)
		}
		if last && value == nil {
			delete(object, at)
			return nil
		}
		if last {
			object[at] = value
			return nil
		}
		if object[at] == nil {
			object[at] = map[string]any{}
		}
		return set(object[at], path[1:], value)
	}
	return fmt.Errorf("bad path %v", path)
}

// get reads the value at path; ok is false if there is none.
func get(node any, path []any) (value any, ok bool) {
	for _, segment := range path {
		switch at := segment.(type) {
		case int:
			list, isList := node.([]any)
			if !isList || at >= len(list) {
				return nil, false
			}
			node = list[at]
		case string:
			object, isObject := node.(map[string]any)
			if !isObject {
				return nil, false
			}
			if node, ok = object[at]; !ok {
				return nil, false
			}
		}
	}
	return node, true
}

// readValid reads one object of testdata/valid.
func readValid(t *testing.T, name string) *unstructured.Unstructured {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("testdata", "valid", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	object := &unstructured.Unstructured{}
	if err := yaml.UnmarshalStrict(data, &object.Object); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	object.Object = expand(object.Object).(map[string]any)
	return object
}
