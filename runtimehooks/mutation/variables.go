// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"

	"k8s.io/apiextensions-apiserver/pkg/apis/apiextensions"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apiextensions-apiserver/pkg/apiserver/validation"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Variables that this package gives a ClusterClass. Their prefix keeps them apart from
// variables of other extensions and of the class itself.
const (
	VariableControlPlaneHosts = "ingotControlPlaneHostSelector"
	VariableWorkerHosts       = "ingotWorkerHostSelector"
	VariableCleaning          = "ingotCleaning"
	VariableOS                = "ingotOS"
)

// DefaultArchitecture is taken where a selector names none: an image is of one, and
// its host must be of the same.
const DefaultArchitecture = "amd64"

// definitions are the variables with their schemas.
func definitions() []clusterv1.ClusterClassVariable {
	variable := func(name string, schema clusterv1.JSONSchemaProps) clusterv1.ClusterClassVariable {
		return clusterv1.ClusterClassVariable{Name: name, Required: ptr.To(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}
	}
	return []clusterv1.ClusterClassVariable{
		variable(VariableControlPlaneHosts, selectorSchema("Which hosts may be control planes. The image is of their architecture.")),
		variable(VariableWorkerHosts, selectorSchema("Which hosts may be workers. The image is of their architecture.")),
		variable(VariableCleaning, clusterv1.JSONSchemaProps{
			Description: "What is done to the disks of a server when the cluster lets it go. Unset: what its IngotHost says.",
			Type:        "string", Enum: []apiextensionsv1.JSON{raw(`"None"`), raw(`"Metadata"`), raw(`"Full"`)},
		}),
		variable(VariableOS, clusterv1.JSONSchemaProps{
			Description: "Operating system of the images, as IngotImages have it. Unset: the one that the cluster's machines run; of a new cluster any, where the catalogue has but one.",
			Type:        "string", MinLength: ptr.To[int64](1), MaxLength: ptr.To[int64](63), Example: ptr.To(raw(`"ubuntu-24.04"`)),
		}),
	}
}

func raw(text string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(text)} }

// selectorSchema is that of an IngotMachine's hostSelector, without expressions.
func selectorSchema(description string) clusterv1.JSONSchemaProps {
	number := func(description string, most int64) clusterv1.JSONSchemaProps {
		return clusterv1.JSONSchemaProps{Description: description, Type: "integer", Minimum: ptr.To[int64](1), Maximum: ptr.To(most)}
	}
	return clusterv1.JSONSchemaProps{
		Description: description, Type: "object", MinProperties: ptr.To[int64](1), Default: ptr.To(raw(`{"arch":"` + DefaultArchitecture + `"}`)),
		Properties: map[string]clusterv1.JSONSchemaProps{
			"arch": {Description: "Architecture in Go's terms.", Type: "string", Enum: []apiextensionsv1.JSON{raw(`"amd64"`), raw(`"arm64"`)}},
			"matchLabels": {
				Description: "Labels that the IngotHost must have.", Type: "object", MaxProperties: ptr.To[int64](32),
				AdditionalProperties: &clusterv1.JSONSchemaProps{Type: "string", MaxLength: ptr.To[int64](63)},
			},
			"minimum": {
				Description: "The least hardware.", Type: "object", MinProperties: ptr.To[int64](1),
				Properties: map[string]clusterv1.JSONSchemaProps{
					"cores":     number("Physical cores.", 100000),
					"memoryGiB": number("Memory in GiB.", 1000000),
					"diskGB":    number("Size of the disk to install to, in 10^9 bytes.", 10000000),
				},
			},
		},
	}
}

// validators check the values of the variables, by name.
var validators = sync.OnceValues(func() (map[string]validation.SchemaValidator, error) {
	out := map[string]validation.SchemaValidator{}
	for _, v := range definitions() {
		data, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
		published, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
		if err := json.Unmarshal(data, published); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(published, internal, nil); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
		if out[v.Name], _, err = validation.NewSchemaValidator(internal); err != nil {
			return nil, fmt.Errorf("schema of %s: %w", v.Name, err)
		}
	}
	return out, nil
})

// Check refuses values of this package's variables that their schemas do not admit. raw has
// values by the variable's name; names of others are left alone.
func Check(raw map[string][]byte) error {
	of, err := validators()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(of)) {
		data, ok := raw[name]
		if !ok {
			continue
		}
		var value any
		if json.Unmarshal(data, &value) != nil || value == nil || len(validation.ValidateCustomResource(nil, value, of[name])) > 0 {
			return errForm(name) // the library's error would repeat a value
		}
		// A schema admits fields that it does not know; the patches would not carry them.
		if name != VariableControlPlaneHosts && name != VariableWorkerHosts {
			continue
		}
		if _, err := (values{name: data}).selector(name); err != nil {
			return err
		}
	}
	return nil
}

// errForm refuses the value of a variable.
func errForm(name string) error {
	return fmt.Errorf("variable %s does not have the form of its schema", name)
}

// values are a template's variables, by name.
type values map[string]json.RawMessage

// check refuses values that the schemas do not admit.
func (v values) check() error {
	raw := map[string][]byte{}
	for name, value := range v {
		raw[name] = value
	}
	return Check(raw)
}

// merged are the global variables with those of one template over them. What Cluster
// API gives as builtin is in both, in parts.
func merged(global, own []runtimehooksv1.Variable) values {
	out := values{}
	for _, v := range global {
		out[v.Name] = v.Value.Raw
	}
	for _, v := range own {
		out[v.Name] = v.Value.Raw
	}
	return out
}

// into decodes a variable; a variable that is not set leaves what is there.
func (v values) into(name string, out any) error {
	data, ok := v[name]
	if !ok {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if name == runtimehooksv1.BuiltinsName {
		decoder = json.NewDecoder(bytes.NewReader(data)) // a later Cluster API knows more
	}
	if err := decoder.Decode(out); err != nil {
		return errForm(name) // the error would repeat a value
	}
	return nil
}

// selector reads one of the two selectors, with an architecture.
func (v values) selector(name string) (*infrav1.HostSelector, error) {
	out := &infrav1.HostSelector{}
	if err := v.into(name, out); err != nil {
		return nil, err
	}
	if out.Arch == "" {
		out.Arch = DefaultArchitecture
	}
	return out, nil
}
