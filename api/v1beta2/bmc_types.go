// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

// BMC defines how Ingot connects to the baseboard management controller (BMC) of a server and how
// it verifies the BMC's TLS certificate. At most one of caBundleRef, certificateFingerprint,
// trustOnFirstUse and insecureSkipVerify can be set. If none is set, Ingot verifies the certificate
// with the CA certificates of the manager's system.
// +kubebuilder:validation:XValidation:rule="!(has(self.insecureSkipVerify) && self.insecureSkipVerify) || !(has(self.caBundleRef) || has(self.certificateFingerprint) || (has(self.trustOnFirstUse) && self.trustOnFirstUse))",fieldPath=".insecureSkipVerify",messageExpression="'must not be true together with ' + (has(self.caBundleRef) ? 'caBundleRef' : has(self.certificateFingerprint) ? 'certificateFingerprint' : 'trustOnFirstUse') + '; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!(has(self.trustOnFirstUse) && self.trustOnFirstUse) || !(has(self.caBundleRef) || has(self.certificateFingerprint))",fieldPath=".trustOnFirstUse",messageExpression="'must not be true together with ' + (has(self.caBundleRef) ? 'caBundleRef' : 'certificateFingerprint') + '; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!(has(self.certificateFingerprint) && has(self.caBundleRef))",fieldPath=".certificateFingerprint",messageExpression="self.certificateFingerprint + ' must not be set together with caBundleRef ' + self.caBundleRef.name + '; remove one of them, because a pinned certificate needs no CA'"
// +kubebuilder:validation:XValidation:rule="self.address.contains('@') || !(self.address.lowerAscii().startsWith('ipmi:') || self.address.lowerAscii().startsWith('redfish+http:')) || !(has(self.caBundleRef) || has(self.certificateFingerprint) || (has(self.trustOnFirstUse) && self.trustOnFirstUse) || (has(self.insecureSkipVerify) && self.insecureSkipVerify))",fieldPath=".address",messageExpression="self.address + ' does not use TLS, and ' + (has(self.caBundleRef) ? 'caBundleRef' : has(self.certificateFingerprint) ? 'certificateFingerprint' : has(self.trustOnFirstUse) && self.trustOnFirstUse ? 'trustOnFirstUse' : 'insecureSkipVerify') + ' has no effect; remove this field, or use a redfish:// address'"
// +kubebuilder:validation:XValidation:rule="!self.address.contains('@')",fieldPath=".address",message="must not contain a user name or password (the value is not repeated here); put them into the Secret that credentialsRef references"
type BMC struct {
	// address is the address of the BMC. The scheme selects the protocol: redfish:// (HTTPS),
	// redfish+http:// (unencrypted HTTP, for a lab or a TLS proxy), ipmi:// (IPMI 2.0) or
	// vendor+<driver>:// (a vendor driver). For an address without a scheme, Ingot probes for
	// Redfish first and then for IPMI. A port can follow the host. IPv6 addresses must be in
	// brackets. With redfish and redfish+http, the path /redfish/v1/Systems/<id> selects one of
	// several systems.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || !self.matches('^(idrac|ilo[45]|irmc|libvirt|redfish[+]https|redfish-[a-z]+)([-+][a-z-]+)?([+]https?)?://')",messageExpression="'has the format of Metal3; use ' + (self.startsWith('libvirt') ? 'ipmi://' : self.contains('+http:') ? 'redfish+http://' : 'redfish://') + (self.contains('virtualmedia') ? ' with bootMethod: VirtualMedia' : self.contains('uefihttp') ? ' with bootMethod: HTTP' : '')"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.matches('^(idrac|ilo[45]|irmc|libvirt|redfish[+]https|redfish-[a-z]+)([-+][a-z-]+)?([+]https?)?://') || self.matches('^(redfish([+]http)?://[^/@?#]+(/[^?#]*)?|(ipmi|vendor[+][a-z0-9]+(-[a-z0-9]+)*)://[^/@?#]+/?|[^]/@?#: []+(:[0-9]+)?|[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*:[0-9A-Fa-f:.]*|[[][0-9A-Fa-f:.]+[]](:[0-9]+)?)$')",message="must be redfish://host, redfish+http://host, ipmi://host, vendor+<driver>://host or a host without scheme, each with an optional :port; only redfish and redfish+http can have a path, /redfish/v1/Systems/<id>; a query or fragment is not allowed"
	Address string `json:"address,omitempty"`

	// credentialsRef references the Secret in the host's namespace that contains the BMC
	// credentials. The Secret must have the keys "username" and "password". While Ingot rotates the
	// password, the Secret also has the key "nextPassword".
	// +required
	CredentialsRef LocalReference `json:"credentialsRef,omitempty,omitzero"`

	// caBundleRef references a ConfigMap or Secret in the host's namespace. Its key "ca.crt"
	// contains the PEM-encoded CA certificates with which Ingot verifies the BMC's certificate.
	// +optional
	CABundleRef *CABundleReference `json:"caBundleRef,omitempty"`

	// certificateFingerprint pins the BMC's certificate. The value is "sha256:" followed by the
	// SHA-256 of the certificate's DER encoding in lowercase hexadecimal. Ingot accepts only this
	// certificate and ignores its issuer, names and validity period.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hex digits in lower case, without colons between them; openssl x509 -fingerprint -sha256 prints them with colons and in upper case"
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`

	// trustOnFirstUse pins the certificate that the BMC presents when Ingot first connects to its
	// address. Ingot stores the fingerprint in the host's IngotHardware. An attacker who intercepts
	// the first connection remains trusted. The default is false.
	// +optional
	TrustOnFirstUse *bool `json:"trustOnFirstUse,omitempty"`

	// insecureSkipVerify disables verification of the BMC's certificate. An attacker on the network
	// path can then read the BMC password. The default is false.
	// +optional
	InsecureSkipVerify *bool `json:"insecureSkipVerify,omitempty"`
}

// CABundleKind is the kind of object that contains CA certificates.
// +kubebuilder:validation:Enum=ConfigMap;Secret
type CABundleKind string

// The kinds of object that can contain CA certificates.
const (
	CABundleConfigMap CABundleKind = "ConfigMap"
	CABundleSecret    CABundleKind = "Secret"
)

// RootCAConfigMap is the name of the ConfigMap with the CA of the management cluster's API server.
// kube-controller-manager publishes it in every namespace. Its content differs between clusters,
// and clusterctl move does not move it.
const RootCAConfigMap = "kube-root-ca.crt"

// CABundleReference references an object in the same namespace that contains CA certificates.
type CABundleReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`

	// kind is the kind of the object, either ConfigMap or Secret. The default is ConfigMap.
	// +optional
	// +kubebuilder:default=ConfigMap
	Kind CABundleKind `json:"kind,omitempty"`
}

// PinnedBMC is the certificate that a BMC presented on first use. Ingot writes it if
// spec.bmc.trustOnFirstUse of the host is true.
type PinnedBMC struct {
	// address is the address of the BMC from which Ingot read the certificate. The pin applies to
	// this address only.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	Address string `json:"address,omitempty"`
	// certificateFingerprint is "sha256:" followed by the SHA-256 of the certificate's DER encoding
	// in lowercase hexadecimal.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=71
	// +kubebuilder:validation:XValidation:rule="self.matches('^sha256:[0-9a-f]{64}$')",message="must be sha256: and 64 hex digits in lower case"
	CertificateFingerprint string `json:"certificateFingerprint,omitempty"`
}
