// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// BMCs describes the BMC drivers of the manager to the webhooks. A nil function skips its check;
// the error then appears when Ingot connects to the BMC.
type BMCs struct {
	// Check returns an error if no driver handles the scheme of address. The error contains the
	// remedy and no credentials.
	Check func(address string) error
	// Offers returns the capabilities that the driver of address can have. known is false if only
	// the BMC can report which protocol it speaks.
	Offers func(address string) (offers []bmc.Capability, known bool)
	// Source returns an error if --bmc-sources does not allow the IP address host. DNS names are
	// checked later, when Ingot connects.
	Source func(host string) error
}

// demand is a field of a host that requires a capability of its BMC.
type demand struct {
	path, value string
	// anyOf lists the capabilities of which one suffices.
	anyOf []bmc.Capability
	// feature names the capability in messages.
	feature string
}

// demands lists the demands of a host in a fixed order.
func demands(host *v1beta2.IngotHost) []demand {
	var out []demand
	spec := field.NewPath("spec")
	if bios := host.Spec.BIOS; bios != nil {
		names := strings.Join(slices.Sorted(maps.Keys(bios.Settings)), ", ")
		out = append(out, demand{spec.Child("bios", "settings").String(), names, []bmc.Capability{bmc.CapSettings}, "BIOS settings"})
	}
	for i, firmware := range host.Spec.Firmware {
		out = append(out, demand{
			spec.Child("firmware").Index(i).Child("component").String(), firmware.Component,
			[]bmc.Capability{bmc.CapFirmwareFetch, bmc.CapFirmwarePush}, "firmware updates",
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
			field.NewPath("metadata", "annotations").Key(v1beta2.RotateCredentialsAnnotation).String(), value, []bmc.Capability{bmc.CapAccounts}, "password rotation",
		})
	}
	return out
}

// checkCapabilities rejects the demands that the driver of spec.bmc.address cannot meet. before is
// nil for a new host; a demand that before already had for the same address is accepted.
func (b BMCs) checkCapabilities(before, host *v1beta2.IngotHost) field.ErrorList {
	if host.Spec.BMC == nil || b.Offers == nil {
		return nil
	}
	offers, known := b.Offers(host.Spec.BMC.Address)
	if !known {
		return nil
	}
	var existing []demand
	if before != nil && bmcAddressOf(before) == bmcAddressOf(host) {
		existing = demands(before)
	}
	scheme, _, _ := strings.Cut(host.Spec.BMC.Address, "://")
	errs := checkPushChecksums(before, host, offers, scheme)
	for _, d := range demands(host) {
		offered := slices.ContainsFunc(d.anyOf, func(c bmc.Capability) bool { return slices.Contains(offers, c) })
		if offered || slices.ContainsFunc(existing, func(e demand) bool { return e.path == d.path && e.value == d.value }) {
			continue
		}
		errs = append(errs, &field.Error{Type: field.ErrorTypeInvalid, Field: d.path, BadValue: d.value, Detail: fmt.Sprintf(
			"requires %s, which the driver of %s:// in spec.bmc.address does not support; remove it, or use the BMC's redfish:// address",
			d.feature, scheme)})
	}
	return errs
}

// checkSource rejects a new address that --bmc-sources does not allow.
func (b BMCs) checkSource(before, host *v1beta2.IngotHost) field.ErrorList {
	if b.Source == nil || host.Spec.BMC == nil || before != nil && bmcAddressOf(before) == bmcAddressOf(host) {
		return nil
	}
	address, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil || b.Source(address.Host) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(field.NewPath("spec", "bmc", "address"), host.Spec.BMC.Address,
		"is outside the networks that the manager's --bmc-sources allows; correct it, or add its network to --bmc-sources (INGOT_BMC_SOURCES)")}
}

// checkPushChecksums requires a checksum of firmware that the driver can only push (I22).
func checkPushChecksums(before, host *v1beta2.IngotHost, offers []bmc.Capability, scheme string) (errs field.ErrorList) {
	if !slices.Contains(offers, bmc.CapFirmwarePush) || slices.Contains(offers, bmc.CapFirmwareFetch) {
		return nil
	}
	for i, firmware := range host.Spec.Firmware {
		if firmware.Checksum != "" || before != nil && bmcAddressOf(before) == bmcAddressOf(host) && slices.Contains(before.Spec.Firmware, firmware) {
			continue
		}
		errs = append(errs, field.Required(field.NewPath("spec", "firmware").Index(i).Child("checksum"), fmt.Sprintf(
			"the driver of %s:// in spec.bmc.address uploads the image, which requires a checksum; set it to sha256:<output of sha256sum for the file at the URL>", scheme)))
	}
	return errs
}

// checkScheme rejects an address that no driver handles.
func (b BMCs) checkScheme(path *field.Path, address string) field.ErrorList {
	if b.Check == nil {
		return nil
	}
	if err := b.Check(address); err != nil {
		return field.ErrorList{field.Invalid(path, address, err.Error())}
	}
	return nil
}
