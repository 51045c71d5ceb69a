// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"strconv"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/ptr"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/hardware"
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
func pinOf(host *infrav1.IngotHost, hardware *infrav1.IngotHardware) string {
	if hardware == nil || hardware.Spec.BMC == nil {
		return ""
	}
	was, is := hardware.Spec.BMC.Address, host.Spec.BMC.Address
	if was != is {
		before, beforeErr := tlsAddress(was)
		now, nowErr := tlsAddress(is)
		if beforeErr != nil || nowErr != nil || before != now {
			return ""
		}
	}
	return hardware.Spec.BMC.CertificateFingerprint
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

// pin takes the certificate that the BMC presents for its own, for good: the pin is
// written down before anything is sent to the BMC. From two errors the first is the
// BMC's and the second the API server's.
func (r *Reconciler) pin(ctx context.Context, host *infrav1.IngotHost, seen *observation) (bmcErr, _ error) {
	if err := r.mustNotBePaused(ctx, host); err != nil {
		return nil, err
	}
	address, err := tlsAddress(host.Spec.BMC.Address)
	if err != nil {
		return err, nil
	}
	look, cancel := context.WithTimeout(ctx, r.waits().Turn)
	defer cancel()
	fingerprint, err := r.Fingerprint(look, address)
	if err != nil {
		return err, nil
	}
	pin := &infrav1.PinnedBMC{Address: host.Spec.BMC.Address, CertificateFingerprint: fingerprint}
	if err := r.savePin(ctx, host, seen, pin); err != nil {
		return nil, err
	}
	seen.target.Fingerprint = fingerprint
	ctrl.LoggerFrom(ctx).Info("Trusting the certificate of the BMC at its first use", "address", address, "fingerprint", fingerprint)
	r.note(host, infrav1.ReasonCertificatePinned, "spec.bmc.trustOnFirstUse: the BMC at "+address+" presented the certificate "+fingerprint+
		", and no other is trusted there from now on; compare it with the BMC's own")
	return nil, nil
}

// unpin forgets the pin of a host that is no longer to be trusted on its first use:
// whoever asks for that anew gets a new pin.
func (r *Reconciler) unpin(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if trustsFirstUse(host) || seen.hardware == nil || seen.hardware.Spec.BMC == nil {
		return nil
	}
	return r.savePin(ctx, host, seen, nil)
}

// savePin writes the pin by optimistic lock: who acts on an old view takes no pin.
func (r *Reconciler) savePin(ctx context.Context, host *infrav1.IngotHost, seen *observation, pin *infrav1.PinnedBMC) error {
	var facts *infrav1.IngotHardware
	var err error
	if seen.hardware == nil {
		if facts, err = hardware.New(host, r.Client.Scheme()); err != nil {
			return err
		}
		facts.Spec.BMC = pin
		err = r.Client.Create(ctx, facts)
	} else {
		facts = seen.hardware.DeepCopy()
		facts.Spec.BMC = pin
		err = r.Client.Patch(ctx, facts, client.MergeFromWithOptions(seen.hardware, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("pin of the BMC's certificate: %w", err)
	}
	seen.hardware = facts
	return nil
}
