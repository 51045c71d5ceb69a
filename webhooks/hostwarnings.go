// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
)

// warningTimeout limits how long a request waits for its warnings.
const warningTimeout = time.Second

// warnings warns about valid but probably unintended values that are new since before, which is
// nil for a new host. It ignores errors of reading.
func (v *hostValidator) warnings(ctx context.Context, before, host *v1beta2.IngotHost) admission.Warnings {
	ctx, cancel := context.WithTimeout(ctx, warningTimeout)
	defer cancel()
	out := v.checker.MissingDomainLabels(ctx, before, host)
	if before == nil {
		before = &v1beta2.IngotHost{}
	}
	out = slices.Concat(out,
		unknownAnnotations(before.Annotations, host),
		commandWarnings(before.Annotations, host, v.clock.Now()),
		ineffectiveCommands(before.Annotations, host),
		bmcWarnings(before, host),
		protocolWarnings(before, host))
	if host.Spec.Cleaning == v1beta2.CleaningNone && before.Spec.Cleaning != v1beta2.CleaningNone {
		out = append(out, noCleaningWarning("spec.cleaning"))
	}
	out = slices.Concat(out,
		v.checker.RootDisk(ctx, before, host),
		v.missingReferences(ctx, before, host),
		bootNetworkWarnings(before, host))
	if host.Spec.NetworkRef != before.Spec.NetworkRef {
		out = append(out, v.missingNetwork(ctx, host)...)
	}
	return out
}

// bmcWarnings warns about a BMC whose identity is not verified, about a CA that is unlikely to sign
// BMC certificates, and about the removal of spec.bmc from a host in use.
func bmcWarnings(before, host *v1beta2.IngotHost) admission.Warnings {
	var out admission.Warnings
	if skipsVerify(host) && !skipsVerify(before) {
		out = append(out, "spec.bmc.insecureSkipVerify: true lets an attacker between Ingot and the BMC read the password; "+
			"remove it, and set caBundleRef or certificateFingerprint")
	}
	if trustsFirstUse(host) && !(trustsFirstUse(before) && bmcAddressOf(before) == bmcAddressOf(host)) {
		out = append(out, "spec.bmc.trustOnFirstUse: true trusts the server that answers first at "+host.Spec.BMC.Address+
			"; compare the fingerprint in the IngotHardware with the BMC's own, or set certificateFingerprint instead")
	}
	if usesRootCA(host) && !usesRootCA(before) {
		out = append(out, fmt.Sprintf("spec.bmc.caBundleRef.name: %q is the CA of this cluster's API server, which rarely signs BMC certificates, "+
			"and clusterctl move does not move it; name a ConfigMap with the CA of the BMCs", v1beta2.RootCAConfigMap))
	}
	if claim := host.Spec.Claim; claim != nil && before.Spec.BMC != nil && host.Spec.BMC == nil {
		out = append(out, fmt.Sprintf("spec.bmc: is removed, but IngotMachine %q uses the host; restore it: without it Ingot "+
			"cannot power the server or delete the machine", claim.MachineRef.Name))
	}
	return out
}

func skipsVerify(host *v1beta2.IngotHost) bool {
	return host.Spec.BMC != nil && ptr.Deref(host.Spec.BMC.InsecureSkipVerify, false)
}

func trustsFirstUse(host *v1beta2.IngotHost) bool {
	return host.Spec.BMC != nil && ptr.Deref(host.Spec.BMC.TrustOnFirstUse, false)
}

func usesRootCA(host *v1beta2.IngotHost) bool {
	is := bmcReferences(host)
	return is.ca == v1beta2.RootCAConfigMap && is.caKind == string(v1beta2.CABundleConfigMap)
}

// Intel AMT uses no TLS on this port, and TLS on 16993 (Intel AMT SDK).
const (
	schemeAMT        = bmcaddress.VendorPrefix + "intelamt"
	portAMTPlaintext = 16992
)

// protocolRisk is the weakness of the protocol to a BMC.
type protocolRisk int

const (
	safe protocolRisk = iota
	redfishPlaintext
	amtPlaintext
	ipmi
	redfishOrIPMI
)

func protocolRiskOf(host *v1beta2.IngotHost) protocolRisk {
	address, err := bmcaddress.Parse(bmcAddressOf(host))
	switch {
	case err != nil, host.Spec.BMC == nil:
		return safe
	case address.Scheme == bmcaddress.RedfishHTTP:
		return redfishPlaintext
	case address.Scheme == schemeAMT && address.Port == portAMTPlaintext:
		return amtPlaintext
	case address.Scheme == bmcaddress.IPMI:
		return ipmi
	case address.Scheme == bmcaddress.Bare && !requiresCertificate(host.Spec.BMC):
		return redfishOrIPMI
	}
	return safe
}

// requiresCertificate reports whether the BMC must present a certificate, which excludes IPMI.
func requiresCertificate(bmc *v1beta2.BMC) bool {
	return bmc.CABundleRef != nil || bmc.CertificateFingerprint != "" || ptr.Deref(bmc.TrustOnFirstUse, false)
}

// protocolWarnings warns about a protocol that is less safe than Redfish over TLS.
func protocolWarnings(before, host *v1beta2.IngotHost) admission.Warnings {
	risk := protocolRiskOf(host)
	if risk == protocolRiskOf(before) {
		return nil
	}
	text := map[protocolRisk]string{
		redfishPlaintext: "%s sends the password and all commands unencrypted; use redfish://, except in a lab or behind a TLS proxy",
		amtPlaintext:     "%s sends all commands unencrypted; remove the port: AMT then uses TLS on port 16993",
		ipmi: "%s lets every client that reaches the BMC get a hash to guess the password from (CVE-2013-4786), and the BMC does not prove its identity; " +
			"use redfish:// if the BMC supports it, else an isolated network and a random password of at least 16 characters",
		redfishOrIPMI: "%s names no protocol: if Redfish does not answer, which an attacker can cause, the password goes to IPMI without a certificate; " +
			"add redfish:// or ipmi://, or set caBundleRef or certificateFingerprint",
	}[risk]
	if text == "" {
		return nil
	}
	return admission.Warnings{"spec.bmc.address: " + fmt.Sprintf(text, host.Spec.BMC.Address)}
}

// noCleaningWarning warns about the consequence of cleaning mode None (I12).
func noCleaningWarning(path string) string {
	return path + ": with None the disks keep their data on release, and only the same cluster can use the host again; " +
		"use Metadata to make it available to others"
}

// missingReferences warns about a Secret or ConfigMap that does not exist yet. Objects may be
// applied in any order.
func (v *hostValidator) missingReferences(ctx context.Context, before, host *v1beta2.IngotHost) admission.Warnings {
	was, is := bmcReferences(before), bmcReferences(host)
	var out admission.Warnings
	if is.secret != was.secret && is.secret != "" && v.isMissing(ctx, "Secret", host.Namespace, is.secret) {
		out = append(out, missing("spec.bmc.credentialsRef.name", "Secret", is.secret,
			"create it with the keys username and password: Ingot does not contact the BMC until then"))
	}
	if (is.ca != was.ca || is.caKind != was.caKind) && is.ca != "" && v.isMissing(ctx, is.caKind, host.Namespace, is.ca) {
		out = append(out, missing("spec.bmc.caBundleRef.name", is.caKind, is.ca,
			"create it with the key ca.crt: Ingot does not contact the BMC until then"))
	}
	return out
}

// missingNetwork warns about a network that does not exist yet or has no free address.
func (v *hostValidator) missingNetwork(ctx context.Context, host *v1beta2.IngotHost) admission.Warnings {
	name := host.Spec.NetworkRef.Name
	if err := v.hosts.Get(ctx, client.ObjectKey{Name: name}, &v1beta2.IngotNetwork{}); apierrors.IsNotFound(err) {
		return admission.Warnings{missing("spec.networkRef.name", "IngotNetwork", name, "create it: Ingot does not boot the host until then")}
	}
	return v.checker.FullNetwork(ctx, host)
}

func missing(path, kind, name, remedy string) string {
	return fmt.Sprintf("%s: %s %q does not exist; %s", path, kind, name, remedy)
}

// isMissing reads only the metadata, so that it never holds credentials.
func (v *hostValidator) isMissing(ctx context.Context, kind, namespace, name string) bool {
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind(kind))
	return apierrors.IsNotFound(v.live.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, object))
}
