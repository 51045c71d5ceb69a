// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package validation

import (
	"encoding/json"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// maxColumns is the number of columns next to the name that fits on a terminal.
const maxColumns = 8

// testColumns proves what kubectl get shows: all kinds by one category, few columns with the
// message last, and the image of a template wherever it is written.
func (s *server) testColumns(t *testing.T) {
	definitions := &apiextensionsv1.CustomResourceDefinitionList{}
	if err := s.people["admin"].List(t.Context(), definitions); err != nil {
		t.Fatal(err)
	}
	kinds := 0
	for _, definition := range definitions.Items {
		if definition.Spec.Group != v1beta2.GroupVersion.Group {
			continue
		}
		kinds++
		kind := definition.Spec.Names.Kind
		if !slices.Contains(definition.Spec.Names.Categories, "ingot") {
			t.Errorf("kubectl get ingot does not show %s: its categories are %v", kind, definition.Spec.Names.Categories)
		}
		for _, version := range definition.Spec.Versions {
			checkColumns(t, kind+" "+version.Name, version.AdditionalPrinterColumns)
		}
	}
	if kinds == 0 {
		t.Error("found no CustomResourceDefinition of Ingot")
	}
	for name, tc := range map[string]struct{ spec, want string }{
		"a URL":         {`{image: {url: "http://10.0.0.1/os.raw", checksum: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}`, "http://10.0.0.1/os.raw"},
		"a reference":   {`{imageRef: {name: ubuntu-24.04}}`, "ubuntu-24.04"},
		"a live system": {`{live: {commandLine: "talos.config={dataURL}", kernel: {url: "http://10.0.0.1/vmlinuz", checksum: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}, initrd: {url: "http://10.0.0.1/initrd", checksum: "sha256:e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"}}}`, "http://10.0.0.1/vmlinuz"},
	} {
		t.Run(name, func(t *testing.T) {
			template := &v1beta2.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: "columns", Namespace: "default"}}
			if err := yaml.UnmarshalStrict([]byte(tc.spec), &template.Spec.Template.Spec); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, s.cell(t, "ingotmachinetemplates", template, "Image")); diff != "" {
				t.Errorf("column Image (-want +got):\n%s", diff)
			}
		})
	}
}

// checkColumns checks the number and the order of the default columns.
func checkColumns(t *testing.T, kind string, columns []apiextensionsv1.CustomResourceColumnDefinition) {
	t.Helper()
	var names []string
	for _, column := range columns {
		if column.Priority == 0 {
			names = append(names, column.Name)
		}
	}
	if len(names) > maxColumns {
		t.Errorf("%s has %d default columns, want at most %d: %v", kind, len(names), maxColumns, names)
	}
	if i := slices.Index(names, "Message"); i >= 0 && i != len(names)-1 {
		t.Errorf("%s does not show the message last: %v", kind, names)
	}
}

// cell returns what kubectl get would show of the object in a column. The object is not stored.
func (s *server) cell(t *testing.T, resource string, object client.Object, column string) any {
	t.Helper()
	object.GetObjectKind().SetGroupVersionKind(v1beta2.GroupVersion.WithKind("IngotMachineTemplate"))
	body, err := json.Marshal(object)
	if err != nil {
		t.Fatal(err)
	}
	rest := discovery.NewDiscoveryClientForConfigOrDie(s.cfg).RESTClient()
	answer, err := rest.Post().AbsPath("/apis", v1beta2.GroupVersion.Group, v1beta2.GroupVersion.Version, "namespaces", object.GetNamespace(), resource).
		Param("dryRun", metav1.DryRunAll).SetHeader("Content-Type", "application/json").
		SetHeader("Accept", "application/json;as=Table;v=v1;g=meta.k8s.io").Body(body).DoRaw(t.Context())
	if err != nil {
		t.Fatalf("create: %v: %s", err, answer)
	}
	table := metav1.Table{}
	if err := json.Unmarshal(answer, &table); err != nil {
		t.Fatal(err)
	}
	i := slices.IndexFunc(table.ColumnDefinitions, func(d metav1.TableColumnDefinition) bool { return d.Name == column })
	if i < 0 || len(table.Rows) != 1 {
		t.Fatalf("%d rows, columns %v, want one row with column %s", len(table.Rows), table.ColumnDefinitions, column)
	}
	return table.Rows[0].Cells[i]
}
