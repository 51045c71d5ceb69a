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

// Where a BMC presents its certificate if its address names no port: by HTTPS, and
// Intel AMT by TLS on a port of its own.
const (
	portHTTPS = 443
	portAMT   = 16993
	schemeAMT = bmcaddress.VendorPrefix + "intelamt"
)

func trustsFirstUse(host *infrav1.IngotHost) bool {
	return host.Spec.BMC != nil && ptr.Deref(host.Spec.BMC.TrustOnFirstUse, false)
}

// pinOf is the fingerprint that was taken at the first use of the host's BMC at its
// present address; empty: there was none.
func pinOf(host *infrav1.IngotHost, facts *infrav1.IngotHardware) string {
	if facts == nil || facts.Spec.BMC == nil {
		return ""
	}
	was, is := facts.Spec.BMC.Address, host.Spec.BMC.Address
	if was != is {
		before, beforeErr := tlsAddress(was)
		now, nowErr := tlsAddress(is)
		if beforeErr != nil || nowErr != nil || before != now {
			return ""
		}
	}
	return facts.Spec.BMC.CertificateFingerprint
}

// tlsAddress is host:port of the BMC's TLS. The error wraps bmc.ErrAddress.
func tlsAddress(text string) (string, error) {
	address, err := bmcaddress.Parse(text)
	if err != nil {
		return "", fmt.Errorf("%w: %w", bmc.ErrAddress, err)
	}
	if !address.TLS() {
		return "", fmt.Errorf("%w: %s speaks no TLS, and presents no certificate to trust", bmc.ErrAddress, address)
	}
	port := portHTTPS
	if address.Scheme == schemeAMT {
		port = portAMT
	}
	return net.JoinHostPort(address.Host, strconv.Itoa(cmp.Or(address.Port, port))), nil
}

// Pin takes the certificate that the BMC presents for its own, for good: the pin is
// written down before anything is sent to the BMC. It returns the facts with the pin.
// From two errors the first is the BMC's and the second the API server's, or ErrStale.
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
	ctrl.LoggerFrom(ctx).Info("Trusting the certificate of the BMC at its first use", "address", address, "fingerprint", fingerprint)
	f.Note(host, infrav1.ReasonCertificatePinned, "spec.bmc.trustOnFirstUse: the BMC at "+address+" presented the certificate "+fingerprint+
		", and no other is trusted there from now on; compare it with the BMC's own")
	return facts, nil, nil
}

// Unpin forgets the pin of a host that is no longer to be trusted on its first use:
// whoever asks for that anew gets a new pin. It returns the facts without it; they may be
// nil.
func (f *Finder) Unpin(ctx context.Context, host *infrav1.IngotHost, facts *infrav1.IngotHardware) (*infrav1.IngotHardware, error) {
	if trustsFirstUse(host) || facts == nil || facts.Spec.BMC == nil {
		return facts, nil
	}
	return f.save(ctx, host, facts, nil)
}

// save writes the pin by optimistic lock: who acts on an old view takes no pin.
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
		return facts, fmt.Errorf("pin of the BMC's certificate: %w", err)
	}
	return changed, nil
}
