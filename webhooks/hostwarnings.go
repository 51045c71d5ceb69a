// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// warningPatience bounds the search for missing objects: no request waits longer for
// a warning.
const warningPatience = time.Second

// warnings tells what is legal but surely not meant, of what is new or changed since
// before, which is nil for a new host. It never fails: what cannot be read is not
// warned of.
func (v *hostValidator) warnings(ctx context.Context, before, host *v1beta2.IngotHost) admission.Warnings {
	ctx, cancel := context.WithTimeout(ctx, warningPatience)
	defer cancel()
	out := v.outlook.Unlabelled(ctx, before, host)
	if before == nil {
		before = &v1beta2.IngotHost{}
	}
	out = append(out, strayCommands(before.Annotations, host)...)
	out = append(out, commandWarnings(before.Annotations, host, v.clock.Now())...)
	out = append(out, vainCommands(before.Annotations, host)...)
	out = append(out, ofBMC(before, host)...)
	out = append(out, ofProtocol(before, host)...)
	if host.Spec.Cleaning == v1beta2.CleaningNone && before.Spec.Cleaning != v1beta2.CleaningNone {
		out = append(out, keptData("spec.cleaning"))
	}
	out = append(out, v.outlook.RootDisk(ctx, before, host)...)
	out = append(out, v.missingReferences(ctx, before, host)...)
	out = append(out, ofBootNetwork(before, host)...)
	if host.Spec.NetworkRef != before.Spec.NetworkRef {
		out = append(out, v.missingNetwork(ctx, host)...)
	}
	return out
}

// ofBMC warns of a BMC that anybody can stand before, of a CA that is none of BMCs', and
// of a BMC taken from a host in use.
func ofBMC(before, host *v1beta2.IngotHost) admission.Warnings {
	var out admission.Warnings
	if insecure(host) && !insecure(before) {
		out = append(out, "spec.bmc.insecureSkipVerify: with true whoever stands between Ingot and the BMC can read the password; "+
			"remove it and give caBundleRef or certificateFingerprint")
	}
	if firstUse(host) && !(firstUse(before) && bmcAddressOf(before) == bmcAddressOf(host)) {
		out = append(out, "spec.bmc.trustOnFirstUse: with true whoever stands between Ingot and the BMC at "+host.Spec.BMC.Address+
			" when it is first spoken to is trusted from then on; compare the fingerprint that the IngotHardware then has with the BMC's own, "+
			"or give certificateFingerprint instead")
	}
	if namesRootCA(host) && !namesRootCA(before) {
		out = append(out, fmt.Sprintf("spec.bmc.caBundleRef.name: %q is the CA of this cluster's own API server, which seldom signs BMCs' certificates, and no move "+
			"takes it along; name a ConfigMap with the CA of the BMCs", v1beta2.RootCAConfigMap))
	}
	if claim := host.Spec.Claim; claim != nil && before.Spec.BMC != nil && host.Spec.BMC == nil {
		out = append(out, fmt.Sprintf("spec.bmc: is removed from a host that IngotMachine %q uses; give it back, without it the server "+
			"can be neither switched nor fenced, and the machine not deleted", claim.MachineRef.Name))
	}
	return out
}

func insecure(host *v1beta2.IngotHost) bool {
	return host.Spec.BMC != nil && host.Spec.BMC.InsecureSkipVerify != nil && *host.Spec.BMC.InsecureSkipVerify
}

func firstUse(host *v1beta2.IngotHost) bool {
	return host.Spec.BMC != nil && host.Spec.BMC.TrustOnFirstUse != nil && *host.Spec.BMC.TrustOnFirstUse
}

func namesRootCA(host *v1beta2.IngotHost) bool {
	is := references(host)
	return is.ca == v1beta2.RootCAConfigMap && is.caKind == string(v1beta2.CABundleConfigMap)
}

// How Intel AMT is spoken to without TLS: with this port written (Intel AMT SDK, ports
// 16992 and 16993).
const (
	schemeAMT      = bmcaddress.VendorPrefix + "intelamt"
	portAMTInClear = 16992
)

// protocolRisk is what is weak about the way in which a BMC is spoken to.
type protocolRisk int

const (
	safe protocolRisk = iota
	inClear
	amtInClear
	byIPMI
	byEither
)

func riskOf(host *v1beta2.IngotHost) protocolRisk {
	address, err := bmcaddress.Parse(bmcAddressOf(host))
	switch {
	case err != nil, host.Spec.BMC == nil:
		return safe
	case address.Scheme == bmcaddress.RedfishHTTP:
		return inClear
	case address.Scheme == schemeAMT && address.Port == portAMTInClear:
		return amtInClear
	case address.Scheme == bmcaddress.IPMI:
		return byIPMI
	case address.Scheme == bmcaddress.Bare && !namesCertificate(host.Spec.BMC):
		return byEither
	}
	return safe
}

// namesCertificate: the BMC has to prove itself, so that it is not spoken to by IPMI
// whatever its address leaves open.
func namesCertificate(bmc *v1beta2.BMC) bool {
	return bmc.CABundleRef != nil || bmc.CertificateFingerprint != "" || bmc.TrustOnFirstUse != nil && *bmc.TrustOnFirstUse
}

// ofProtocol warns of a protocol that keeps the password, or the orders, less safe
// than Redfish over TLS does.
func ofProtocol(before, host *v1beta2.IngotHost) admission.Warnings {
	risk := riskOf(host)
	if risk == riskOf(before) {
		return nil
	}
	text := map[protocolRisk]string{
		inClear: "with %s the password travels in clear, and so does every order to the BMC; write redfish:// unless only a lab, or a TLS proxy, lies behind it",
		amtInClear: "with %s orders to the BMC and its answers can be read and changed on the way; leave the port out: " +
			"AMT then speaks TLS, on port 16993",
		byIPMI: "with %s whoever reaches the BMC is given a hash by which the password can be guessed at leisure (CVE-2013-4786), and nothing proves that " +
			"it is the BMC; write redfish:// if it speaks that, else give it a network of its own and a random password of 16 characters or more",
		byEither: "%s names no protocol: where Redfish is not heard, and anybody between can see to that, the password goes to IPMI, without a certificate; " +
			"write redfish:// or ipmi:// before it, or give caBundleRef or certificateFingerprint",
	}[risk]
	if text == "" {
		return nil
	}
	return admission.Warnings{"spec.bmc.address: " + fmt.Sprintf(text, host.Spec.BMC.Address)}
}

// keptData says what leaving the disks as they are means later (I12).
func keptData(path string) string {
	return path + ": with None the disks keep their data when the host is released, and the host then serves " +
		"only the same cluster; use Metadata to free it for others"
}

// missingReferences warns of a Secret or ConfigMap that does not exist yet: they may
// be applied in any order.
func (v *hostValidator) missingReferences(ctx context.Context, before, host *v1beta2.IngotHost) admission.Warnings {
	was, is := references(before), references(host)
	var out admission.Warnings
	if is.secret != was.secret && is.secret != "" && v.isMissing(ctx, "Secret", host.Namespace, is.secret) {
		out = append(out, missing("spec.bmc.credentialsRef.name", "Secret", is.secret,
			"create it with the keys username and password, until then the BMC is not contacted"))
	}
	if (is.ca != was.ca || is.caKind != was.caKind) && is.ca != "" && v.isMissing(ctx, is.caKind, host.Namespace, is.ca) {
		out = append(out, missing("spec.bmc.caBundleRef.name", is.caKind, is.ca,
			"create it with the key ca.crt, until then the BMC is not contacted"))
	}
	return out
}

// missingNetwork warns of a network that does not exist yet, or is full.
func (v *hostValidator) missingNetwork(ctx context.Context, host *v1beta2.IngotHost) admission.Warnings {
	name := host.Spec.NetworkRef.Name
	if err := v.hosts.Get(ctx, client.ObjectKey{Name: name}, &v1beta2.IngotNetwork{}); apierrors.IsNotFound(err) {
		return admission.Warnings{missing("spec.networkRef.name", "IngotNetwork", name, "create it, until then the host is not booted")}
	}
	return v.outlook.Crowded(ctx, host)
}

func missing(path, kind, name, then string) string {
	return fmt.Sprintf("%s: %s %q does not exist; %s", path, kind, name, then)
}

// isMissing asks for the metadata only, so that no credential comes near.
func (v *hostValidator) isMissing(ctx context.Context, kind, namespace, name string) bool {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return apierrors.IsNotFound(v.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}
