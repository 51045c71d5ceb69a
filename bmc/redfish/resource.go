// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"encoding/json"

	"github.com/stmcginnis/gofish/redfish"
)

// The resources below hold what this driver reads, and nothing else (DSP0268).

// link is a reference to a resource.
type link struct {
	ID string `json:"@odata.id"`
}

type rootResource struct {
	Systems  link `json:"Systems"`
	Managers link `json:"Managers"`
	Links    struct {
		Sessions link `json:"Sessions"`
	} `json:"Links"`
}

type collectionResource struct {
	Members []link `json:"Members"`
	Next    string `json:"Members@odata.nextLink"`
}

type systemResource struct {
	// etag is the ETag that came with it; empty: none.
	etag         string
	ID           string             `json:"@odata.id"`
	UUID         string             `json:"UUID"`
	SerialNumber string             `json:"SerialNumber"`
	Manufacturer string             `json:"Manufacturer"`
	Model        string             `json:"Model"`
	PowerState   redfish.PowerState `json:"PowerState"`
	Boot         *bootResource      `json:"Boot"`
	Actions      struct {
		Reset *struct {
			Target     string   `json:"target"`
			Allowed    []string `json:"ResetType@Redfish.AllowableValues"`
			ActionInfo string   `json:"@Redfish.ActionInfo"`
		} `json:"#ComputerSystem.Reset"`
	} `json:"Actions"`
	Settings struct {
		Object link `json:"SettingsObject"`
	} `json:"@Redfish.Settings"`
	Links struct {
		ManagedBy []link `json:"ManagedBy"`
	} `json:"Links"`
	EthernetInterfaces link `json:"EthernetInterfaces"`
	NetworkInterfaces  link `json:"NetworkInterfaces"`
	Processors         link `json:"Processors"`
	ProcessorSummary   struct {
		CoreCount int32 `json:"CoreCount"`
	} `json:"ProcessorSummary"`
	MemorySummary struct {
		TotalGiB json.Number `json:"TotalSystemMemoryGiB"`
	} `json:"MemorySummary"`
}

type bootResource struct {
	Enabled        redfish.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled"`
	Target         redfish.BootSourceOverrideTarget  `json:"BootSourceOverrideTarget"`
	Mode           redfish.BootSourceOverrideMode    `json:"BootSourceOverrideMode"`
	AllowedTargets []string                          `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
}

// settingsResource is what a settings URI shows of the future state.
type settingsResource struct {
	Boot *bootResource `json:"Boot"`
}

type actionInfoResource struct {
	Parameters []struct {
		Name    string   `json:"Name"`
		Allowed []string `json:"AllowableValues"`
	} `json:"Parameters"`
}

type managerResource struct {
	FirmwareVersion string `json:"FirmwareVersion"`
	UUID            string `json:"UUID"`
}

type processorResource struct {
	Type  string `json:"ProcessorType"`
	Cores int32  `json:"TotalCores"`
}

type macResource struct {
	PermanentMAC string `json:"PermanentMACAddress"`
	MAC          string `json:"MACAddress"`
}

type networkInterfaceResource struct {
	Functions link `json:"NetworkDeviceFunctions"`
}

type networkFunctionResource struct {
	Ethernet macResource `json:"Ethernet"`
}
