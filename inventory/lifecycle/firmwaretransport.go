// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"fmt"
	"slices"
	"strings"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// UpdateMethods are the ways in which a BMC accepts firmware images.
type UpdateWays struct {
	// Fetch: it fetches them, by one of Protocols (upper case). Without Protocols, by any.
	Fetch     bool
	Protocols []string
	// Push: it accepts an upload.
	Push bool
}

// DeliveryOf chooses how a BMC gets the image of a component after a number of failed updates.
// A BMC that can fetch does so, which keeps the image off the manager. If it also accepts
// pushes, every second attempt pushes: fetches often fail because the BMC does not reach the
// image's server, which the manager may. Only an image with a checksum is pushed, since the
// author of the host chooses both the URL that Ingot reads and the address that it sends to.
// Without a delivery, why is the reason; it starts in lower case and has no period.
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
		return "", "the BMC only accepts pushed images, which need spec.firmware[].checksum (as sha256sum prints it)"
	case ways.Fetch:
		return "", fmt.Sprintf("the BMC only fetches images by %s, and spec.firmware[].url has %s", strings.Join(ways.Protocols, ", "), protocol)
	}
	return "", "the BMC supports neither SimpleUpdate nor a push of the image"
}

// delivery returns the delivery of the next update.
func (in *input) delivery() (delivery infrav1.UpdateDelivery, why string) {
	wish, _ := in.outdated()
	return DeliveryOf(wish, in.reading().Ways, in.preparation().Attempt)
}

// noWay reports whether the BMC cannot get the image.
func (in *input) noWay() bool {
	delivery, _ := in.delivery()
	return delivery == ""
}

func giveUpNoWay(in *input) Decision {
	wish, _ := in.outdated()
	_, why := in.delivery()
	return in.fail(infrav1.ReasonFirmwareRejected, fmt.Sprintf("%s is at version %s, not %s: %s",
		wish.Component, in.reading().Versions[wish.Component], wish.Version, why))
}

// orphaned reports whether the transfer of an image to the BMC was interrupted.
func (in *input) orphaned() bool {
	update := UpdateOf(in.host)
	return update != nil && update.State == infrav1.UpdateRequested && update.Delivery == infrav1.DeliveryPush && in.obs.Update.State == UpdateUnknown
}

// noteCutOff starts the time in which the update may run: the BMC may have got the end of the
// image a moment ago.
func noteCutOff(in *input) Decision {
	update := UpdateOf(in.host)
	ledger := in.ledger()
	ledger.Record.Preparation.Update.State, ledger.Record.Preparation.Update.StartTime = infrav1.UpdateInterrupted, in.now()
	return Decision{Step: in.save(ledger), Event: "Warning", Reason: infrav1.ReasonUpdatingFirmware, Message: inventory.WithDetail(
		"The transfer of ", update.Component+" version "+update.Version,
		" to the BMC was interrupted. Ingot checks whether the version appears, and sends nothing until then.")}
}
