// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

const (
	machineTemplate = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachineTemplate","spec":{"template":{"spec":{"imageRef":{"name":"chosen-by-ingot-runtime-extension"}}}}}`
	inlineTemplate  = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachineTemplate","spec":{"template":{"spec":{"image":{"url":"https://x/","checksum":"c"}}}}}`
	liveTemplate    = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotMachineTemplate","spec":{"template":{"spec":{"live":{"commandLine":"c={dataURL}"}}}}}`
	clusterTemplate = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"IngotClusterTemplate","spec":{"template":{"spec":{}}}}`
	foreignTemplate = `{"apiVersion":"infrastructure.cluster.x-k8s.io/v1beta2","kind":"DockerMachineTemplate","spec":{"template":{"spec":{}}}}`
	foreignGroup    = `{"apiVersion":"metal.example/v1","kind":"IngotMachineTemplate","spec":{"template":{"spec":{}}}}`
	ofTheCluster    = `{"cluster":{"name":"c","namespace":"n"}}`
	ofControlPlane  = `{"controlPlane":{"version":"v1.36.1"},"later":1}`
	ofWorkers       = `{"machineDeployment":{"version":"v1.35.9","topologyName":"md-0"}}`
)

func variables(pairs ...string) []runtimehooksv1.Variable {
	var out []runtimehooksv1.Variable
	for i := 0; i < len(pairs); i += 2 {
		out = append(out, runtimehooksv1.Variable{Name: pairs[i], Value: apiextensionsv1.JSON{Raw: []byte(pairs[i+1])}})
	}
	return out
}

// chooseTestImage returns "<version>-<architecture>[-<os>]" of versions of 1.35 and 1.36.
func chooseTestImage(_ []infrav1.IngotImage, w ImageQuery) (string, error) {
	if !strings.HasPrefix(w.Version, "v1.35.") && !strings.HasPrefix(w.Version, "v1.36.") {
		return "", errors.New("no image for " + w.Version)
	}
	return strings.TrimSuffix(w.Version+"-"+w.Architecture+"-"+w.OS, "-"), nil
}

// noTemplates returns the templates of a new Cluster: none.
func noTemplates(context.Context, types.NamespacedName) ([]infrav1.IngotMachineTemplate, error) {
	return nil, nil
}

func TestGeneratePatches(t *testing.T) {
	for name, tc := range map[string]struct {
		template, builtin string
		variables         []runtimehooksv1.Variable
		want, fails       string
	}{
		"control plane": {template: machineTemplate, builtin: ofControlPlane,
			want: `[{"op":"add","path":"/spec/template/spec/imageRef","value":{"name":"v1.36.1-amd64"}},{"op":"add","path":"/spec/template/spec/hostSelector","value":{"architecture":"amd64"}}]`},
		"workers, all said": {template: machineTemplate, builtin: ofWorkers,
			variables: variables("ingotWorkerHostSelector", `{"architecture":"arm64","matchLabels":{"class":"gpu"},"minimum":{"cores":4}}`, "ingotCleaning", `"None"`, "ingotOS", `"flatcar"`, "ingotControlPlaneHostSelector", `{"architecture":"amd64"}`),
			want:      `[{"op":"add","path":"/spec/template/spec/imageRef","value":{"name":"v1.35.9-arm64-flatcar"}},{"op":"add","path":"/spec/template/spec/hostSelector","value":{"matchLabels":{"class":"gpu"},"minimum":{"cores":4},"architecture":"arm64"}},{"op":"add","path":"/spec/template/spec/cleaning","value":"None"}]`},
		"an image is taken away": {template: inlineTemplate, builtin: ofControlPlane,
			want: `[{"op":"remove","path":"/spec/template/spec/image"},{"op":"add","path":"/spec/template/spec/imageRef","value":{"name":"v1.36.1-amd64"}},{"op":"add","path":"/spec/template/spec/hostSelector","value":{"architecture":"amd64"}}]`},
		"a live system, though the catalogue has no image": {template: liveTemplate, builtin: `{"controlPlane":{"version":"v1.37.0"}}`, variables: variables("ingotCleaning", `"Full"`),
			want: `[{"op":"add","path":"/spec/template/spec/hostSelector","value":{"architecture":"amd64"}},{"op":"add","path":"/spec/template/spec/cleaning","value":"Full"}]`},
		"cluster": {template: clusterTemplate, builtin: ofControlPlane, variables: variables("ingotControlPlaneHostSelector", `{"matchLabels":{"class":"small"}}`),
			want: `[{"op":"add","path":"/spec/template/spec/controlPlaneSelector","value":{"matchLabels":{"class":"small"}}}]`},
		"cluster, any host": {template: clusterTemplate, builtin: ofControlPlane},
		"cluster, any host instead of some": {template: strings.Replace(clusterTemplate, `"spec":{}}}`, `"spec":{"controlPlaneSelector":{"matchLabels":{"class":"small"}}}}}`, 1), builtin: ofControlPlane,
			want: `[{"op":"add","path":"/spec/template/spec/controlPlaneSelector","value":{"matchLabels":{}}}]`},
		"everything is so already": {template: strings.Replace(machineTemplate, `{"imageRef":{"name":"chosen-by-ingot-runtime-extension"}}`, `{"imageRef":{"name":"v1.36.1-amd64"},"hostSelector":{"architecture":"amd64"},"cleaning":"Full"}`, 1),
			builtin: ofControlPlane, variables: variables("ingotCleaning", `"Full"`)},
		"only the cleaning changes": {template: strings.Replace(machineTemplate, `{"imageRef":{"name":"chosen-by-ingot-runtime-extension"}}`, `{"imageRef":{"name":"v1.36.1-amd64"},"hostSelector":{"architecture":"amd64"},"cleaning":"Full"}`, 1),
			builtin: ofControlPlane, variables: variables("ingotCleaning", `"None"`), want: `[{"op":"add","path":"/spec/template/spec/cleaning","value":"None"}]`},
		"the version of the old contract": {template: strings.Replace(machineTemplate, "v1beta2", "v1beta1", 1), builtin: ofControlPlane,
			want: `[{"op":"add","path":"/spec/template/spec/imageRef","value":{"name":"v1.36.1-amd64"}},{"op":"add","path":"/spec/template/spec/hostSelector","value":{"architecture":"amd64"}}]`},
		"an unknown version": {template: strings.Replace(machineTemplate, "v1beta2", "v1", 1), builtin: ofControlPlane,
			fails: "the apiVersion of an IngotMachineTemplate must be infrastructure.cluster.x-k8s.io/v1beta2 or infrastructure.cluster.x-k8s.io/v1beta1; correct the templateRef in the ClusterClass"},
		"no kind":                              {template: strings.Replace(machineTemplate, "IngotMachineTemplate", "", 1), builtin: ofControlPlane, fails: "a template in the request has no valid apiVersion and kind"},
		"no way of cleaning":                   {template: machineTemplate, builtin: ofControlPlane, variables: variables("ingotCleaning", `"secret"`), fails: "the value of variable ingotCleaning does not match its schema"},
		"more than a schema admits":            {template: machineTemplate, builtin: ofWorkers, variables: variables("ingotWorkerHostSelector", `{"minimum":{"cores":0}}`), fails: "the value of variable ingotWorkerHostSelector does not match its schema"},
		"a variable of the cluster's template": {template: clusterTemplate, builtin: ofControlPlane, variables: variables("ingotOS", `7`), fails: "the value of variable ingotOS does not match its schema"},
		"a variable of another extension":      {template: clusterTemplate, builtin: ofControlPlane, variables: variables("os", `7`, "cleaning", `[]`)},
		"another provider's":                   {template: foreignTemplate, builtin: ofControlPlane},
		"another group's":                      {template: foreignGroup, builtin: ofControlPlane},
		"machines of no group":                 {template: machineTemplate, builtin: `{"cluster":{"name":"c"}}`, fails: "an IngotMachineTemplate has neither the variable builtin.controlPlane.version nor builtin.machineDeployment.version"},
		"no image":                             {template: machineTemplate, builtin: `{"controlPlane":{"version":"v1.37.0"}}`, fails: "no image for v1.37.0"},
		"a variable of another form":           {template: machineTemplate, builtin: ofControlPlane, variables: variables("ingotControlPlaneHostSelector", `"secret"`), fails: "the value of variable ingotControlPlaneHostSelector does not match its schema"},
		"a variable with other fields":         {template: machineTemplate, builtin: ofWorkers, variables: variables("ingotWorkerHostSelector", `{"secret":1}`), fails: "the value of variable ingotWorkerHostSelector does not match its schema"},
		"builtin of another form":              {template: machineTemplate, builtin: `7`, fails: "the value of variable builtin does not match its schema"},
		"no object":                            {template: `7`, builtin: ofWorkers, fails: "a template in the request is not a JSON object"},
	} {
		t.Run(name, func(t *testing.T) {
			request := &runtimehooksv1.GeneratePatchesRequest{Variables: append(variables("builtin", ofTheCluster), tc.variables...), Items: []runtimehooksv1.GeneratePatchesRequestItem{{
				UID: "1", Object: runtime.RawExtension{Raw: []byte(tc.template)}, Variables: variables("builtin", tc.builtin),
			}}}
			o := Options{Images: func(context.Context) ([]infrav1.IngotImage, error) { return nil, nil }, Choose: chooseTestImage, Templates: noTemplates}
			for range 2 { // the same question has the same answer
				answer := &runtimehooksv1.GeneratePatchesResponse{}
				o.generatePatches(t.Context(), request, answer)
				got := ""
				if len(answer.Items) > 0 {
					got = string(answer.Items[0].Patch)
				}
				if diff := cmp.Diff(tc.want, got); diff != "" || answer.Message != tc.fails {
					t.Errorf("message %q, patch (-want +got):\n%s", answer.Message, diff)
				}
				if failed := answer.Status == runtimehooksv1.ResponseStatusFailure; failed != (tc.fails != "") {
					t.Errorf("status %s", answer.Status)
				}
			}
		})
	}
}

// The variables of a template override the cluster's.
func TestOverrides(t *testing.T) {
	request := &runtimehooksv1.GeneratePatchesRequest{Variables: variables("ingotWorkerHostSelector", `{"architecture":"amd64"}`), Items: []runtimehooksv1.GeneratePatchesRequestItem{{
		UID: "1", Object: runtime.RawExtension{Raw: []byte(machineTemplate)}, Variables: variables("builtin", ofWorkers, "ingotWorkerHostSelector", `{"architecture":"arm64"}`),
	}}}
	items, err := generate(request, func(w ImageQuery, _ string) (string, error) { return w.Architecture, nil })
	if err != nil || len(items) != 1 || !strings.Contains(string(items[0].Patch), `"name":"arm64"`) {
		t.Errorf("%v %v", items, err)
	}
}

// An unreadable catalog gives a stable message without the API server's error.
func TestCatalogUnreadable(t *testing.T) {
	o := Options{Choose: chooseTestImage, Images: func(context.Context) ([]infrav1.IngotImage, error) { return nil, errors.New("dial 192.0.2.1") }}
	answer := &runtimehooksv1.GeneratePatchesResponse{}
	o.generatePatches(t.Context(), &runtimehooksv1.GeneratePatchesRequest{Variables: variables("builtin", ofTheCluster), Items: []runtimehooksv1.GeneratePatchesRequestItem{{
		Object: runtime.RawExtension{Raw: []byte(machineTemplate)}, Variables: variables("builtin", ofWorkers),
	}}}, answer)
	if answer.Status != runtimehooksv1.ResponseStatusFailure || answer.Message != errCatalog.Error() {
		t.Errorf("%s %s", answer.Status, answer.Message)
	}
}

func TestValidateTopology(t *testing.T) {
	spec := func(fields string) string {
		return strings.Replace(machineTemplate, `"imageRef":{"name":"chosen-by-ingot-runtime-extension"}`, fields, 1)
	}
	const good = `"imageRef":{"name":"i"},"hostSelector":{"architecture":"amd64"}`
	for name, tc := range map[string]struct {
		template string
		global   []runtimehooksv1.Variable
		want     []string
	}{
		"good":            {template: spec(good)},
		"inline image":    {template: inlineTemplate},
		"live system":     {template: liveTemplate},
		"live and a ref":  {template: spec(`"live":{"commandLine":"c"},"imageRef":{"name":"i"}`), want: []string{"live and image or imageRef are both set"}},
		"live and image":  {template: spec(`"live":{"commandLine":"c"},"image":{"url":"https://x/"}`), want: []string{"live and image or imageRef are both set"}},
		"another's":       {template: foreignTemplate},
		"placeholder":     {template: machineTemplate, want: []string{"MachineDeployment md-0: no image is set"}},
		"no image":        {template: spec(`"cleaning":"None"`), want: []string{"no image is set"}},
		"two images":      {template: spec(`"imageRef":{"name":"i"},"image":{"url":"https://x/"}`), want: []string{"image and imageRef are both set"}},
		"one name of all": {template: spec(good + `,"hostname":"one"`), want: []string{`hostname "one"`}},
		"bad selector":    {template: spec(`"imageRef":{"name":"i"},"hostSelector":{"matchLabels":{"a b":"c"}}`), want: []string{"hostSelector is not a valid label selector"}},
		"another form":    {template: spec(`"imageRef":7`), want: []string{"is not the spec of an IngotMachine"}},
		"bad variable":    {template: spec(good), global: variables("ingotWorkerHostSelector", "7"), want: []string{"variable ingotWorkerHostSelector"}},
		"all at once":     {template: spec(`"hostname":"one"`), global: variables("ingotWorkerHostSelector", "7"), want: []string{"no image", "hostname", "variable"}},
		"no object":       {template: "7", want: []string{"is not a JSON object"}},
	} {
		t.Run(name, func(t *testing.T) {
			answer := &runtimehooksv1.ValidateTopologyResponse{}
			validateTopology(t.Context(), &runtimehooksv1.ValidateTopologyRequest{Variables: tc.global, Items: []*runtimehooksv1.ValidateTopologyRequestItem{nil, {
				HolderReference: runtimehooksv1.HolderReference{Kind: "MachineDeployment", Name: "md-0"}, Object: runtime.RawExtension{Raw: []byte(tc.template)},
			}}}, answer)
			if (answer.Status == runtimehooksv1.ResponseStatusSuccess) != (len(tc.want) == 0) {
				t.Errorf("%s %q", answer.Status, answer.Message)
			}
			for _, want := range tc.want {
				if !strings.Contains(answer.Message, want) {
					t.Errorf("%q lacks %q", answer.Message, want)
				}
			}
		})
	}
}

// The schemas allow what the patches read, and every field has a description.
func TestDiscoverVariables(t *testing.T) {
	answer := &runtimehooksv1.DiscoverVariablesResponse{}
	discoverVariables(t.Context(), nil, answer)
	var names []string
	for _, v := range answer.Variables {
		names = append(names, v.Name)
		schema := v.Schema.OpenAPIV3Schema
		if schema.Description == "" || v.Required == nil || *v.Required {
			t.Errorf("%s: %+v", v.Name, schema)
		}
		walk(t, v.Name, schema)
		if schema.Default == nil {
			continue
		}
		if err := (values{v.Name: schema.Default.Raw}).into(v.Name, &infrav1.HostSelector{}); err != nil {
			t.Errorf("default of %s: %v", v.Name, err)
		}
	}
	if diff := cmp.Diff([]string{"ingotControlPlaneHostSelector", "ingotWorkerHostSelector", "ingotCleaning", "ingotOS"}, names); diff != "" {
		t.Error(diff)
	}
}

func walk(t *testing.T, path string, schema clusterv1.JSONSchemaProps) {
	t.Helper()
	for _, value := range schema.Enum {
		if !json.Valid(value.Raw) {
			t.Errorf("%s: enum %s", path, value.Raw)
		}
	}
	for name, child := range schema.Properties {
		if child.Description == "" {
			t.Errorf("%s.%s has no description", path, name)
		}
		walk(t, path+"."+name, child)
	}
}

// Machines keep the operating system of their templates when the catalog gets another. If it is
// unknown, the request fails.
func TestOSInUse(t *testing.T) {
	image := func(name, os string) infrav1.IngotImage {
		i := infrav1.IngotImage{Spec: infrav1.IngotImageSpec{KubernetesVersion: "v1.36.1", Architecture: "amd64", OS: os}}
		i.Name = name
		return i
	}
	template := func(deployment, image string) infrav1.IngotMachineTemplate {
		m := infrav1.IngotMachineTemplate{}
		if deployment != "" {
			m.Labels = map[string]string{clusterv1.ClusterTopologyMachineDeploymentNameLabel: deployment}
		}
		m.Spec.Template.Spec.ImageRef = &infrav1.ImageReference{Name: image}
		return m
	}
	images := []infrav1.IngotImage{image("debian", "debian-13"), image("ubuntu", "ubuntu-24.04"), image("ubuntu-2", "ubuntu-24.04")}
	const workers = `{"machineDeployment":{"version":"v1.36.1","topologyName":"md-0"}}`
	several := "IngotImages of several operating systems for Kubernetes v1.36.1 on amd64: debian-13, ubuntu-24.04; set the variable ingotOS to one of them"
	for name, tc := range map[string]struct {
		images          []infrav1.IngotImage
		templates       []infrav1.IngotMachineTemplate
		builtin, system string
		want, fails     string
	}{
		"a new Cluster":                     {images: images, builtin: ofControlPlane, fails: several},
		"a new Cluster that says which":     {images: images, builtin: ofControlPlane, system: `"debian-13"`, want: `"name":"debian"`},
		"a new Cluster, one system":         {images: images[1:], builtin: ofControlPlane, want: `"name":"ubuntu"`},
		"the control plane's own":           {images: images, templates: []infrav1.IngotMachineTemplate{template("", "ubuntu-2"), template("md-0", "debian")}, builtin: ofControlPlane, want: `"name":"ubuntu-2"`},
		"the workers' own":                  {images: images, templates: []infrav1.IngotMachineTemplate{template("", "ubuntu"), template("md-0", "debian")}, builtin: workers, want: `"name":"debian"`},
		"new workers, as all others":        {images: images, templates: []infrav1.IngotMachineTemplate{template("", "ubuntu"), template("md-1", "ubuntu")}, builtin: workers, want: `"name":"ubuntu"`},
		"new workers, beside two systems":   {images: images, templates: []infrav1.IngotMachineTemplate{template("", "ubuntu"), template("md-1", "debian")}, builtin: workers, fails: several},
		"an upgrade to another system only": {images: append(images[:1:1], infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: "old"}, Spec: infrav1.IngotImageSpec{KubernetesVersion: "v1.35.0", Architecture: "amd64", OS: "ubuntu-24.04"}}), templates: []infrav1.IngotMachineTemplate{template("", "old")}, builtin: ofControlPlane, fails: "no IngotImage for Kubernetes v1.36.1 on amd64 with ubuntu-24.04; add one to the catalog"},
		"asked for another system":          {images: images, templates: []infrav1.IngotMachineTemplate{template("", "ubuntu")}, builtin: ofControlPlane, system: `"debian-13"`, want: `"name":"debian"`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []types.NamespacedName
			o := Options{
				Images: func(context.Context) ([]infrav1.IngotImage, error) { return tc.images, nil },
				Templates: func(_ context.Context, cluster types.NamespacedName) ([]infrav1.IngotMachineTemplate, error) {
					asked = append(asked, cluster)
					return tc.templates, nil
				},
				Choose: func(images []infrav1.IngotImage, w ImageQuery) (string, error) {
					image, err := inventory.ChooseImage(images, inventory.ImageQuery{KubernetesVersion: w.Version, Architecture: w.Architecture, OS: w.OS})
					if err != nil {
						return "", err
					}
					return image.Name, nil
				},
			}
			request := &runtimehooksv1.GeneratePatchesRequest{Variables: variables("builtin", ofTheCluster), Items: []runtimehooksv1.GeneratePatchesRequestItem{{
				UID: "1", Object: runtime.RawExtension{Raw: []byte(machineTemplate)}, Variables: variables("builtin", tc.builtin),
			}}}
			if tc.system != "" {
				request.Variables = append(request.Variables, variables("ingotOS", tc.system)...)
			}
			answer := &runtimehooksv1.GeneratePatchesResponse{}
			o.generatePatches(t.Context(), request, answer)
			got := ""
			if len(answer.Items) > 0 {
				got = string(answer.Items[0].Patch)
			}
			if answer.Message != tc.fails || !strings.Contains(got, tc.want) || (got == "") != (tc.fails != "") {
				t.Errorf("message %q, patch %s", answer.Message, got)
			}
			if diff := cmp.Diff([]types.NamespacedName{{Namespace: "n", Name: "c"}}, asked); diff != "" {
				t.Errorf("whose templates (-want +got):\n%s", diff)
			}
		})
	}
}

// A group keeps its image while it matches: a new image in the catalog rolls out no machine.
func TestImageIsKept(t *testing.T) {
	image := func(name, version, arch, os string) infrav1.IngotImage {
		return infrav1.IngotImage{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: infrav1.IngotImageSpec{KubernetesVersion: version, Architecture: arch, OS: os}}
	}
	template := func(name, image string, age int64) infrav1.IngotMachineTemplate {
		m := infrav1.IngotMachineTemplate{ObjectMeta: metav1.ObjectMeta{Name: name, CreationTimestamp: metav1.Unix(age, 0)}}
		m.Spec.Template.Spec.ImageRef = &infrav1.ImageReference{Name: image}
		return m
	}
	first, used := image("a", "v1.36.1", "amd64", "os"), image("b", "v1.36.1", "amd64", "os")
	gone := image("b", "v1.36.1", "amd64", "os")
	gone.DeletionTimestamp = new(metav1.Now())
	for name, tc := range map[string]struct {
		images    []infrav1.IngotImage
		templates []infrav1.IngotMachineTemplate
		want      string
	}{
		"chosen, the first by name":     {[]infrav1.IngotImage{used, first}, nil, "a"},
		"kept":                          {[]infrav1.IngotImage{first, used}, []infrav1.IngotMachineTemplate{template("t", "b", 1)}, "b"},
		"its image is gone":             {[]infrav1.IngotImage{first}, []infrav1.IngotMachineTemplate{template("t", "b", 1)}, "a"},
		"its image is being deleted":    {[]infrav1.IngotImage{first, gone}, []infrav1.IngotMachineTemplate{template("t", "b", 1)}, "a"},
		"its image has another version": {[]infrav1.IngotImage{first, image("b", "v1.36.0", "amd64", "os")}, []infrav1.IngotMachineTemplate{template("t", "b", 1)}, "a"},
		"the newest of two templates":   {[]infrav1.IngotImage{first, used}, []infrav1.IngotMachineTemplate{template("t", "a", 1), template("s", "b", 2)}, "b"},
		"of equally old ones the first": {[]infrav1.IngotImage{first, used}, []infrav1.IngotMachineTemplate{template("t", "a", 1), template("s", "b", 1)}, "b"},
	} {
		t.Run(name, func(t *testing.T) {
			o := Options{
				Images: func(context.Context) ([]infrav1.IngotImage, error) { return tc.images, nil },
				Templates: func(context.Context, types.NamespacedName) ([]infrav1.IngotMachineTemplate, error) {
					return tc.templates, nil
				},
				Choose: func(images []infrav1.IngotImage, w ImageQuery) (string, error) {
					image, err := inventory.ChooseImage(images, inventory.ImageQuery{KubernetesVersion: w.Version, Architecture: w.Architecture, OS: w.OS})
					if err != nil {
						return "", err
					}
					return image.Name, nil
				},
			}
			answer := &runtimehooksv1.GeneratePatchesResponse{}
			o.generatePatches(t.Context(), &runtimehooksv1.GeneratePatchesRequest{Variables: variables("builtin", ofTheCluster), Items: []runtimehooksv1.GeneratePatchesRequestItem{{
				UID: "1", Object: runtime.RawExtension{Raw: []byte(machineTemplate)}, Variables: variables("builtin", ofControlPlane),
			}}}, answer)
			if len(answer.Items) != 1 || !strings.Contains(string(answer.Items[0].Patch), `imageRef","value":{"name":"`+tc.want+`"}`) {
				t.Errorf("%s %s %v, want image %s", answer.Status, answer.Message, answer.Items, tc.want)
			}
		})
	}
}
