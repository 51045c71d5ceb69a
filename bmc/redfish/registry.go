// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"context"
	"fmt"
	"path"
	"regexp"
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
		ID      string `json:"Id"`
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

// schemasOf reads the registry of the attributes. It is not kept: it takes some hundred
// kilobytes, and sessions last as long as hosts are asked for their power state.
//
// Up to four places name a registry, and makers write its version differently in each, or
// leave Bios without a name. So all that have the name but for its version are looked at, and
// the best is taken: one whose own Id, or whose file, is what Bios names, or else the only one.
// Where no file has the name (sushy-tools), BIOS registries are looked at for their Id.
func (c *conn) schemasOf(bios biosResource) (map[string]bmc.SettingSchema, error) {
	if c.root.Registries.ID == "" {
		return nil, lacking("the BMC has no registries")
	}
	files, err := c.registryFiles(bios.Registry)
	if err != nil {
		return nil, err
	}
	byID := len(files) == 0 && bios.Registry != ""
	if byID {
		if files, err = c.registryFiles(""); err != nil {
			return nil, err
		}
	}
	var found []registryResource
	for _, f := range files {
		var registry registryResource
		if err := c.getLarge(f.uri, &registry); err != nil {
			if optional(err) != nil {
				return nil, err
			}
			continue
		}
		if len(registry.Entries.Attributes) > maxSettings {
			return nil, fmt.Errorf("%w: more than %d attributes in the registry", bmc.ErrProtocol, maxSettings)
		}
		if len(registry.Entries.Attributes) == 0 {
			continue
		}
		if f.exact || registry.ID == bios.Registry {
			return schemas(registry.Entries.Attributes), nil
		}
		if !byID || likeness(registry.ID, bios.Registry) > 0 {
			found = append(found, registry)
		}
	}
	switch len(found) {
	case 0:
		return nil, lacking("the registry of the attributes is not there")
	case 1:
		return schemas(found[0].Entries.Attributes), nil
	}
	return nil, lacking("several registries may be that of the attributes, and Bios names none of them")
}

// maxRegistries bounds those that are read to find the one of the attributes.
const maxRegistries = 4

// registryFile is where a registry is; exact: a name of the file is the one that Bios has.
type registryFile struct {
	uri   string
	exact bool
}

// registryFiles finds the files of the registries that may be the one of a name, exact ones
// first.
func (c *conn) registryFiles(name string) ([]registryFile, error) {
	members, err := c.members(c.root.Registries.ID)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, func(a, b string) int { return likeness(path.Base(b), name) - likeness(path.Base(a), name) })
	var files []registryFile
	var unread error
	for _, member := range members {
		if len(files) > 0 && likeness(path.Base(member), name) == 0 {
			break // sorted, and what is left is of other names
		}
		var file registryFileResource
		if err := c.get(member, &file); err != nil {
			if optional(err) != nil && !brokeDown(err) {
				return nil, err
			}
			unread = cmp.Or(unread, optional(err))
			continue
		}
		like := max(likeness(path.Base(member), name), likeness(file.Registry, name))
		if uri := file.uri(); like > 0 && uri != "" {
			files = append(files, registryFile{uri, like == 2})
		}
	}
	if len(files) == 0 && unread != nil {
		return nil, unread
	}
	slices.SortStableFunc(files, func(a, b registryFile) int { return order(b.exact) - order(a.exact) })
	return files[:min(len(files), maxRegistries)], nil
}

func order(first bool) int {
	if first {
		return 1
	}
	return 0
}

// uri is where the registry is, in English where there is a choice.
func (f registryFileResource) uri() string {
	for _, english := range []bool{true, false} {
		for _, l := range f.Location {
			if l.URI != "" && (!english || strings.HasPrefix(strings.ToLower(l.Language), "en")) {
				return l.URI
			}
		}
	}
	return ""
}

// likeness of a registry's name to the one that Bios has: 2 the same, 1 the same but for the
// version, 0 another. Without a name of Bios', what is called a BIOS registry is like it.
func likeness(is, wanted string) int {
	switch {
	case wanted == "" && strings.Contains(strings.ToLower(is), "biosattribute"):
		return 1
	case is == "" || wanted == "":
		return 0
	case is == wanted:
		return 2
	case strings.EqualFold(stem(is), stem(wanted)):
		return 1
	}
	return 0
}

// version is how a registry's name may end: ".v1_0_3", ".1.0.0", "1.0".
var version = regexp.MustCompile(`[._]?v?[0-9]+([._][0-9]+)+(\.json)?$`)

// stem is a registry's name without its version.
func stem(name string) string { return version.ReplaceAllString(name, "") }

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
