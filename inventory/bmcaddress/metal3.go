// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmcaddress

import (
	"fmt"
	"strings"
)

// metal3 maps the schemes of Metal3's BMC addresses, without "+http" or "+https", to Ingot's. %s is
// the scheme of Redfish.
var metal3 = map[string]string{
	"idrac":                "%s://",
	"idrac-redfish":        "%s://",
	"idrac-virtualmedia":   "%s:// with bootMethod: VirtualMedia",
	"ilo4":                 "%s://",
	"ilo4-virtualmedia":    "%s:// with bootMethod: VirtualMedia",
	"ilo5":                 "%s://",
	"ilo5-redfish":         "%s://",
	"ilo5-virtualmedia":    "%s:// with bootMethod: VirtualMedia",
	"redfish-virtualmedia": "%s:// with bootMethod: VirtualMedia",
	"redfish-uefihttp":     "%s:// with bootMethod: HTTP",
	"redfish":              "%s://",
	"irmc":                 "%s://",
	"libvirt":              "ipmi://",
}

// ofMetal3 refuses a scheme of Metal3 and suggests another. Nil: it is none.
func (s Scheme) ofMetal3() error {
	name, transport, _ := strings.Cut(string(s), "+")
	remedy, known := metal3[name]
	if !known || transport != "" && transport != "http" && transport != "https" {
		return nil
	}
	redfish := Redfish
	if transport == "http" {
		redfish = RedfishHTTP
	}
	if strings.Contains(remedy, "%s") {
		remedy = fmt.Sprintf(remedy, redfish)
	}
	return fmt.Errorf("must not begin with %s://, which is Metal3's; write %s", s, remedy)
}
