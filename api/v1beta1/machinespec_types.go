// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// IngotMachineSpec asks for a server and says what to install on it. Everything
// but providerID is fixed once the object exists.
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.imageRef)",fieldPath=".image",message="is required where imageRef names no IngotImage: say what to install",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.imageRef)",fieldPath=".imageRef.name",messageExpression="self.imageRef.name + ' must not be set beside image: leave one of them out'"
type IngotMachineSpec struct {
	// providerID is "ingot://<namespace>/<host>/<instanceID>" (M15). Ingot writes it
	// when it has chosen a host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^ingot://[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be ingot://<namespace>/<host>/<instanceID>; leave it out, Ingot sets it when it has chosen a host"
	ProviderID *string `json:"providerID,omitempty"`

	// failureDomain to place the machine in, where Machine.spec.failureDomain does
	// not say: the older way of contract v1beta1 (M18). Cluster API copies it to the
	// Machine once that is provisioned. Prefer Machine.spec.failureDomain.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostSelector says which hosts will do. Unset: any host of the cluster's.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// image to install. Either this or imageRef is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`

	// imageRef names the IngotImage to install. Where it is and what its checksum is
	// are taken when the host is claimed; the host is of its architecture.
	// +optional
	ImageRef *ImageReference `json:"imageRef,omitempty"`

	// rootDeviceHints choose the disk to install to; they win over the host's.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// cleaning at release; it wins over the host's.
	// +optional
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// networkData is the network of the installed system. Unset: the system finds its own,
	// most often by DHCP on one of its interfaces. Its type is that of v1beta2, which no
	// older form of it preceded.
	// +optional
	NetworkData *v1beta2.NetworkData `json:"networkData,omitempty"`

	// hostname of the installed system; unset: the name of the Machine.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be one label of a DNS name: lower case letters, digits and -; the domain comes from the IngotNetwork"
	Hostname string `json:"hostname,omitempty"`
}

// HostSelector says which hosts will do. All that is set must hold.
// +kubebuilder:validation:MinProperties=1
type HostSelector struct {
	// matchLabels of the IngotHost.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions on the labels of the IngotHost.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
	// minimum hardware.
	// +optional
	Minimum *HardwareMinimum `json:"minimum,omitempty"`
	// arch is the architecture in Go's terms.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Arch string `json:"arch,omitempty"`
}

// HardwareMinimum is the least that a host must have.
// +kubebuilder:validation:MinProperties=1
type HardwareMinimum struct {
	// cores counts physical cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Cores *int32 `json:"cores,omitempty"`
	// memoryGiB is in GiB.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000000
	MemoryGiB *int64 `json:"memoryGiB,omitempty"`
	// diskGB is the size of the disk that the root device hints choose, in 10^9 bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	DiskGB *int64 `json:"diskGB,omitempty"`
}

// ImageFormat is what an image file holds after decompression.
// +kubebuilder:validation:Enum=raw
type ImageFormat string

// ImageFormatRaw is a raw disk image.
const ImageFormatRaw ImageFormat = "raw"

// ImageReference names a cluster-scoped IngotImage.
type ImageReference struct {
	// name of the IngotImage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example ubuntu-24.04-v1.34.2)"
	Name string `json:"name,omitempty"`
}

// Image is an operating system image.
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@')",fieldPath=".url",message="must not hold a user name or password (the value is not repeated here); serve the image where none is needed"
type Image struct {
	// url of the image, http or https. gzip and zstd are recognised by content.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http or https URL with a host, for example https://images.example/os.raw.zst"
	URL string `json:"url,omitempty"`
	// checksum of the file at the URL: "sha256:<hex>" or "sha512:<hex>".
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	// +kubebuilder:validation:XValidation:rule="self.matches('^(sha256:[0-9a-f]{64}|sha512:[0-9a-f]{128})$')",message="must be sha256: and 64, or sha512: and 128 hexadecimal digits in lower case, as sha256sum prints them for the file at the URL"
	Checksum string `json:"checksum,omitempty"`
	// format of the decompressed file.
	// +optional
	// +kubebuilder:default=raw
	Format ImageFormat `json:"format,omitempty"`
}

// RootDeviceHints choose one disk. A disk is chosen when every hint that is set
// holds; where several do, the smallest one that is big enough, then the first by
// serial number, WWN and path. At least one hint is set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.minSizeGigabytes) || !has(self.maxSizeGigabytes) || self.minSizeGigabytes <= self.maxSizeGigabytes",fieldPath=".minSizeGigabytes",messageExpression="'%d must not be above maxSizeGigabytes %d; lower the one or raise the other'.format([self.minSizeGigabytes, self.maxSizeGigabytes])"
type RootDeviceHints struct {
	// deviceName is the kernel's name, for example "/dev/sda". Names change
	// between boots: prefer a serial number or a WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=64
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/[A-Za-z0-9._-]+$')",message="must be a kernel name such as /dev/sda; for a path below /dev/disk use serialNumber, wwn or hctl"
	DeviceName string `json:"deviceName,omitempty"`
	// hctl is the SCSI address host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+:[0-9]+:[0-9]+:[0-9]+$')",message="must be host:channel:target:lun in numbers, for example 2:0:0:0"
	HCTL string `json:"hctl,omitempty"`
	// model is a part of the model's name, in any case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// vendor is a part of the vendor's name, in any case.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is the whole serial number.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the whole World Wide Name.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// minSizeGigabytes and maxSizeGigabytes bound the size, in 10^9 bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	MinSizeGigabytes *int64 `json:"minSizeGigabytes,omitempty"`
	// maxSizeGigabytes is the upper bound, in 10^9 bytes.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000000
	MaxSizeGigabytes *int64 `json:"maxSizeGigabytes,omitempty"`
	// rotational asks for a spinning disk (true) or a flash disk (false).
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// LocalReference names an object in the same namespace.
type LocalReference struct {
	// name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// CleaningMode is how a host is cleaned when it is released.
// +kubebuilder:validation:Enum=None;Metadata
type CleaningMode string

// The cleaning modes.
const (
	// CleaningNone leaves the disks as they are. The host then serves only the
	// cluster it served before (I12).
	CleaningNone CleaningMode = "None"
	// CleaningMetadata removes partition tables and signatures of every disk.
	CleaningMetadata CleaningMode = "Metadata"
)
