// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// BMC says how to reach and trust a management controller. At most one of
// caBundleRef, certificateFingerprint, trustOnFirstUse and insecureSkipVerify says
// how its certificate is trusted; none: the certificates of the manager's system.
// +kubebuilder:validation:XValidation:rule="!(has(self.insecureSkipVerify) && self.insecureSkipVerify) || !(has(self.caBundleRef) || has(self.certificateFingerprint) || (has(self.trustOnFirstUse) && self.trustOnFirstUse))",fieldPath=".insecureSkipVerify",messageExpression="'must not be true together with ' + (has(self.caBundleRef) ? 'caBundleRef' : has(self.certificateFingerprint) ? 'certificateFingerprint' : 'trustOnFirstUse') + '; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!(has(self.trustOnFirstUse) && self.trustOnFirstUse) || !(has(self.caBundleRef) || has(self.certificateFingerprint))",fieldPath=".trustOnFirstUse",messageExpression="'must not be true together with ' + (has(self.caBundleRef) ? 'caBundleRef' : 'certificateFingerprint') + '; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!(has(self.certificateFingerprint) && has(self.caBundleRef))",fieldPath=".certificateFingerprint",messageExpression="self.certificateFingerprint + ' must not be given together with caBundleRef ' + self.caBundleRef.name + '; remove one of them: a pinned certificate needs no CA'"
// +kubebuilder:validation:XValidation:rule="self.address.contains('@') || !(self.address.lowerAscii().startsWith('ipmi:') || self.address.lowerAscii().startsWith('redfish+http:')) || !(has(self.caBundleRef) || has(self.certificateFingerprint) || (has(self.trustOnFirstUse) && self.trustOnFirstUse) || (has(self.insecureSkipVerify) && self.insecureSkipVerify))",fieldPath=".address",messageExpression="self.address + ' speaks no TLS, so that there is no certificate to which ' + (has(self.caBundleRef) ? 'caBundleRef' : has(self.certificateFingerprint) ? 'certificateFingerprint' : has(self.trustOnFirstUse) && self.trustOnFirstUse ? 'trustOnFirstUse' : 'insecureSkipVerify') + ' could apply; remove that field, or give a redfish:// address'"
// +kubebuilder:validation:XValidation:rule="!self.address.contains('@')",fieldPath=".address",message="must not hold a user name or password (the value is not repeated here); put them into the Secret that credentialsRef names"
type BMC struct {
	// address of the BMC and how it is spoken to: redfish://host speaks HTTPS,
	// redfish+http://host in clear (for a lab, or behind a TLS proxy), ipmi://host
	// IPMI 2.0, vendor+<driver>://host a maker's own way. A host alone is asked for
	// Redfish, then for IPMI. A port may follow the host, and the path
	// /redfish/v1/Systems/<id> behind redfish and redfish+http names one of several
	// systems. IPv6 addresses stand in brackets.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || !self.matches('^(idrac|ilo[45]|irmc|libvirt|redfish[+]https|redfish-[a-z]+)([-+][a-z-]+)?([+]https?)?://')",messageExpression="'is an address of Metal3; write ' + (self.startsWith('libvirt') ? 'ipmi://' : self.contains('+http:') ? 'redfish+http://' : 'redfish://') + (self.contains('virtualmedia') ? ' with bootMethod: VirtualMedia' : self.contains('uefihttp') ? ' with bootMethod: HTTP' : '')"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.matches('^(idrac|ilo[45]|irmc|libvirt|redfish[+]https|redfish-[a-z]+)([-+][a-z-]+)?([+]https?)?://') || self.matches('^(redfish([+]http)?://[^/@?#]+(/[^?#]*)?|(ipmi|vendor[+][a-z0-9]+(-[a-z0-9]+)*)://[^/@?#]+/?|[^]/@?#: []+(:[0-9]+)?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|[[][0-9A-Fa-f:.]+[]](:[0-9]+)?)$')",message="must be redfish://host, redfish+http://host, ipmi://host, vendor+<driver>://host or a host alone, each with an optional :port; only behind redfish and redfish+http may follow a path, /redfish/v1/Systems/<id>; no query, no fragment"
	Address string `json:"address,omitempty"`

	// credentialsRef names the Secret in the host's namespace with the keys
	// "username" and "password". During a rotation of the password it has the key
	// "nextPassword" as well.
	// +required
	CredentialsRef LocalReference `json:"credentialsRef,omitempty,omitzero"`

	// caBundleRef names a ConfigMap or Secret in the host's namespace whose key
	// "ca.crt" holds the PEM certificates that the BMC's certificate is verified with.
	// +optional
	CABundleRef *CABundleReference `json:"caBundleRef,omitempty"`

	// certificateFingerprint pins the BMC's certificate: "sha256:" and the SHA-256 of
	// its DER form in hex. That certificate is trusted whoever signed it, whatever
	// name and dates it has, and no other is.
	// +optional
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hex digits in lower case, without colons between them; openssl x509 -fingerprint -sha256 prints them with colons and in upper case"
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`

	// trustOnFirstUse pins the certificate that the BMC presents when it is first
	// spoken to at its address. The pin is kept in the IngotHardware of the host. Who
	// stands between Ingot and the BMC at that moment is trusted from then on.
	// +optional
	TrustOnFirstUse *bool `json:"trustOnFirstUse,omitempty"`

	// insecureSkipVerify accepts any certificate: passwords can then be read by
	// whoever stands between Ingot and the BMC.
	// +optional
	InsecureSkipVerify *bool `json:"insecureSkipVerify,omitempty"`
}

// CABundleKind is the kind of an object that holds certificates.
// +kubebuilder:validation:Enum=ConfigMap;Secret
type CABundleKind string

// The kinds.
const (
	CABundleConfigMap CABundleKind = "ConfigMap"
	CABundleSecret    CABundleKind = "Secret"
)

// RootCAConfigMap is what kube-controller-manager publishes in every namespace: the CA
// of the cluster's own API server. Each cluster has its own, and no move takes it along.
const RootCAConfigMap = "kube-root-ca.crt"

// CABundleReference names an object in the same namespace that holds certificates.
type CABundleReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`

	// kind of the object.
	// +optional
	// +kubebuilder:default=ConfigMap
	Kind CABundleKind `json:"kind,omitempty"`
}

// PinnedBMC is what a BMC presented at its first use (spec.bmc.trustOnFirstUse).
type PinnedBMC struct {
	// address of the BMC; another one has another certificate.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Address string `json:"address,omitempty"`
	// certificateFingerprint is "sha256:" and the SHA-256 of the certificate's DER
	// form in hex.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hex digits in lower case"
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
}
