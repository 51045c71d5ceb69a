// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// UpdateWays are the ways by which a BMC says that it takes images of firmware.
type UpdateWays struct {
	// Fetch: it fetches them, by one of Protocols, in capitals; none: it does not say by
	// which.
	Fetch     bool
	Protocols []string
	// Push: it takes them as a stream.
	Push bool
}

// DeliveryOf chooses how the image of a component comes to a BMC, after so many failed updates.
// A BMC that can is let fetch it: the image then crosses the network once, and not the
// manager. Where it takes both ways, every second attempt pushes: the usual reason why a
// fetch fails is a BMC that does not reach the image's server, which the manager may.
// Only an image with a checksum is pushed: Ingot reads the URL itself then, which the author
// of the host chooses, and gives what is there to an address that they choose as well.
// Empty: there is no way, and why says so in words for people.
func DeliveryOf(component infrav1.FirmwareComponent, ways UpdateWays, failed int32) (delivery infrav1.UpdateDelivery, why string) {
	scheme, _, _ := strings.Cut(component.URL, ":")
	protocol := strings.ToUpper(scheme)
	fetches := ways.Fetch && (len(ways.Protocols) == 0 || slices.Contains(ways.Protocols, protocol))
	pushes := ways.Push && component.Checksum != ""
	switch {
	case fetches && pushes && failed%2 == 1:
		return infrav1.DeliveryPush, ""
	case fetches:
		return infrav1.DeliveryFetch, ""
	case pushes:
		return infrav1.DeliveryPush, ""
	case ways.Push:
		return "", "the BMC takes only images that Ingot pushes, which need a checksum; set checksum in spec.firmware to what sha256sum prints for the file"
	case ways.Fetch:
		return "", fmt.Sprintf("the BMC fetches images by %s only, and takes none that are pushed; the url says %s", strings.Join(ways.Protocols, ", "), protocol)
	}
	return "", "the BMC offers no way to update firmware over the network: neither SimpleUpdate nor a push of the image"
}

// delivery of the update that would begin now.
func (in *input) delivery() (delivery infrav1.UpdateDelivery, why string) {
	wish, _ := in.outdated()
	return DeliveryOf(wish, in.reading().Ways, in.preparation().Attempts)
}

// noWay: the BMC takes the image by no way.
func (in *input) noWay() bool {
	delivery, _ := in.delivery()
	return delivery == ""
}

func giveUpNoWay(in *input) Decision {
	wish, _ := in.outdated()
	_, why := in.delivery()
	return in.fail(infrav1.ReasonFirmwareRefused, fmt.Sprintf("%s is at version %s, wanted %s, and %s",
		wish.Component, in.reading().Versions[wish.Component], wish.Version, why))
}

// orphaned: an image was on its way to the BMC, and nobody pushes it any more.
func (in *input) orphaned() bool {
	update := UpdateOf(in.host)
	return update != nil && update.State == infrav1.UpdateAsked && update.Delivery == infrav1.DeliveryPush && in.obs.Update.State == UpdateUnknown
}

// noteCutOff has the time in which the update may be at work begin now: a push may take
// longer than that, and the BMC may have got the last of it a moment ago.
func noteCutOff(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.ledger()
	ledger.Record.Preparation.Update.State, ledger.Record.Preparation.Update.StartedAt = infrav1.UpdateCutOff, in.now()
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonUpdatingFirmware, Message: fmt.Sprintf(
		"the push of version %s of %s ended without an answer of the BMC, or Ingot ended meanwhile: nobody knows whether the BMC has the image; "+
			"Ingot pushes nothing until it knows, and looks whether the version shows", update.Version, update.Component)}
}
