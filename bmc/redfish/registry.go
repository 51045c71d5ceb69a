// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// registryFileResource is MessageRegistryFile (DSP2046), registryResource
// AttributeRegistry (DSP0268 §AttributeRegistry).
type (
	registryFileResource struct {
		Registry string `json:"Registry"`
		Location []struct {
			Language string `json:"Language"`
			URI      string `json:"Uri"`
		} `json:"Location"`
	}
	registryResource struct {
		Entries struct {
			Attributes []attributeResource `json:"Attributes"`
		} `json:"RegistryEntries"`
	}
	attributeResource struct {
		Name      string        `json:"AttributeName"`
		Type      bmc.ValueKind `json:"Type"`
		ReadOnly  bool          `json:"ReadOnly"`
		Immutable bool          `json:"Immutable"`
		Min       number        `json:"LowerBound"`
		Max       number        `json:"UpperBound"`
		MaxLength number        `json:"MaxLength"`
		Values    []struct {
			Name string `json:"ValueName"`
		} `json:"Value"`
	}
)

// SettingSchemas implements bmc.Settings.
func (c *conn) SettingSchemas(ctx context.Context) (map[string]bmc.SettingSchema, error) {
	c.begin(ctx)
	bios, _, err := c.bios()
	if err == nil {
		var schemas map[string]bmc.SettingSchema
		if schemas, err = c.schemasOf(bios); err == nil {
			return schemas, nil
		}
	}
	return nil, fmt.Errorf("read setting schemas: %w", err)
}

// schemasOf reads the registry that the Bios names. It is not kept: it takes some hundred
// kilobytes, and sessions last as long as hosts are asked for their power state.
func (c *conn) schemasOf(bios biosResource) (map[string]bmc.SettingSchema, error) {
	if bios.Registry == "" || c.root.Registries.ID == "" {
		return nil, lacking("Bios names no registry of its attributes")
	}
	location, err := c.registryLocation(bios.Registry)
	if err != nil {
		return nil, err
	}
	var registry registryResource
	if err := c.getLarge(location, &registry); err != nil {
		return nil, err
	}
	if len(registry.Entries.Attributes) > maxSettings {
		return nil, fmt.Errorf("%w: more than %d attributes in the registry", bmc.ErrProtocol, maxSettings)
	}
	return schemas(registry.Entries.Attributes), nil
}

// registryLocation finds the file of a registry: the member that has its name
// first, then all others, since some names differ from the last segment.
func (c *conn) registryLocation(name string) (string, error) {
	members, err := c.members(c.root.Registries.ID)
	if err != nil {
		return "", err
	}
	bare, _, _ := strings.Cut(name, ".")
	like := func(member string) bool { return strings.HasPrefix(path.Base(member), bare) }
	slices.SortStableFunc(members, func(a, b string) int {
		switch {
		case like(a) && !like(b):
			return -1
		case like(b) && !like(a):
			return 1
		}
		return 0
	})
	for _, member := range members {
		var file registryFileResource
		if err := c.get(member, &file); err != nil {
			if err := optional(err); err != nil {
				return "", err
			}
			continue
		}
		if path.Base(member) != name && file.Registry != name && !strings.HasPrefix(name, file.Registry+".") || file.Registry == "" {
			continue
		}
		for _, english := range []bool{true, false} {
			for _, l := range file.Location {
				if l.URI != "" && (!english || strings.HasPrefix(strings.ToLower(l.Language), "en")) {
					return l.URI, nil
				}
			}
		}
	}
	return "", lacking("the registry of the attributes is not there")
}

func schemas(attributes []attributeResource) map[string]bmc.SettingSchema {
	out := make(map[string]bmc.SettingSchema, len(attributes))
	for _, a := range attributes {
		s := bmc.SettingSchema{Name: a.Name, Kind: a.Type, ReadOnly: a.ReadOnly || a.Immutable}
		switch a.Type {
		case bmc.ValueEnumeration:
			for _, v := range a.Values {
				s.Choices = append(s.Choices, v.Name)
			}
		case bmc.ValueInteger:
			s.Min, s.Max = a.Min.int64(), a.Max.int64()
		case bmc.ValueString:
			s.MaxLength = a.MaxLength.int64()
		case bmc.ValueBoolean:
		default:
			continue // passwords, and what is not known
		}
		if a.Name != "" {
			out[a.Name] = s
		}
	}
	return out
}
