// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"encoding/json"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ingot-metal/ingot/bmc"
)

// The resources below hold what this driver reads, and nothing else (DSP0268).

// link is a reference to a resource.
type link struct {
	ID string `json:"@odata.id"`
}

type rootResource struct {
	Vendor         string `json:"Vendor"`
	Systems        link   `json:"Systems"`
	Managers       link   `json:"Managers"`
	UpdateService  link   `json:"UpdateService"`
	AccountService link   `json:"AccountService"`
	Registries     link   `json:"Registries"`
	EventService   link   `json:"EventService"`
	SessionService link   `json:"SessionService"`
	Features       struct {
		Expand struct {
			All     bool `json:"ExpandAll"`
			NoLinks bool `json:"NoLinks"`
		} `json:"ExpandQuery"`
	} `json:"ProtocolFeaturesSupported"`
	Links struct {
		Sessions link `json:"Sessions"`
	} `json:"Links"`
}

type collectionResource struct {
	Members []link `json:"Members"`
	Next    string `json:"Members@odata.nextLink"`
}

// expandedResource is a collection with its members in it.
type expandedResource struct {
	Members []json.RawMessage `json:"Members"`
	Count   int               `json:"Members@odata.count"`
	Next    string            `json:"Members@odata.nextLink"`
}

type systemResource struct {
	// etag is the ETag that came with it, or stands in it; empty: none.
	etag         string
	Tag          string             `json:"@odata.etag"`
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
		Chassis   []link `json:"Chassis"`
	} `json:"Links"`
	EthernetInterfaces link `json:"EthernetInterfaces"`
	NetworkInterfaces  link `json:"NetworkInterfaces"`
	Processors         link `json:"Processors"`
	ProcessorSummary   struct {
		CoreCount int32 `json:"CoreCount"`
	} `json:"ProcessorSummary"`
	MemorySummary struct {
		TotalGiB number          `json:"TotalSystemMemoryGiB"`
		Status   *statusResource `json:"Status"`
	} `json:"MemorySummary"`
	Status         statusResource `json:"Status"`
	VirtualMedia   link           `json:"VirtualMedia"`
	Bios           link           `json:"Bios"`
	SecureBoot     link           `json:"SecureBoot"`
	LogServices    link           `json:"LogServices"`
	Storage        link           `json:"Storage"`
	Memory         link           `json:"Memory"`
	LocationActive *bool          `json:"LocationIndicatorActive"`
	IndicatorLED   string         `json:"IndicatorLED"`
}

// statusResource is Resource.Status. Some leave State out (HPE drives).
type statusResource struct {
	State  string `json:"State"`
	Health string `json:"Health"`
	Rollup string `json:"HealthRollup"`
}

// sum is the health of the whole, or of the thing itself where no sum is told.
func (s statusResource) sum() bmc.HealthState {
	if sum := healthState(s.Rollup); sum != bmc.HealthUnknown {
		return sum
	}
	return healthState(s.Health)
}

// actionResource is an action that needs nothing but its target.
type actionResource struct {
	Target  string   `json:"target"`
	Allowed []string `json:"ResetType@Redfish.AllowableValues"`
}

type bootResource struct {
	Enabled        redfish.BootSourceOverrideEnabled `json:"BootSourceOverrideEnabled"`
	Target         redfish.BootSourceOverrideTarget  `json:"BootSourceOverrideTarget"`
	Mode           redfish.BootSourceOverrideMode    `json:"BootSourceOverrideMode"`
	AllowedTargets []string                          `json:"BootSourceOverrideTarget@Redfish.AllowableValues"`
	HTTPBootURI    string                            `json:"HttpBootUri"`
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
	Model           string `json:"Model"`
	UUID            string `json:"UUID"`
	VirtualMedia    link   `json:"VirtualMedia"`
	LogServices     link   `json:"LogServices"`
	Links           struct {
		OEM struct {
			Dell struct {
				Attributes []link `json:"DellAttributes"`
			} `json:"Dell"`
		} `json:"Oem"`
	} `json:"Links"`
	Actions struct {
		Reset *actionResource `json:"#Manager.Reset"`
	} `json:"Actions"`
}

type processorResource struct {
	Type  string `json:"ProcessorType"`
	Cores int32  `json:"TotalCores"`
}

type macResource struct {
	ID           string `json:"Id"`
	PermanentMAC string `json:"PermanentMACAddress"`
	MAC          string `json:"MACAddress"`
	Enabled      *bool  `json:"InterfaceEnabled"`
	Links        struct {
		HostInterface link `json:"HostInterface"`
	} `json:"Links"`
}

// address is the interface's; empty where it has none, or is the server's link to its own
// BMC (DSP0268, EthernetInterface.Links.HostInterface; DSP2046's example calls it
// ToManager), from which nothing boots.
func (m macResource) address() string {
	if m.Links.HostInterface.ID != "" || strings.EqualFold(m.ID, "ToManager") {
		return ""
	}
	for _, text := range []string{m.PermanentMAC, m.MAC} {
		if mac, ok := parseMAC(text); ok {
			return mac
		}
	}
	return ""
}

// serves says whether it is a network card in use.
func (m macResource) serves() bool { return m.address() != "" && (m.Enabled == nil || *m.Enabled) }

// networkCardResource is NetworkInterface, or NetworkAdapter.
type networkCardResource struct {
	Functions link `json:"NetworkDeviceFunctions"`
	Links     struct {
		Adapter link `json:"NetworkAdapter"`
	} `json:"Links"`
}

type networkFunctionResource struct {
	Ethernet macResource `json:"Ethernet"`
}

// number is a number as text, empty where what is shown is none: some BMCs say
// "N/A" for what they cannot measure. Not json.Number: what that refuses, decode takes
// for no JSON, and the whole resource is lost.
type number string

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	*n = ""
	if c := data[0]; c == '-' || c >= '0' && c <= '9' {
		*n = number(bmc.Shorten(string(data), 32))
	}
	return nil
}

// int64 is the number where it is whole; nil otherwise.
func (n number) int64() *int64 {
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return nil
	}
	return &i
}
