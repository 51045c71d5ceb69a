// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"cmp"
	"encoding/json"
	"slices"
	"strconv"
	"strings"

	"github.com/stmcginnis/gofish/redfish"

	"github.com/ingot-metal/ingot/bmc"
)

// The resources below have only the properties that this driver reads (DSP0268).

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

// expandedResource is a collection that contains its members.
type expandedResource struct {
	Members []json.RawMessage `json:"Members"`
	Count   int               `json:"Members@odata.count"`
	Next    string            `json:"Members@odata.nextLink"`
}

type systemResource struct {
	// etag is the ETag of the header or else of the body; empty: none.
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

// statusResource is Resource.Status. Some BMCs leave State out (HPE drives).
type statusResource struct {
	State  string `json:"State"`
	Health string `json:"Health"`
	Rollup string `json:"HealthRollup"`
}

// overall returns the health of the resource with its parts or, without a rollup, its own health.
func (s statusResource) overall() bmc.HealthState {
	if sum := healthState(s.Rollup); sum != bmc.HealthUnknown {
		return sum
	}
	return healthState(s.Health)
}

// actionResource is an action that needs only its target.
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

// settingsResource is the future state of a system.
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

// address returns the MAC address. It is empty without one, and for the server's link to its
// own BMC (DSP0268, EthernetInterface.Links.HostInterface; ToManager in the example of
// DSP2046), from which nothing boots.
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

// serves reports whether it is an enabled network card.
func (m macResource) serves() bool { return m.address() != "" && (m.Enabled == nil || *m.Enabled) }

// networkCardResource is a NetworkInterface or a NetworkAdapter.
type networkCardResource struct {
	Functions link `json:"NetworkDeviceFunctions"`
	Links     struct {
		Adapter link `json:"NetworkAdapter"`
	} `json:"Links"`
}

type networkFunctionResource struct {
	Ethernet macResource `json:"Ethernet"`
}

// number is a JSON number as text, and empty for any other value: some BMCs send "N/A" for what
// they cannot measure. json.Number would make such a resource undecodable.
type number string

// UnmarshalJSON implements json.Unmarshaler.
func (n *number) UnmarshalJSON(data []byte) error {
	*n = ""
	if c := data[0]; c == '-' || c >= '0' && c <= '9' {
		*n = number(bmc.Shorten(string(data), 32))
	}
	return nil
}

// int64 returns the number if it is whole, or nil.
func (n number) int64() *int64 {
	i, err := strconv.ParseInt(string(n), 10, 64)
	if err != nil {
		return nil
	}
	return &i
}

// expandMembers asks for the members of a collection in one answer (DSP0266, expand query
// parameter).
const expandMembers = "?$expand=.($levels=1)"

// resource is a member of a collection.
type resource struct {
	path string
	body []byte
	// from is the path of the answer that contained it.
	from string
}

// into decodes the member, see decode.
func (r resource) into(v any) error { return decode(r.body, v) }

// resources reads all members of a collection, sorted by path: in one answer if the BMC supports
// that correctly, or else one by one. whole is false if a listed member could not be read.
func (c *conn) resources(collection string, limit int) (all []resource, whole bool, _ error) {
	if all, ok, err := c.expanded(collection, limit); ok || err != nil {
		return all, ok, err
	}
	paths, err := c.membersUpTo(collection, limit)
	if err != nil {
		return nil, false, err
	}
	for _, path := range paths {
		body, err := c.read(path)
		if err != nil {
			if err := ignoreUnsupported(err); err != nil {
				return nil, false, err
			}
			continue
		}
		all = append(all, resource{path: path, body: body, from: path})
	}
	return all, len(all) == len(paths), nil
}

// expanded reads a collection with its members in one answer. ok is false if the BMC does not
// offer that, refuses it, or leaves out members or their properties. ok is also false if the
// answer did not come in time in an earlier try: single members are smaller.
func (c *conn) expanded(collection string, limit int) (all []resource, ok bool, _ error) {
	if e := c.root.Features.Expand; !e.All && !e.NoLinks || strings.Contains(collection, "?") {
		return nil, false, nil
	}
	from, count := collection+expandMembers, 0
	for page := 0; from != ""; page++ {
		if r := c.reading; r != nil && r.try > 1 && r.answers[from].try == 0 {
			return nil, false, nil
		}
		var e expandedResource
		if err := c.getLarge(from, &e); err != nil {
			return nil, false, ignoreUnreadable(err)
		}
		if count = max(count, e.Count); page > limit || len(all)+len(e.Members) > limit {
			return nil, false, nil // the read of the members reports the limit
		}
		for _, body := range e.Members {
			var l link
			var fields map[string]json.RawMessage
			if decode(body, &l) != nil || json.Unmarshal(body, &fields) != nil || l.ID == "" || len(fields) < 2 {
				return nil, false, nil
			}
			all = append(all, resource{path: l.ID, body: body, from: from})
		}
		from = e.Next
	}
	slices.SortFunc(all, func(a, b resource) int { return cmp.Compare(a.path, b.path) })
	all = slices.CompactFunc(all, func(a, b resource) bool { return a.path == b.path })
	return all, len(all) == count, nil
}
