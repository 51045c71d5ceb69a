// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

var fence = regexp.MustCompile("(?s)\n```yaml\n(.*?)\n```\n")

// testBook tries what the operator's book tells people to write, as an operator:
// with unknown fields refused, and without leaving anything behind.
func (s *server) testBook(t *testing.T) {
	for _, name := range []string{"dc1", "metal"} {
		if err := s.people["admin"].Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}); err != nil {
			t.Fatal(err)
		}
	}
	var pages []string
	book := filepath.Join("..", "..", "docs", "book")
	if err := filepath.WalkDir(book, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	tried := map[string]bool{}
	for _, path := range pages {
		page, err := filepath.Rel(book, path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		// What the reader fills in; and networks of other tests overlap the example's.
		text := strings.NewReplacer("sha256:…", "sha256:"+strings.Repeat("ab", 32), "10.10.0.", "10.77.0.", "2001:db8:0:", "2001:db8:77:").Replace(string(content))
		for _, block := range fence.FindAllStringSubmatch(text, -1) {
			for _, document := range strings.Split(block[1], "\n---\n") {
				object := &unstructured.Unstructured{}
				if err := yaml.Unmarshal([]byte(document), &object.Object); err != nil {
					t.Fatalf("docs/book/%s: %v", page, err)
				}
				if object.GroupVersionKind().Group != v1beta2.GroupVersion.Group {
					continue
				}
				tried[object.GetKind()] = true
				object.SetName("book-" + object.GetName()) // other tests have objects of the example's names
				if err := s.people[operatorUser].Create(t.Context(), object, client.DryRunAll); err != nil {
					t.Errorf("docs/book/%s: %v", page, err)
				}
			}
		}
	}
	for _, kind := range []string{"IngotNetwork", "IngotHost", "IngotMachineTemplate", "IngotImage", "IngotReservation", "IngotRemediationTemplate"} {
		if !tried[kind] {
			t.Errorf("the book has no example of %s", kind)
		}
	}
}
