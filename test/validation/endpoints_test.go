// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
)

// told are the endpoints that the book tells people to give, as a variable of the templates
// and to the network plugin.
var told = regexp.MustCompile(`(?:CONTROL_PLANE_ENDPOINT_HOST=|printmanifest [0-9./]+ )([0-9.]+)`)

// Who copies two examples of the book has no endpoint that a host is given.
func TestEndpointsOfTheBook(t *testing.T) {
	book := filepath.Join("..", "..", "docs", "book")
	var pages []string
	if err := filepath.WalkDir(book, func(path string, _ fs.DirEntry, err error) error {
		if filepath.Ext(path) == ".md" {
			pages = append(pages, path)
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	networks, endpoints := map[string]v1beta2.IngotNetworkSpec{}, map[string]string{}
	for _, path := range pages {
		content, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		page, err := filepath.Rel(book, path)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range told.FindAllStringSubmatch(string(content), -1) {
			endpoints[page] = match[1]
		}
		for _, block := range fence.FindAllStringSubmatch(string(content), -1) {
			for _, document := range strings.Split(block[1], "\n---\n") {
				network := v1beta2.IngotNetwork{}
				if err := yaml.Unmarshal([]byte(document), &network); err == nil && network.Kind == "IngotNetwork" {
					networks[page+", IngotNetwork "+network.Name] = network.Spec
				}
			}
		}
	}
	for page, endpoint := range endpoints {
		for other, network := range networks {
			if use := addressuse.Of(network, netip.MustParseAddr(endpoint)); use != addressuse.None {
				t.Errorf("docs/book/%s: the endpoint %s is %s of docs/book/%s", page, endpoint, use, other)
			}
		}
	}
	if len(endpoints) < 2 || len(networks) < 3 {
		t.Errorf("endpoints %v and %d networks were found", endpoints, len(networks))
	}
}
