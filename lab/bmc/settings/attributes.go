// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"fmt"
	"math"
	"net/http"
	"slices"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// attribute is one entry of the attribute registry (DSP0268, AttributeRegistry).
type attribute struct {
	name, kind string
	choices    []string
	// factory is the default value: string, float64 or bool, as decoded from JSON.
	factory  any
	readOnly bool
	// low and high bound an Integer; high also bounds the length of a String.
	low, high float64
}

// The attributes with an effect in the emulator.
const (
	bootMode   = "BootMode"
	secureBoot = "SecureBoot"
)

// attributes returns attributes of all kinds that registries have.
func attributes(p personality.Personality) []attribute {
	modes := []string{"UEFI", "Legacy"}
	switch p.Vendor {
	case "Dell":
		modes = []string{"Uefi", "Bios"}
	case "HPE":
		modes = []string{"Uefi", "LegacyBios"}
	}
	list := []attribute{
		{name: bootMode, kind: "Enumeration", choices: modes, factory: modes[0], readOnly: len(p.Modes) == 1},
		{name: "LogicalProc", kind: "Enumeration", choices: []string{"Enabled", "Disabled"}, factory: "Enabled"},
		{name: "SriovGlobalEnable", kind: "Enumeration", choices: []string{"Enabled", "Disabled"}, factory: "Disabled"},
		{name: "AssetTag", kind: "String", factory: "", high: 63},
		{name: "AcPwrRcvryUserDelay", kind: "Integer", factory: 120.0, low: 60, high: 600},
		{name: "QuietBoot", kind: "Boolean", factory: true},
		{name: "SystemBiosVersion", kind: "String", factory: p.BIOSFirmware, readOnly: true, high: 32},
		{name: "SetupPassword", kind: "Password", factory: nil, high: 32},
	}
	if p.Vendor == "Dell" {
		list = append(list, attribute{name: secureBoot, kind: "Enumeration", choices: []string{"Disabled", "Enabled"}, factory: "Disabled"})
	}
	return list
}

// object returns the entry of the registry.
func (a attribute) object() resource.Object {
	o := resource.Object{"AttributeName": a.name, "Type": a.kind, "DisplayName": a.name, "ReadOnly": a.readOnly, "ResetRequired": true}
	switch a.kind {
	case "Enumeration":
		values := make([]resource.Object, len(a.choices))
		for i, c := range a.choices {
			values[i] = resource.Object{"ValueName": c, "ValueDisplayName": c}
		}
		o["Value"] = values
	case "Integer":
		o["LowerBound"], o["UpperBound"] = a.low, a.high
	case "String", "Password":
		o["MinLength"], o["MaxLength"] = 0, a.high
	}
	return o
}

// refuse returns why a value is invalid; id is empty if it is valid.
func (a attribute) refuse(value any) (id, why string) {
	if a.readOnly {
		return "PropertyNotWritable", "is read-only"
	}
	text, isText := value.(string)
	number, isNumber := value.(float64)
	_, isBool := value.(bool)
	switch a.kind {
	case "Enumeration":
		if !isText || !slices.Contains(a.choices, text) {
			return "PropertyValueNotInList", "is not in the list"
		}
	case "String", "Password":
		if !isText {
			return "PropertyValueTypeError", "is no string"
		}
		if float64(len(text)) > a.high {
			return "StringValueTooLong", fmt.Sprintf("is longer than %v", a.high)
		}
	case "Integer":
		if !isNumber || number != math.Trunc(number) {
			return "PropertyValueTypeError", "is no integer"
		}
		if number < a.low || number > a.high {
			return "PropertyValueOutOfRange", fmt.Sprintf("is not between %v and %v", a.low, a.high)
		}
	case "Boolean":
		if !isBool {
			return "PropertyValueTypeError", "is no boolean"
		}
	}
	return "", ""
}

// check returns the answer for the first invalid value.
func (s *Service) check(values map[string]any) (resource.Answer, bool) {
	for name, value := range values {
		i := slices.IndexFunc(s.attributes, func(a attribute) bool { return a.name == name })
		if i < 0 {
			return resource.Fail(http.StatusBadRequest, "PropertyUnknown", "The property "+name+" is not in the list of valid properties."), false
		}
		if id, why := s.attributes[i].refuse(value); id != "" {
			return resource.Fail(http.StatusBadRequest, id, "The value of "+name+" "+why+"."), false
		}
	}
	return resource.Answer{}, true
}
