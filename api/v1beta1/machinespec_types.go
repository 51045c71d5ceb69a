// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta1

import (
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// IngotMachineSpec defines the desired state of an IngotMachine. All fields except providerID,
// hostSelector and cleaning are immutable.
// +kubebuilder:validation:XValidation:rule="has(self.image) || has(self.imageRef) || has(self.live)",fieldPath=".image",message="is required if neither imageRef nor live is set",reason=FieldValueRequired
// +kubebuilder:validation:XValidation:rule="!has(self.image) || !has(self.imageRef)",fieldPath=".imageRef.name",messageExpression="self.imageRef.name + ' must not be set together with image; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.live) || !has(self.image) && !has(self.imageRef)",fieldPath=".live.kernel.url",messageExpression="(self.live.kernel.url.contains('@') ? 'live' : self.live.kernel.url) + ' must not be set together with image or imageRef; remove one of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.live) || !has(self.networkData) || self.live.commandLine.contains('{seedURL}')",fieldPath=".live.commandLine",messageExpression="self.live.commandLine + ' must contain {seedURL} if networkData is set, because systems read it from NoCloud only; add it, or remove networkData and configure the network by the bootstrap data'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.live)",fieldPath=".softwareRAID.level",messageExpression="self.softwareRAID.level + ' must not be set together with live; remove softwareRAID, because a live system creates its own mirror'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.softwareRAID.members) || !has(self.rootDeviceHints)",fieldPath=".softwareRAID.members",messageExpression="'hints of %d members must not be set together with rootDeviceHints; remove one of them'.format([self.softwareRAID.members.size()])"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.serialNumber)",fieldPath=".rootDeviceHints.serialNumber",messageExpression="self.rootDeviceHints.serialNumber + ' identifies one disk, and softwareRAID needs two; remove it and set the hints of each disk in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.deviceName)",fieldPath=".rootDeviceHints.deviceName",messageExpression="self.rootDeviceHints.deviceName + ' identifies one disk, and softwareRAID needs two; remove it and set the hints of each disk in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.rootDeviceHints) || !has(self.rootDeviceHints.hctl)",fieldPath=".rootDeviceHints.hctl",messageExpression="self.rootDeviceHints.hctl + ' identifies one disk, and softwareRAID needs two; remove it and set the hints of each disk in softwareRAID.members'"
// +kubebuilder:validation:XValidation:rule="!has(self.softwareRAID) || !has(self.cleaning) || self.cleaning != 'None'",fieldPath=".cleaning",messageExpression="self.cleaning + ' must not be set together with softwareRAID, because the old system on one disk could boot; set it to Metadata or Full, or remove it'"
type IngotMachineSpec struct {
	// providerID is the provider ID of the Node, ingot://<namespace>/<host>/<instanceID>. Ingot
	// sets it when it claims a host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=512
	// +kubebuilder:validation:XValidation:rule="self.matches('^ingot://[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$')",message="must be ingot://<namespace>/<host>/<instanceID>; remove it, because Ingot sets it when it claims a host"
	ProviderID *string `json:"providerID,omitempty"`

	// failureDomain is the failure domain of the machine if Machine.spec.failureDomain is unset. It
	// exists for contract v1beta1: Cluster API copies it to the provisioned Machine. Prefer
	// Machine.spec.failureDomain.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostSelector selects the hosts that the machine can use. If unset, the machine can use all
	// hosts of its cluster. It is immutable until the machine has a host, and a later change does
	// not move the machine.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`

	// image is the image that Ingot installs. Exactly one of image, imageRef and live must be set.
	// +optional
	Image Image `json:"image,omitempty,omitzero"`

	// imageRef references the IngotImage that Ingot installs. Ingot copies the URL and the checksum
	// when it claims a host. The host must have the architecture of the image.
	// +optional
	ImageRef *ImageReference `json:"imageRef,omitempty"`

	// live is a live system that installs itself. Ingot boots it instead of installing an image.
	// +optional
	Live *v1beta2.LiveSystem `json:"live,omitempty"`

	// rootDeviceHints select the disk to which Ingot installs. They override the hints of the host.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// softwareRAID installs the image on two mirrored disks, so that the server survives the
	// failure of one disk. If unset, Ingot installs on one disk.
	// +optional
	SoftwareRAID *v1beta2.SoftwareRAID `json:"softwareRAID,omitempty"`

	// cleaning is how Ingot cleans the disks when it releases the host: None, Metadata or Full. It
	// overrides the setting of the host. None is not allowed together with softwareRAID. With
	// softwareRAID, Ingot uses Metadata if the host has None. A change also applies to a machine
	// that has a host.
	// +optional
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// networkData is the network configuration of the installed system. If unset, the system
	// configures its network itself, usually with DHCP.
	// +optional
	NetworkData *v1beta2.NetworkData `json:"networkData,omitempty"`

	// hostname is the hostname of the installed system. The default is the name of the Machine. If
	// this name has more than 63 characters, Ingot shortens it and appends a hash.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?$')",message="must be one label of a DNS name: lower case letters, digits and -; the domain comes from the IngotNetwork"
	Hostname string `json:"hostname,omitempty"`
}

// HostSelector selects IngotHosts. A host must match all fields that are set.
// +kubebuilder:validation:MinProperties=1
type HostSelector struct {
	// matchLabels are labels that the IngotHost must have.
	// +optional
	// +kubebuilder:validation:MaxProperties=32
	MatchLabels map[string]string `json:"matchLabels,omitempty"`
	// matchExpressions are label selector requirements that the IngotHost must meet.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	MatchExpressions []metav1.LabelSelectorRequirement `json:"matchExpressions,omitempty"`
	// minimum is the minimum hardware of the host.
	// +optional
	Minimum *HardwareMinimum `json:"minimum,omitempty"`
	// architecture is the processor architecture of the host as a GOARCH value, either amd64 or
	// arm64.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
}

// HardwareMinimum is the minimum hardware that a host must have.
// +kubebuilder:validation:MinProperties=1
type HardwareMinimum struct {
	// cores is the minimum number of physical cores.
	// +optional
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=100000
	Cores *int32 `json:"cores,omitempty"`
	// memory is the minimum memory as a quantity, for example 64Gi. Ingot rounds the memory that
	// the server reports to whole GiB first, because firmware reserves a part.
	// +optional
	Memory *resource.Quantity `json:"memory,omitempty"`
	// disk is the minimum size of the disk that the root device hints select, as a quantity, for
	// example 480G. With softwareRAID, it is the minimum size of the smaller disk.
	// +optional
	Disk *resource.Quantity `json:"disk,omitempty"`
}

// ImageFormat is the format of an image file after decompression.
// +kubebuilder:validation:Enum=raw;qcow2
type ImageFormat string

// The image formats.
const (
	// ImageFormatRaw is a raw disk image.
	ImageFormatRaw ImageFormat = "raw"
	// ImageFormatQcow2 is a QEMU qcow2 image in one file, without encryption.
	ImageFormatQcow2 ImageFormat = "qcow2"
)

// ImageReference references a cluster-scoped IngotImage.
type ImageReference struct {
	// name is the name of the IngotImage.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example ubuntu-24.04-v1.34.2)"
	Name string `json:"name,omitempty"`
}

// Image is an operating system image.
// +kubebuilder:validation:XValidation:rule="!self.url.contains('@') || self.url.startsWith('oci://') && !self.url.matches('^oci://[^/]*@')",fieldPath=".url",message="must not contain a user name or password (the value is not repeated here); serve the image without credentials"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]qcow2([.](gz|xz|zst|zstd))?([?#].*)?$') || has(self.format) && self.format == 'qcow2'",fieldPath=".format",messageExpression="(has(self.format) ? self.format : 'raw') + ' is not the format of a url that ends in .qcow2; set format to qcow2, or correct url'"
// +kubebuilder:validation:XValidation:rule="!self.url.lowerAscii().matches('[.]raw([.](gz|xz|zst|zstd))?([?#].*)?$') || !has(self.format) || self.format == 'raw'",fieldPath=".format",messageExpression="self.format + ' is not the format of a url that ends in .raw; set format to raw, or correct url'"
type Image struct {
	// url is the URL of the image: http, https, or oci://registry/repository@sha256:… for an OCI
	// artifact. The single layer of the artifact must be the image file. Ingot detects gzip, xz and
	// zstd compression.
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
}

// RootDeviceHints select one disk. A disk matches if it matches every hint that is set. If several
// disks match, Ingot selects the smallest disk of sufficient size. If these have the same size,
// Ingot selects the first disk by serial number, WWN and path. At least one hint must be set.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:XValidation:rule="!has(self.wwnVendorExtension) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().endsWith(self.wwnVendorExtension.lowerAscii().substring(2))",fieldPath=".wwnVendorExtension",messageExpression="self.wwnVendorExtension + ' is not the end of wwnWithExtension ' + self.wwnWithExtension + ', so that no disk matches both; correct or remove one of them'"
// +kubebuilder:validation:XValidation:rule="!has(self.wwn) || !has(self.wwnWithExtension) || self.wwnWithExtension.lowerAscii().startsWith(self.wwn.lowerAscii())",fieldPath=".wwn",messageExpression="self.wwn + ' is not the beginning of wwnWithExtension ' + self.wwnWithExtension + ', so that no disk matches both; correct or remove one of them'"
type RootDeviceHints struct {
	// deviceName is either the kernel name of the disk or its path below /dev/disk/by-path.
	// Examples are "/dev/sda" and "/dev/disk/by-path/pci-0000:00:1f.2-ata-1". Kernel names can
	// change between boots. Prefer a by-path name, serialNumber or wwn.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=274
	// +kubebuilder:validation:XValidation:rule="self.matches('^/dev/([A-Za-z0-9._-]+/)?[A-Za-z0-9._-]+$') && !self.matches('^/dev/(disk|mapper|md)/') || self.matches('^/dev/disk/by-path/[A-Za-z0-9._:+-]+$')",message="must be a kernel name such as /dev/sda, or a path such as /dev/disk/by-path/pci-0000:00:1f.2-ata-1; for other paths below /dev/disk use serialNumber or wwn"
	// +kubebuilder:validation:XValidation:rule="!self.matches('^/dev/disk/by-path/.*-part[0-9]+$')",messageExpression="self + ' is a partition; set the name of the whole disk, without -part and its number'"
	DeviceName string `json:"deviceName,omitempty"`
	// hctl is the SCSI address of the disk in the form host:channel:target:lun.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self.matches('^[0-9]+:[0-9]+:[0-9]+:[0-9]+$')",message="must be host:channel:target:lun in numbers, for example 2:0:0:0"
	HCTL string `json:"hctl,omitempty"`
	// model is a substring of the model name. Case is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Model string `json:"model,omitempty"`
	// vendor is a substring of the vendor name. Case is ignored.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	Vendor string `json:"vendor,omitempty"`
	// serialNumber is the complete serial number of the disk.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	SerialNumber string `json:"serialNumber,omitempty"`
	// wwn is the World Wide Name of the disk. If the name has a vendor extension (NAA 6, 32
	// digits), the first 16 digits also match. udev reports them as ID_WWN.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=128
	WWN string `json:"wwn,omitempty"`
	// wwnWithExtension is the World Wide Name with its vendor extension. udev reports it as
	// ID_WWN_WITH_EXTENSION.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=34
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}([0-9a-fA-F]{16})?$')",message="must be 0x and 16 or 32 hexadecimal digits, as lsblk -o WWN or udev's ID_WWN_WITH_EXTENSION shows them; for other names (eui., nvme.) use wwn"
	WWNWithExtension string `json:"wwnWithExtension,omitempty"`
	// wwnVendorExtension is the vendor extension of the World Wide Name: the last 16 of its 32
	// digits. udev reports it as ID_WWN_VENDOR_EXTENSION.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=18
	// +kubebuilder:validation:XValidation:rule="self.matches('^0x[0-9a-fA-F]{16}$')",message="must be 0x and 16 hexadecimal digits, as udev's ID_WWN_VENDOR_EXTENSION shows them"
	WWNVendorExtension string `json:"wwnVendorExtension,omitempty"`
	// minSize is the minimum size of the disk as a quantity, for example 480G. The default is 8G.
	// +optional
	MinSize *resource.Quantity `json:"minSize,omitempty"`
	// maxSize is the maximum size of the disk as a quantity, for example 2T. If unset, the size is
	// not limited.
	// +optional
	MaxSize *resource.Quantity `json:"maxSize,omitempty"`
	// rotational selects spinning disks if true and flash disks if false. If unset, both match.
	// +optional
	Rotational *bool `json:"rotational,omitempty"`
}

// LocalReference references an object in the same namespace.
type LocalReference struct {
	// name is the name of the object.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	// +kubebuilder:validation:XValidation:rule="self.matches('^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$')",message="must be the name of an object: lower case letters, digits, - and . (for example rack-a.12)"
	Name string `json:"name,omitempty"`
}

// CleaningMode defines how Ingot cleans the disks of a host when a machine releases the host.
// +kubebuilder:validation:Enum=None;Metadata;Full
type CleaningMode string

// The cleaning modes.
const (
	// CleaningNone leaves the disks unchanged. The host is then available only to the cluster that
	// used it last (I12).
	CleaningNone CleaningMode = "None"
	// CleaningMetadata removes partition tables and file system signatures from every disk.
	CleaningMetadata CleaningMode = "Metadata"
	// CleaningFull erases the content of every disk with the best method that the disk supports.
	// Flash disks take minutes, large spinning disks take many hours.
	CleaningFull CleaningMode = "Full"
)
