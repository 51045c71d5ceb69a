// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// IngotMachineSpec asks for a server and says what to install on it. Everything
// but providerID is fixed once the object exists.
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.imageRef) || has(self.live)",fieldPath=".image",message="is required where there is neither imageRef nor live: say what to install",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.imageRef)",fieldPath=".imageRef.name",messageExpression="self.imageRef.name + ' must not be set beside image: leave one of them out'"
// +kubebuilder:validation:XValidation:rule="!has(self.live) || !has(self.image) && !has(self.imageRef)",fieldPath=".live.kernel.url",messageExpression="(self.live.kernel.url.contains('@') ? 'live' : self.live.kernel.url) + ' must not be set beside image or imageRef: a live system installs itself; leave one of them out'"
// +kubebuilder:validation:XValidation:rule="!has(self.live) || !has(self.networkData) || self.live.commandLine.contains('{seedURL}')",fieldPath=".live.commandLine",messageExpression="self.live.commandLine + ' must hold {seedURL} beside networkData, which a system reads by NoCloud only; or leave networkData out and configure the network by the bootstrap data'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.live)",fieldPath=".softwareRAID.level",messageExpression="self.softwareRAID.level + ' must not be set beside live: a live system makes its own mirror; leave softwareRAID out'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.softwareRAID.members) || !has(self.rootDeviceHints)",fieldPath=".softwareRAID.members",messageExpression="'hints of %d members must not be set beside rootDeviceHints, which would mean nothing; leave one of them out'.format([self.softwareRAID.members.size()])"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.serialNumber)",fieldPath=".rootDeviceHints.serialNumber",messageExpression="self.rootDeviceHints.serialNumber + ' names one disk, and softwareRAID needs two; give the hints of each in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.deviceName)",fieldPath=".rootDeviceHints.deviceName",messageExpression="self.rootDeviceHints.deviceName + ' names one disk, and softwareRAID needs two; give the hints of each in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.hctl)",fieldPath=".rootDeviceHints.hctl",messageExpression="self.rootDeviceHints.hctl + ' names one disk, and softwareRAID needs two; give the hints of each in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.cleaning) || self.cleaning != 'None'",fieldPath=".cleaning",messageExpression="self.cleaning + ' must not be set beside softwareRAID: what is left on one disk would start beside the next system on the other; set Metadata or Full, or leave it out'"
type IngotMachineSpec struct {
	// providerID is "ingot://<namespace>/<host>/<instanceID>". Ingot writes it
	// when it has chosen a host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^ingot://[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be ingot://<namespace>/<host>/<instanceID>; leave it out, Ingot sets it when it has chosen a host"
	ProviderID *string `json:"providerID,omitempty"`

	// failureDomain to place the machine in, where Machine.spec.failureDomain does
	// not say: the older way of contract v1beta1. Cluster API copies it to the
	// Machine once that is provisioned. Prefer Machine.spec.failureDomain.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostSelector says which hosts will do. Unset: any host of the cluster's.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// image to install. One of this, imageRef and live is set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`

	// imageRef names the IngotImage to install. Where it is and what its checksum is
	// are taken when the host is claimed; the host is of its architecture.
	// +optional
	ImageRef *ImageReference `json:"imageRef,omitempty"`

	// live system to start instead of installing an image: it installs itself.
	// +optional
	Live *v1beta2.LiveSystem `json:"live,omitempty"`

	// rootDeviceHints choose the disk to install to; they win over the host's.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// softwareRAID has the image installed on two disks at once, so that the server runs and
	// boots when one of them fails. Unset: on one disk.
	// +optional
	SoftwareRAID *v1beta2.SoftwareRAID `json:"softwareRAID,omitempty"`

	// cleaning at release; it wins over the host's. None is not possible beside
	// softwareRAID, and where the host says it, Metadata is done.
	// +optional
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// networkData is the network of the installed system. Unset: the system finds its own,
	// most often by DHCP on one of its interfaces.
	// +optional
	NetworkData *v1beta2.NetworkData `json:"networkData,omitempty"`

	// hostname of the installed system; unset: the name of the Machine, or, of one with more
	// than 63 characters, its beginning with a hash of it.
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
	// architecture is the architecture in Go's terms.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
}

// HardwareMinimum is the least that a host must have.
// +kubebuilder:validation:MinProperties=1
type HardwareMinimum struct {
	// cores counts physical cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Cores *int32 `json:"cores,omitempty"`
	// memory is the least memory, as a quantity, for example 64Gi. Ingot rounds the memory that
	// the server reports to whole GiB first, because firmware reserves a part.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the least size of the disk that the root device hints choose, as a quantity, for
	// example 480G. With softwareRAID it is the size of the smaller disk.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// ImageFormat is what an image file holds after decompression.
// +kubebuilder:validation:Enum=raw;qcow2
type ImageFormat string

// The formats.
const (
	// ImageFormatRaw is a raw disk image.
	ImageFormatRaw ImageFormat = "raw"
	// ImageFormatQcow2 is an image of QEMU's format, in one file and not encrypted.
	ImageFormatQcow2 ImageFormat = "qcow2"
)

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
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@') || self.url.startsWith('oci://') && !self.url.matches('^oci://[^/]*@')",fieldPath=".url",message="must not hold a user name or password (the value is not repeated here); serve the image where none is needed"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]qcow2([.](gz|xz|zst|zstd))?([?#].*)?$') || has(self.format) && self.format == 'qcow2'",fieldPath=".format",messageExpression="(has(self.format) ? self.format : 'raw') + ' is not the format of a url that ends in .qcow2, and no server would boot from it; set format to qcow2, or correct url'"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]raw([.](gz|xz|zst|zstd))?([?#].*)?$') || !has(self.format) || self.format == 'raw'",fieldPath=".format",messageExpression="self.format + ' is not the format of a url that ends in .raw; set format to raw, or correct url'"
type Image struct {
	// url of the image: http, https, or oci://registry/repository@sha256:… of an artefact
	// whose one layer is the image file. gzip, xz and zstd are recognised by content.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=2048
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || self.startsWith('oci://') || (isURL(self) && url(self).getScheme() in ['http', 'https'] && url(self).getHostname() != '')",message="must be an http, https or oci URL with a host, for example https://images.example/os.raw.zst"
	// +kubebuilder:validation:XValidation:rule="!self.startsWith('oci://') || self.matches('^oci://[^/]*@') || self.matches('^oci://([a-z0-9-]+([.][a-z0-9-]+)+(:[0-9]+)?|[a-z0-9-]+:[0-9]+)(/[a-z0-9]+([._-]+[a-z0-9]+)*)+@sha256:[0-9a-f]{64}$')",message="must be oci://registry/repository@sha256: and the 64 digits of the manifest's digest, without a tag, which may name another file tomorrow; oras resolve prints the digest"
	// +kubebuilder:validation:XValidation:rule="self.contains('@') || !self.lowerAscii().matches('[.](vmdk|vhdx?|vdi|ova|iso|tar([.](gz|xz|zst|bz2))?|tgz|zip|7z|bz2|lz4)([?#].*)?$')",message="names a file that cannot be installed: an image is raw or qcow2, as it is or compressed by gzip, xz or zstd; make one of it with qemu-img convert -O qcow2, and correct url"
	URL string `json:"url,omitempty"`
	// checksum of the file at the URL, of an artefact the digest of its layer:
	// "sha256:<hex>" or "sha512:<hex>".
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
// +kubebuilder:validation:XValidation:rule="!has(self.wwnVendorExtension) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().endsWith(self.wwnVendorExtension.lowerAscii().substring(2))",fieldPath=".wwnVendorExtension",messageExpression="self.wwnVendorExtension + ' is not the end of wwnWithExtension ' + self.wwnWithExtension + ', so no disk has both; correct or remove one'"
// +kubebuilder:validation:XValidation:rule="!has(self.wwn) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().startsWith(self.wwn.lowerAscii())",fieldPath=".wwn",messageExpression="self.wwn + ' is not the beginning of wwnWithExtension ' + self.wwnWithExtension + ', so no disk has both; correct or remove one'"
type RootDeviceHints struct {
	// deviceName is the kernel's name, for example "/dev/sda", or the disk's place, as
	// udev names it below /dev/disk/by-path, for example
	// "/dev/disk/by-path/pci-0000:00:1f.2-ata-1". The kernel's names change between boots:
	// prefer a place, a serial number or a WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=274
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/([A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+$') && !self.matches('^/dev/(disk|mapper|md)/') || self.matches('^/dev/disk/by-path/[A-Za-z0-9._:+-]+$')",message="must be a kernel name such as /dev/sda, or a place such as /dev/disk/by-path/pci-0000:00:1f.2-ata-1; for other paths below /dev/disk use serialNumber or wwn"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/disk/by-path/.*-part[0-9]+$')",messageExpression="self + ' is a partition: it must be the name of the whole disk, without -part and its number'"
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
	// wwn is the World Wide Name: the whole one, or, of one with a vendor's extension
	// (NAA 6, 32 digits), its first 16 digits, as udev's ID_WWN has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name with the vendor's extension, as udev's
	// ID_WWN_WITH_EXTENSION has it.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}([0-9a-fA-F]{16})?$')",message="must be 0x and 16 or 32 hexadecimal digits, as lsblk -o WWN or udev's ID_WWN_WITH_EXTENSION shows them; for other names (eui., nvme.) use wwn"
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// wwnVendorExtension is the vendor's extension alone, as udev's
	// ID_WWN_VENDOR_EXTENSION has it: the last 16 digits of a name with 32.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}$')",message="must be 0x and 16 hexadecimal digits, as udev's ID_WWN_VENDOR_EXTENSION shows them"
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// minSize is the smallest size that a disk may have, as a quantity, for example 480G.
	// Unset: the disk has at least 8G.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the largest size that a disk may have, as a quantity. Unset: no limit.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
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
// +kubebuilder:validation:Enum=None;Metadata;Full
type CleaningMode string

// The cleaning modes.
const (
	// CleaningNone leaves the disks as they are. The host then serves only the
	// cluster it served before (I12).
	CleaningNone CleaningMode = "None"
	// CleaningMetadata removes partition tables and signatures of every disk.
	CleaningMetadata CleaningMode = "Metadata"
	// CleaningFull erases the content of every disk, by the best means that it has:
	// minutes for flash, many hours for large spinning disks.
	CleaningFull CleaningMode = "Full"
)
