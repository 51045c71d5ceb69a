// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

import (
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"k8s.io/apimachinery/pkg/types"
)

// Readers of a namespace get no names of other namespaces.
func TestListHosts(t *testing.T) {
	for name, tc := range map[string]struct {
		hosts string // namespace/name, by spaces
		want  string
	}{
		"none":                           {"", ""},
		"one":                            {"ns/a", "IngotHost ns/a"},
		"one, found twice":               {"ns/a ns/a", "IngotHost ns/a"},
		"three":                          {"ns/c ns/a ns/b", "IngotHost ns/a, ns/b, ns/c"},
		"five":                           {"ns/e ns/c ns/a ns/b ns/d", "IngotHost ns/a, ns/b, ns/c and 2 more"},
		"an unknown client":              {"secret/a", "a host of another namespace"},
		"an unknown client, found twice": {"secret/a secret/a", "a host of another namespace"},
		"unknowns":                       {"secret/a secret/b", "hosts of other namespaces"},
		"one and an unknown client":      {"secret/a ns/b", "IngotHost ns/b and a host of another namespace"},
		"one and unknown clients":        {"secret/a ns/b hidden/a", "IngotHost ns/b and hosts of other namespaces"},
		"a namespace with a prefix":      {"ns-2/a", "a host of another namespace"},
	} {
		t.Run(name, func(t *testing.T) {
			var hosts []types.NamespacedName
			for _, text := range strings.Fields(tc.hosts) {
				namespace, name, _ := strings.Cut(text, "/")
				hosts = append(hosts, types.NamespacedName{Namespace: namespace, Name: name})
			}
			for range 2 {
				if got := ListHosts("ns", hosts); got != tc.want {
					t.Errorf("got %q, want %q", got, tc.want)
				}
				slices.Reverse(hosts)
			}
		})
	}
}

func TestListClusters(t *testing.T) {
	for name, tc := range map[string]struct {
		clusters []types.NamespacedName
		want     string
	}{
		"none":                      {nil, ""},
		"one and an unknown client": {[]types.NamespacedName{{Namespace: "secret", Name: "a"}, {Namespace: "ns", Name: "b"}}, "IngotCluster ns/b and a cluster of another namespace"},
		"unknowns":                  {[]types.NamespacedName{{Namespace: "secret", Name: "a"}, {Namespace: "secret", Name: "b"}}, "clusters of other namespaces"},
		"its own, found twice":      {[]types.NamespacedName{{Namespace: "ns", Name: "b"}, {Namespace: "ns", Name: "b"}}, "IngotCluster ns/b"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := ListClusters("ns", tc.clusters); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestTruncateBytes(t *testing.T) {
	for name, tc := range map[string]struct {
		text string
		n    int
		want string
	}{
		"fits":                 {"12345", 5, "12345"},
		"fits in bytes only":   {"üü", 4, "üü"},
		"too long":             {"123456", 5, "12…"},
		"within a character":   {"1üü4567", 5, "1…"},
		"before a character":   {"12üü567", 5, "12…"},
		"one byte of it is in": {"1€€€", 6, "1…"},
		"invalid":              {"a\xff", 10, "a\uFFFD"},
		"invalid, and cut":     {"\xff\xff12345", 7, "\uFFFD1…"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := TruncateBytes(tc.text, tc.n); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestWithDetail(t *testing.T) {
	if got := WithDetail("Cannot reach the BMC: ", "no route\nto host.", ". Ingot retries."); got != "Cannot reach the BMC: no route to host. Ingot retries." {
		t.Error(got)
	}
	long := strings.Repeat("BMC 10.0.0.1: ", 30) + "no route to host.\n"
	got := WithDetail("Cannot reach the BMC: ", long, ".")
	if utf8.RuneCountInString(got) != MaxText || !strings.HasPrefix(got, "Cannot reach the BMC: BMC 10.0.0.1: ") || !strings.HasSuffix(got, "no route to host.") {
		t.Errorf("%d characters, want %d and both ends of the detail: %s", utf8.RuneCountInString(got), MaxText, got)
	}
	if got := WithDetail(strings.Repeat("b", 150), long, strings.Repeat("a", 60)); !strings.Contains(got, "bBMC 10.0.0… hosta") {
		t.Errorf("without room the detail is %s", got)
	}
}
