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

// Variables of this extension. The prefix separates them from the variables of other extensions and
// of the ClusterClass.
const (
	VariableControlPlaneHosts = "ingotControlPlaneHostSelector"
	VariableWorkerHosts       = "ingotWorkerHostSelector"
	VariableCleaning          = "ingotCleaning"
	VariableOS                = "ingotOS"
)

// DefaultArchitecture is the architecture of image and host if a selector names none.
const DefaultArchitecture = "amd64"

// definitions returns the variables with their schemas.
func definitions() []clusterv1.ClusterClassVariable {
	variable := func(name string, schema clusterv1.JSONSchemaProps) clusterv1.ClusterClassVariable {
		return clusterv1.ClusterClassVariable{Name: name, Required: ptr.To(false), Schema: clusterv1.VariableSchema{OpenAPIV3Schema: schema}}
	}
	return []clusterv1.ClusterClassVariable{
		variable(VariableControlPlaneHosts, selectorSchema("Hosts for the control plane. The image has their architecture.")),
		variable(VariableWorkerHosts, selectorSchema("Hosts for workers. The image has their architecture.")),
		variable(VariableCleaning, clusterv1.JSONSchemaProps{
			Description: "How Ingot cleans the disks of a server when the cluster releases it. The default is spec.cleaning of its IngotHost.",
			Type:        "string", Enum: []apiextensionsv1.JSON{raw(`"None"`), raw(`"Metadata"`), raw(`"Full"`)},
		}),
		variable(VariableOS, clusterv1.JSONSchemaProps{
			Description: "Operating system of the images (spec.os of IngotImages). The default is the one that the cluster's machines run. A new cluster needs it if the catalog has several.",
			Type:        "string", MinLength: ptr.To[int64](1), MaxLength: ptr.To[int64](63), Example: ptr.To(raw(`"ubuntu-24.04"`)),
		}),
	}
}

func raw(text string) apiextensionsv1.JSON { return apiextensionsv1.JSON{Raw: []byte(text)} }

// selectorSchema returns the schema of an IngotMachine's hostSelector without matchExpressions.
func selectorSchema(description string) clusterv1.JSONSchemaProps {
	quantity := func(description string) clusterv1.JSONSchemaProps {
		return clusterv1.JSONSchemaProps{Description: description, Type: "string", MaxLength: ptr.To[int64](20), Pattern: "^[1-9][0-9]*(G|Gi|T|Ti)$"}
	}
	return clusterv1.JSONSchemaProps{
		Description: description, Type: "object", MinProperties: ptr.To[int64](1), Default: ptr.To(raw(`{"architecture":"` + DefaultArchitecture + `"}`)),
		Properties: map[string]clusterv1.JSONSchemaProps{
			"architecture": {Description: "Architecture as a GOARCH value.", Type: "string", Enum: []apiextensionsv1.JSON{raw(`"amd64"`), raw(`"arm64"`)}},
			"matchLabels": {
				Description: "Labels that the IngotHost must have.", Type: "object", MaxProperties: ptr.To[int64](32),
				AdditionalProperties: &clusterv1.JSONSchemaProps{Type: "string", MaxLength: ptr.To[int64](63)},
			},
			"minimum": {
				Description: "Minimum hardware.", Type: "object", MinProperties: ptr.To[int64](1),
				Properties: map[string]clusterv1.JSONSchemaProps{
					"cores":  {Description: "Physical cores.", Type: "integer", Minimum: ptr.To[int64](1), Maximum: ptr.To[int64](100000)},
					"memory": quantity("Memory as a quantity, for example 64Gi."),
					"disk":   quantity("Size of the root disk as a quantity, for example 480G."),
				},
			},
		},
	}
}

// validators returns the schema validators of the variables by name.
var validators = sync.OnceValues(func() (map[string]validation.SchemaValidator, error) {
	out := map[string]validation.SchemaValidator{}
	for _, v := range definitions() {
		data, err := json.Marshal(v.Schema.OpenAPIV3Schema)
		if err != nil {
			return nil, fmt.Errorf("convert the schema of variable %s: %w", v.Name, err)
		}
		published, internal := &apiextensionsv1.JSONSchemaProps{}, &apiextensions.JSONSchemaProps{}
		if err := json.Unmarshal(data, published); err != nil {
			return nil, fmt.Errorf("convert the schema of variable %s: %w", v.Name, err)
		}
		if err := apiextensionsv1.Convert_v1_JSONSchemaProps_To_apiextensions_JSONSchemaProps(published, internal, nil); err != nil {
			return nil, fmt.Errorf("convert the schema of variable %s: %w", v.Name, err)
		}
		if out[v.Name], _, err = validation.NewSchemaValidator(internal); err != nil {
			return nil, fmt.Errorf("convert the schema of variable %s: %w", v.Name, err)
		}
	}
	return out, nil
})

// Check validates the values of this extension's variables. raw contains values by variable name;
// Check ignores the variables of others.
func Check(raw map[string][]byte) error {
	schemas, err := validators()
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(schemas)) {
		data, ok := raw[name]
		if !ok {
			continue
		}
		var value any
		if json.Unmarshal(data, &value) != nil || value == nil || len(validation.ValidateCustomResource(nil, value, schemas[name])) > 0 {
			return errInvalid(name) // the library's error would contain the value
		}
		// The schema allows unknown fields, which the patches would lose.
		if name == VariableControlPlaneHosts || name == VariableWorkerHosts {
			if _, err := (values{name: data}).selector(name); err != nil {
				return err
			}
		}
	}
	return nil
}

func errInvalid(name string) error {
	return fmt.Errorf("the value of variable %s does not match its schema", name)
}

// values are the variables of a template by name.
type values map[string]json.RawMessage

func (v values) check() error {
	raw := map[string][]byte{}
	for name, value := range v {
		raw[name] = value
	}
	return Check(raw)
}

// merged returns the global variables with those of one template, which take precedence. Cluster
// API splits builtin between both.
func merged(global, own []runtimehooksv1.Variable) values {
	out := values{}
	for _, v := range slices.Concat(global, own) {
		out[v.Name] = v.Value.Raw
	}
	return out
}

// into decodes a variable. If the variable is unset, out stays unchanged.
func (v values) into(name string, out any) error {
	data, ok := v[name]
	if !ok {
		return nil
	}
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.DisallowUnknownFields()
	if name == runtimehooksv1.BuiltinsName {
		decoder = json.NewDecoder(bytes.NewReader(data)) // newer versions of Cluster API add fields
	}
	if err := decoder.Decode(out); err != nil {
		return errInvalid(name) // the decoder's error would contain the value
	}
	return nil
}

// selector decodes a host selector and defaults its architecture.
func (v values) selector(name string) (*infrav1.HostSelector, error) {
	out := &infrav1.HostSelector{}
	if err := v.into(name, out); err != nil {
		return nil, err
	}
	if out.Architecture == "" {
		out.Architecture = DefaultArchitecture
	}
	return out, nil
}
