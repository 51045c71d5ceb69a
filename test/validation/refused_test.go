// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"flag"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

var update = flag.Bool("update", false, "write the answers of the API server into the tables")

// Everything that goes through the API server shares one.
func TestServer(t *testing.T) {
	s := start(t)
	s.createValid(t)
	t.Run("Refused", func(t *testing.T) {
		for kind, cases := range readCases(t) {
			t.Run(kind, func(t *testing.T) { s.testRefused(t, kind, cases) })
		}
	})
	t.Run("Accepted", s.testAccepted)
	t.Run("Warned", s.testWarned)
	t.Run("Defaulted", s.testDefaulted)
	t.Run("Topology", s.testTopology)
	t.Run("InPlace", s.testInPlace)
	t.Run("Untouched", s.testUntouched)
	t.Run("DeletedTogether", s.testDeletedTogether)
	t.Run("Impersonated", s.testImpersonated)
	t.Run("Moved", s.testMoved)
	t.Run("MovedTooEarly", s.testMovedTooEarly)
	t.Run("Converted", s.testConverted)
	t.Run("Columns", s.testColumns)
	t.Run("Book", s.testBook)
}

// createValid creates every valid object, each as the least that may: it proves
// that they are let in, and they stay for the cases to change.
func (s *server) createValid(t *testing.T) {
	t.Helper()
	files, err := filepath.Glob("testdata/valid/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no valid objects: %v", err)
	}
	// Networks first, so that hosts need no warning.
	slices.SortFunc(files, func(a, b string) int {
		network := func(s string) int { return strings.Count(s, "ingotnetwork") }
		if d := network(b) - network(a); d != 0 {
			return d
		}
		return strings.Compare(a, b)
	})
	hosts, networksMade := 0, 0
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".yaml")
		who := operatorUser
		switch name {
		case "ingothost-maximal", "ingotmachine-maximal", "ingothardware-minimal", "ingothardware-maximal":
			who = restorerUser
		}
		if strings.HasPrefix(name, "ingothost-") {
			hosts++
		}
		if strings.HasPrefix(name, "ingotnetwork-") {
			networksMade++
		}
		if err := s.people[who].Create(t.Context(), readValid(t, name)); err != nil {
			t.Fatalf("%s creates the valid %s: %v", who, name, err)
		}
	}
	cluster := &v1beta2.IngotCluster{}
	admin := s.people["admin"]
	if err := admin.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "c1"}, cluster); err != nil {
		t.Fatal(err)
	}
	cluster.Status.Initialization.Provisioned = new(true)
	if err := admin.Status().Update(t.Context(), cluster); err != nil {
		t.Fatal(err)
	}
	waitFor(t, "the webhooks' cache holds all that they read", func() bool {
		list, networks := &v1beta2.IngotHostList{}, &v1beta2.IngotNetworkList{}
		hardware, clusters := &v1beta2.IngotHardwareList{}, &v1beta2.IngotClusterList{}
		return s.cache.List(t.Context(), list) == nil && len(list.Items) == hosts &&
			s.cache.List(t.Context(), networks) == nil && len(networks.Items) == networksMade &&
			s.cache.List(t.Context(), hardware) == nil && len(hardware.Items) == 2 &&
			s.cache.List(t.Context(), clusters) == nil && len(clusters.Items) == 2
	})
}

func (s *server) testRefused(t *testing.T, kind string, cases []testCase) {
	for i := range cases {
		c := &cases[i]
		t.Run(c.name, func(t *testing.T) {
			object := readValid(t, c.Base)
			object.SetAPIVersion(v1beta2.GroupVersion.Group + "/" + c.Version)
			err := s.try(t, *c, object)
			if err == nil {
				t.Fatal("was accepted")
			}
			got := strings.TrimSpace(err.Error())
			checkWords(t, *c, object, got)
			if *update {
				c.want = got
			} else if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("refusal (-want +got), -update writes it anew:\n%s", diff)
			}
		})
	}
	if *update {
		writeCases(t, kind, cases)
	}
}

// try makes the change of the case to object and sends it as a dry run, which
// admission sees like any other request; real-update alone is none.
func (s *server) try(t *testing.T, c testCase, object *unstructured.Unstructured) error {
	t.Helper()
	who := s.people[c.As]
	if who == nil {
		t.Fatalf("nobody is called %s", c.As)
	}
	if c.Op == "create" {
		c.apply(t, object)
		return who.Create(t.Context(), object, client.DryRunAll)
	}
	if err := s.people["admin"].Get(t.Context(), client.ObjectKeyFromObject(object), object); err != nil {
		t.Fatal(err)
	}
	if c.Op == "merge" || c.Op == "apply" {
		change := c.only(t, object)
		c.apply(t, object) // what was asked for, for the words of the refusal
		if c.Op == "merge" {
			return who.Patch(t.Context(), change, client.RawPatch(types.MergePatchType, c.merge(t)), client.DryRunAll)
		}
		return who.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(change), client.DryRunAll,
			client.FieldOwner("somebody"), client.ForceOwnership)
	}
	c.apply(t, object)
	switch c.Op {
	case "real-update":
		return who.Update(t.Context(), object)
	case "update":
		return who.Update(t.Context(), object, client.DryRunAll)
	case "delete":
		return who.Delete(t.Context(), object, client.DryRunAll)
	}
	t.Fatalf("unknown op %s", c.Op)
	return nil
}

// remedy matches what tells a person what would be right.
var remedy = regexp.MustCompile(`(?i)must|should|may not|supported values|required|remove|create|correct|leave|delete|\bset\b|\buse\b|swap|set it back|` +
	`give|write|use that|use another|reserve another|annotate|label it|roll out|start at|end at|unknown field|duplicate value`)

// checkWords demands that the refusal names field, value and remedy.
func checkWords(t *testing.T, c testCase, object *unstructured.Unstructured, got string) {
	t.Helper()
	// Cluster API's own checks name a map, but not the key in it.
	mapOnly := regexp.MustCompile(`\[[^\]]*[^\]0-9][^\]]*\]$`).ReplaceAllString(c.Field, "")
	if !strings.Contains(got, mapOnly) {
		t.Errorf("the refusal does not name the field %s: %s", c.Field, got)
	}
	if !remedy.MatchString(got) {
		t.Errorf("the refusal names no remedy: %s", got)
	}
	value, ok := get(object.Object, segments(c.Field))
	if c.Secret != "" {
		if strings.Contains(got, c.Secret) {
			t.Errorf("the refusal repeats the secret %q: %s", c.Secret, got)
		}
		return
	}
	if !ok || strings.Contains(got, "Too long") || strings.Contains(got, "Too many") || strings.Contains(got, "must be of type") {
		return // nothing to name, too much of it, or its type instead
	}
	switch v := value.(type) {
	case string, bool, int64, float64:
		text, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(got, string(text)) && !strings.Contains(got, fmt.Sprint(v)) {
			t.Errorf("the refusal does not name the value %s: %s", text, got)
		}
	}
}
