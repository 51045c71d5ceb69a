// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// BMCs is what admission asks of the drivers that the manager was built with. The
// zero value asks nothing: whatever is wrong shows when the BMC is spoken to.
type BMCs struct {
	// Check refuses an address whose scheme no driver has; the error says what to
	// write and repeats no credentials.
	Check func(address string) error
	// Offers tells the capabilities that the driver of an address has at best. Not
	// known: the BMC has to be asked which protocol it speaks.
	Offers func(address string) (offers []bmc.Capability, known bool)
	// Source refuses an IP address at which BMCs may not be spoken to (--bmc-sources).
	// Names are not looked up: their addresses are checked when the BMC is connected to.
	Source func(host string) error
}

// demand is a part of a host that asks for a capability of its BMC.
type demand struct {
	path  string
	value string
	// anyOf: one of these is enough.
	anyOf []bmc.Capability
	// noun says what the BMC would have to do.
	noun string
}

// demands lists what a host asks for, the same way each time.
func demands(host *v1beta2.IngotHost) []demand {
	var out []demand
	spec := field.NewPath("spec")
	if bios := host.Spec.BIOS; bios != nil {
		names := make([]string, 0, len(bios.Settings))
		for name := range bios.Settings {
			names = append(names, name)
		}
		slices.Sort(names)
		out = append(out, demand{spec.Child("bios", "settings").String(), strings.Join(names, ", "), []bmc.Capability{bmc.CapSettings}, "BIOS settings"})
	}
	for i, firmware := range host.Spec.Firmware {
		out = append(out, demand{
			spec.Child("firmware").Index(i).Child("component").String(), firmware.Component,
			[]bmc.Capability{bmc.CapFirmwareFetch, bmc.CapFirmwarePush}, "updates of firmware",
		})
	}
	if host.Spec.BootMethod == v1beta2.BootMethodVirtualMedia {
		out = append(out, demand{spec.Child("bootMethod").String(), string(host.Spec.BootMethod), []bmc.Capability{bmc.CapMedia}, "virtual media"})
	}
	if host.Spec.BootMode == v1beta2.BootModeUEFISecureBoot {
		out = append(out, demand{spec.Child("bootMode").String(), string(host.Spec.BootMode), []bmc.Capability{bmc.CapSecureBoot}, "Secure Boot"})
	}
	if value, ok := host.Annotations[v1beta2.RotateCredentialsAnnotation]; ok {
		out = append(out, demand{
			field.NewPath("metadata", "annotations").Key(v1beta2.RotateCredentialsAnnotation).String(), value, []bmc.Capability{bmc.CapAccounts}, "new passwords",
		})
	}
	return out
}

// checkCapabilities refuses what the driver of the host's address cannot do. before
// is nil for a new host; what stood under the same address is not looked at again.
func (b BMCs) checkCapabilities(before, host *v1beta2.IngotHost) field.ErrorList {
	if host.Spec.BMC == nil || b.Offers == nil {
		return nil
	}
	offers, known := b.Offers(host.Spec.BMC.Address)
	if !known {
		return nil
	}
	var stood []demand
	if before != nil && bmcAddressOf(before) == bmcAddressOf(host) {
		stood = demands(before)
	}
	scheme, _, _ := strings.Cut(host.Spec.BMC.Address, "://")
	errs := withoutChecksum(before, host, offers, scheme)
	for _, d := range demands(host) {
		offered := slices.ContainsFunc(d.anyOf, func(c bmc.Capability) bool { return slices.Contains(offers, c) })
		if offered || slices.ContainsFunc(stood, func(s demand) bool { return s.path == d.path && s.value == d.value }) {
			continue
		}
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: d.path, BadValue: d.value, Detail: fmt.Sprintf(
			"needs a BMC that Ingot can give %s, which the driver of %s:// in spec.bmc.address cannot; remove it, or give the BMC's "+
				"redfish:// address", d.noun, scheme)})
	}
	return errs
}

// checkSource refuses a new address that --bmc-sources does not allow.
func (b BMCs) checkSource(before, host *v1beta2.IngotHost) field.ErrorList {
	if b.Source == nil || host.Spec.BMC == nil || before != nil && bmcAddressOf(before) == bmcAddressOf(host) {
		return nil
	}
	address, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil || b.Source(address.Host) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "bmc", "address"), host.Spec.BMC.Address,
		"is outside of the addresses that --bmc-sources of the manager allows; correct it, or add its network to --bmc-sources (INGOT_BMC_SOURCES)")}
}

// withoutChecksum refuses firmware that could only be pushed, and has no checksum: Ingot pushes
// no content without a checksum.
func withoutChecksum(before, host *v1beta2.IngotHost, offers []bmc.Capability, scheme string) (errs field.ErrorList) {
	if !slices.Contains(offers, bmc.CapFirmwarePush) || slices.Contains(offers, bmc.CapFirmwareFetch) {
		return nil
	}
	for i, firmware := range host.Spec.Firmware {
		if firmware.Checksum != "" || before != nil && bmcAddressOf(before) == bmcAddressOf(host) && slices.Contains(before.Spec.Firmware, firmware) {
			continue
		}
		errs = append(errs, field.Required(field.NewPath("spec", "firmware").Index(i).Child("checksum"), fmt.Sprintf(
			"the driver of %s:// in spec.bmc.address pushes images, and Ingot pushes none without a checksum; set it to sha256: and what sha256sum prints for the file at the URL", scheme)))
	}
	return errs
}

// checkScheme refuses an address that no driver takes.
func (b BMCs) checkScheme(path *field.Path, address string) field.ErrorList {
	if b.Check == nil {
		return nil
	}
	if err := b.Check(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, err.Error())}
	}
	return nil
}
