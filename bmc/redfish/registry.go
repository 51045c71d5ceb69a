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

// registryFileResource is MessageRegistryFile (DSP2046), registryResource is AttributeRegistry
// (DSP0268 §AttributeRegistry).
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
func (c *conn) SettingSchemas(ctx context.Context) (_ map[string]bmc.SettingSchema, err error) {
	c.begin(ctx)
	defer wrap(&err, "read setting schemas")
	bios, _, err := c.bios()
	if err != nil {
		return nil, err
	}
	return c.schemasOf(bios)
}

// schemasOf reads the attribute registry. It does not cache it: a registry takes hundreds of
// kilobytes, and a session is kept as long as its host is polled.
//
// Up to four places name a registry, and vendors write its version differently in each or leave
// the name out of Bios. So schemasOf reads every registry whose name matches without the version.
// It takes the one whose Id or file name is the name in Bios, or else the only one. If no file has
// the name (sushy-tools), it compares the Id of the BIOS registries.
func (c *conn) schemasOf(bios biosResource) (map[string]bmc.SettingSchema, error) {
	if c.root.Registries.ID == "" {
		return nil, notSupported("the BMC has no registries")
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
			if ignoreUnsupported(err) != nil {
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
		if f.match == 2 || registry.ID == bios.Registry {
			return schemas(registry.Entries.Attributes), nil
		}
		if !byID || nameMatch(registry.ID, bios.Registry) > 0 {
			found = append(found, registry)
		}
	}
	switch len(found) {
	case 0:
		return nil, notSupported("the attribute registry was not found")
	case 1:
		return schemas(found[0].Entries.Attributes), nil
	}
	return nil, notSupported("several registries may be the attribute registry, and Bios names none of them")
}

// maxRegistries bounds the registries that are read to find the right one.
const maxRegistries = 4

// registryFile is the location of a registry. match is nameMatch of its name.
type registryFile struct {
	uri   string
	match int
}

// registryFiles returns the registries that may have a name, exact matches first.
func (c *conn) registryFiles(name string) ([]registryFile, error) {
	members, err := c.members(c.root.Registries.ID)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(members, func(a, b string) int { return nameMatch(path.Base(b), name) - nameMatch(path.Base(a), name) })
	var files []registryFile
	var unread error
	for _, member := range members {
		if len(files) > 0 && nameMatch(path.Base(member), name) == 0 {
			break // sorted: the rest have other names
		}
		var file registryFileResource
		if err := c.get(member, &file); err != nil {
			if ignoreUnsupported(err) != nil && !brokeDown(err) {
				return nil, err
			}
			unread = cmp.Or(unread, ignoreUnsupported(err))
			continue
		}
		match := max(nameMatch(path.Base(member), name), nameMatch(file.Registry, name))
		if uri := file.uri(); match > 0 && uri != "" {
			files = append(files, registryFile{uri, match})
		}
	}
	if len(files) == 0 && unread != nil {
		return nil, unread
	}
	slices.SortStableFunc(files, func(a, b registryFile) int { return b.match - a.match })
	return files[:min(len(files), maxRegistries)], nil
}

// uri returns the location of the registry, preferably the English one.
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

// nameMatch compares the name of a registry with the name in Bios: 2 equal, 1 equal without the
// version, 0 different. Without a name in Bios, every BIOS attribute registry is 1.
func nameMatch(is, wanted string) int {
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

// version matches the version at the end of a registry's name: ".v1_0_3", ".1.0.0", "1.0".
var version = regexp.MustCompile(`[._]?v?[0-9]+([._][0-9]+)+(\.json)?$`)

// stem returns the name of a registry without its version.
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
			continue // passwords and unknown types
		}
		if a.Name != "" {
			out[a.Name] = s
		}
	}
	return out
}
