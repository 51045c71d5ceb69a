// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// Default ports of the certificate: that of HTTPS, and the TLS port of Intel AMT.
const (
	portHTTPS = 443
	portAMT   = 16993
	schemeAMT = bmcaddress.VendorPrefix + "intelamt"
)

func trustsFirstUse(host *infrav1.IngotHost) bool {
	return host.Spec.BMC != nil && ptr.Deref(host.Spec.BMC.TrustOnFirstUse, false)
}

// pinOf returns the fingerprint that was pinned for the host's BMC at its present address, or "".
func pinOf(host *infrav1.IngotHost, facts *infrav1.IngotHardware) string {
	if facts == nil || facts.Spec.BMC == nil {
		return ""
	}
	pinned, current := facts.Spec.BMC.Address, host.Spec.BMC.Address
	if pinned != current {
		before, beforeErr := tlsAddress(pinned)
		now, nowErr := tlsAddress(current)
		if beforeErr != nil || nowErr != nil || before != now {
			return ""
		}
	}
	return facts.Spec.BMC.CertificateFingerprint
}

// tlsAddress returns host:port of the BMC's TLS. Its error wraps bmc.ErrAddress.
func tlsAddress(text string) (string, error) {
	address, err := bmcaddress.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bmc.ErrAddress, err)
	}
	if !address.TLS() {
		return "", fmt.Errorf("%w: %s does not use TLS, and has no certificate to trust", bmc.ErrAddress, address)
	}
	port := portHTTPS
	if address.Scheme == schemeAMT {
		port = portAMT
	}
	return net.JoinHostPort(address.Host, strconv.Itoa(cmp.Or(address.Port, port))), nil
}

// Pin pins the certificate that the BMC presents, before anything is sent to the BMC. It returns the
// facts with the pin. The first error is the BMC's, the second the API server's or ErrStale.
func (f *Finder) Pin(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) (_ *infrav1.IngotHardware, bmcErr, _ error) {
	address, err := tlsAddress(host.Spec.BMC.Address)
	if err != nil {
		return facts, err, nil
	}
	look, cancel := context.WithTimeout(ctx, f.Turn)
	defer cancel()
	fingerprint, err := f.Fingerprint(look, address)
	if err != nil {
		return facts, err, nil
	}
	pin := &infrav1.PinnedBMC{Address: host.Spec.BMC.Address, CertificateFingerprint: fingerprint}
	facts, err = f.save(ctx, host, facts, pin)
	switch {
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return facts, fmt.Errorf("%w: %w", ErrNamespaceTerminating, err), nil
	case err != nil:
		return facts, nil, err
	}
	ctrl.LoggerFrom(ctx).Info("Pinned the BMC certificate at its first use", "address", address, "fingerprint", fingerprint)
	f.Note(host, infrav1.ReasonCertificatePinned, "Pinned certificate "+fingerprint+" of BMC "+address+
		" (spec.bmc.trustOnFirstUse). Ingot trusts no other there. Compare it with the BMC's own.")
	return facts, nil, nil
}

// Unpin removes the pin of a host without spec.bmc.trustOnFirstUse: enabling that again pins again. It
// returns the facts without the pin. facts may be nil.
func (f *Finder) Unpin(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) (*infrav1.IngotHardware, error) {
	if trustsFirstUse(host) || facts == nil || facts.Spec.BMC == nil {
		return facts, nil
	}
	return f.save(ctx, host, facts, nil)
}

// save writes the pin with optimistic locking.
func (f *Finder) save(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware, pin *infrav1.PinnedBMC) (*infrav1.IngotHardware, error) {
	var changed *infrav1.IngotHardware
	var err error
	if facts == nil {
		if changed, err = hardware.New(host, f.Client.Scheme()); err != nil {
			return nil, err
		}
		changed.Spec.BMC = pin
		err = f.Client.Create(ctx, changed)
	} else {
		changed = facts.DeepCopy()
		changed.Spec.BMC = pin
		err = f.Client.Patch(ctx, changed, client.MergeFromWithOptions(facts, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return facts, ErrStale
	}
	if err != nil {
		return facts, fmt.Errorf("write pin of the BMC's certificate: %w", err)
	}
	return changed, nil
}
