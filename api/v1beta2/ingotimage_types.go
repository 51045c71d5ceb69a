// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// IngotImageSpec defines the desired state of an IngotImage. All fields except url and sizeBytes
// are immutable, so that the name always refers to the same content.
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@') || self.url.startsWith('oci://') && !self.url.matches('^oci://[^/]*@')",fieldPath=".url",message="must not contain a user name or password (the value is not repeated here); serve the image without credentials"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]qcow2([.](gz|xz|zst|zstd))?([?#].*)?$') || has(self.format) && self.format == 'qcow2'",fieldPath=".format",messageExpression="(has(self.format) ? self.format : 'raw') + ' is not the format of a url that ends in .qcow2; set format to qcow2, or correct url'"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]raw([.](gz|xz|zst|zstd))?([?#].*)?$') || !has(self.format) || self.format == 'raw'",fieldPath=".format",messageExpression="self.format + ' is not the format of a url that ends in .raw; set format to raw, or correct url'"
// +kubebuilder:validation:XValidation:rule="self.checksum == oldSelf.checksum",fieldPath=".checksum",message="is immutable, because templates name the image; create another IngotImage for other content"
// +kubebuilder:validation:XValidation:rule="self.kubernetesVersion == oldSelf.kubernetesVersion",fieldPath=".kubernetesVersion",messageExpression="oldSelf.kubernetesVersion + ' is immutable, because templates name the image; create another IngotImage for ' + self.kubernetesVersion"
// +kubebuilder:validation:XValidation:rule="self.architecture == oldSelf.architecture",fieldPath=".architecture",messageExpression="oldSelf.architecture + ' is immutable, because templates name the image; create another IngotImage for ' + self.architecture"
// +kubebuilder:validation:XValidation:rule="self.os == oldSelf.os",fieldPath=".os",messageExpression="oldSelf.os + ' is immutable, because templates name the image; create another IngotImage for ' + self.os"
// +kubebuilder:validation:XValidation:rule="self.format == oldSelf.format",fieldPath=".format",message="is immutable, because templates name the image; create another IngotImage for another file"
type IngotImageSpec struct {
	// kubernetesVersion is the Kubernetes version that the image contains, in the format of
	// Cluster.spec.topology.version.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^v(0|[1-9][0-9]*)[.](0|[1-9][0-9]*)[.](0|[1-9][0-9]*)(-[0-9A-Za-z.-]+)?([+][0-9A-Za-z.-]+)?$')",message="must be a version such as v1.34.2"
	KubernetesVersion string `json:"kubernetesVersion,omitempty"`
	// os is the operating system of the image, for example ubuntu-24.04. Templates can select
	// images by it.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be lower case letters, digits, - and . (for example ubuntu-24.04)"
	OS string `json:"os,omitempty"`
	// architecture is the processor architecture of the image as a GOARCH value, either amd64 or
	// arm64. Machines that reference the image use only hosts of this architecture.
	// +required
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
	// url is the URL of the image: http, https, or oci://registry/repository@sha256:… for an OCI
	// artifact. The single layer of the artifact must be the image file. Ingot detects gzip, xz and
	// zstd compression. You can change the URL if the file moves, because the checksum identifies
	// the content.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.startsWith('oci://') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http, https or oci URL with a host, for example https://images.example/os.raw.zst"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.matches('^oci://[^/]*@') || self.matches('^oci://([a-z0-9-]+([.][a-z0-9-]+)+(:[0-9]+)?|[a-z0-9-]+:[0-9]+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+@sha256:[0-9a-f]{64}$')",message="must be oci://registry/repository@sha256: and the 64 digits of the manifest's digest, without a tag, because tags can change; the command oras resolve prints the digest"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || !self.lowerAscii().matches('[.](vmdk|vhdx?|vdi|ova|iso|tar([.](gz|xz|zst|bz2))?|tgz|zip|7z|bz2|lz4)([?#].*)?$')",message="must be a raw or qcow2 image, optionally compressed by gzip, xz or zstd; convert the file with qemu-img convert -O qcow2"
	URL string `json:"url,omitempty"`
	// checksum is the checksum of the file: "sha256:<hex>" or "sha512:<hex>". For an OCI artifact,
	// it is the digest of the layer.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
	// format is the format of the file after decompression, either raw or qcow2. The default is
	// raw.
	// +optional
	// +kubebuilder:default=raw
	Format ImageFormat `json:"format,omitempty"`
	// sizeBytes is the size of the file at the URL in bytes. If the server reports another size,
	// the image is not Reachable. If unset, Ingot does not compare the size.
	// +optional
	// +kubebuilder:validation:Minimum=1
	SizeBytes *int64 `json:"sizeBytes,omitempty"`
}

// Image returns what a claim freezes of it.
func (s IngotImageSpec) Image() Image {
	return Image{URL: s.URL, Checksum: s.Checksum, Format: s.Format}
}

// IngotImageStatus defines the observed state of an IngotImage.
type IngotImageStatus struct {
	// conditions represents the observations of the image's current state. The condition type is
	// Reachable.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// observedGeneration is the latest metadata.generation that Ingot has reconciled. If it is
	// lower than metadata.generation, the status does not reflect the latest spec.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// lastCheckTime is the time at which Ingot last requested the URL.
	// +optional
	LastCheckTime metav1.Time `json:"lastCheckTime,omitempty,omitzero"`
	// checkedURL is the URL that Ingot last requested.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	CheckedURL string `json:"checkedURL,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotimages,shortName=iimg,scope=Cluster,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Kubernetes",type=string,JSONPath=`.spec.kubernetesVersion`
// +kubebuilder:printcolumn:name="OS",type=string,JSONPath=`.spec.os`
// +kubebuilder:printcolumn:name="Arch",type=string,JSONPath=`.spec.architecture`
// +kubebuilder:printcolumn:name="Reachable",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].status`
// +kubebuilder:printcolumn:name="Checked",type=date,JSONPath=`.status.lastCheckTime`
// +kubebuilder:printcolumn:name="URL",type=string,JSONPath=`.spec.url`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Reachable")].message`

// IngotImage is an operating system image that IngotMachines and templates can reference by name.
// It is cluster-scoped and must not contain secrets.
type IngotImage struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotImage.
	// +required
	Spec IngotImageSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotImage. Only Ingot writes it.
	// +optional
	Status IngotImageStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (i *IngotImage) GetConditions() []metav1.Condition { return i.Status.Conditions }

// SetConditions replaces the conditions.
func (i *IngotImage) SetConditions(conditions []metav1.Condition) { i.Status.Conditions = conditions }

// +kubebuilder:object:root=true

// IngotImageList is a list of IngotImages.
type IngotImageList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotImage `json:"items"`
}
