// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"fmt"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ingot-metal/ingot/bmc"
)

// The attributes of an iDRAC that name the next boot, and their values for the virtual
// drive. BootOnce says for how long: Disabled is for all boots.
const (
	attributeDevice = "ServerBoot.1.FirstBootDevice"
	attributeOnce   = "ServerBoot.1.BootOnce"

	deviceVirtualCD = "VCD-DVD"
	onceEnabled     = "Enabled"
	onceDisabled    = "Disabled"
)

// attributesResource is DellAttributes, the settings of the iDRAC itself.
type attributesResource struct {
	// Attributes are strings, numbers and null.
	Attributes map[string]any `json:"Attributes"`
}

func (a attributesResource) override() (bmc.BootOverride, bool) {
	device, _ := a.Attributes[attributeDevice].(string)
	once, _ := a.Attributes[attributeOnce].(string)
	return bmc.BootOverride{Target: bmc.BootCD, Persistent: once != onceEnabled}, strings.EqualFold(device, deviceVirtualCD)
}

// attributes reads the settings of the iDRAC; the path is empty where it shows none. They
// are where its manager says, and before there was a link below the manager.
func (c *conn) attributes(system *systemResource) (attributesResource, string, error) {
	manager, path, err := c.manager(system)
	if err != nil || path == "" {
		return attributesResource{}, "", optional(err)
	}
	place := path + "/Attributes"
	for _, l := range manager.Links.OEM.Dell.Attributes {
		// The other two are of the system and of the chassis' lifecycle controller.
		if strings.HasSuffix(l.ID, "/"+path[strings.LastIndex(path, "/")+1:]) {
			place = l.ID
		}
	}
	var a attributesResource
	if err := c.get(place, &a); err != nil {
		return attributesResource{}, "", optional(err)
	}
	if _, found := a.Attributes[attributeDevice]; !found {
		return attributesResource{}, "", nil
	}
	return a, place, nil
}

// setVirtualCD has an iDRAC boot its virtual drive; done says that it is set. Where it is
// not, and there is no error, the BMC has no such attributes, and its target Cd is all
// there is. One that has them and refuses is not asked for Cd: that would be a boot from
// the disk, of whoever was there before.
func (c *conn) setVirtualCD(system *systemResource, override bmc.BootOverride) (done bool, err error) {
	_, path, err := c.attributes(system)
	if err != nil || path == "" {
		return false, err
	}
	if now := system.Boot.override().Mode; override.Mode != "" && now != "" && now != override.Mode {
		return false, fmt.Errorf("%w: wants mode %s, the BMC shows %s", bmc.ErrNotApplied, override.Mode, now)
	}
	once := onceEnabled
	if override.Persistent {
		once = onceDisabled
	}
	err = c.patch(path, "", map[string]any{"Attributes": map[string]string{attributeOnce: once, attributeDevice: deviceVirtualCD}})
	if err != nil {
		return false, err
	}
	var shown attributesResource
	if err := c.get(path, &shown); err != nil {
		return false, fmt.Errorf("read back: %w", err)
	}
	if got, is := shown.override(); !is || got.Persistent != override.Persistent {
		return false, fmt.Errorf("%w: %s is %v, %s is %v", bmc.ErrNotApplied, attributeDevice,
			shown.Attributes[attributeDevice], attributeOnce, shown.Attributes[attributeOnce])
	}
	return true, nil
}

// virtualCD completes an override that was read with what an iDRAC's attributes say: the
// system does not tell of the virtual drive.
func (c *conn) virtualCD(system *systemResource, read bmc.BootOverride) (bmc.BootOverride, error) {
	switch system.Boot.Target {
	case redfish.NoneBootSourceOverrideTarget, redfish.CdBootSourceOverrideTarget, "":
	default:
		return read, nil
	}
	a, path, err := c.attributes(system)
	if err != nil || path == "" {
		return read, err
	}
	got, is := a.override()
	if !is {
		return read, nil
	}
	got.Mode = read.Mode
	return got, nil
}
