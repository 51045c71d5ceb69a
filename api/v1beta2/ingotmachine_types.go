// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	ProviderID string `json:"providerID,omitempty"`

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
	Live *LiveSystem `json:"live,omitempty"`

	// rootDeviceHints select the disk to which Ingot installs. They override the hints of the host.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// softwareRAID installs the image on two mirrored disks, so that the server survives the
	// failure of one disk. If unset, Ingot installs on one disk.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`

	// cleaning is how Ingot cleans the disks when it releases the host: None, Metadata or Full. It
	// overrides the setting of the host. None is not allowed together with softwareRAID. With
	// softwareRAID, Ingot uses Metadata if the host has None. A change also applies to a machine
	// that has a host.
	// +optional
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// networkData is the network configuration of the installed system. If unset, the system
	// configures its network itself, usually with DHCP.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`

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

// IngotMachineStatus defines the observed state of an IngotMachine.
type IngotMachineStatus struct {
	// conditions represents the observations of the machine's current state. The condition types
	// are Ready, Paused, HostClaimed, Installed, Booted and HostHealthy.
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

	// initialization reports the progress of the initial provisioning to Cluster API.
	// +optional
	Initialization IngotMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses lists the addresses of the machine.
	// +optional
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=256
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain is the failure domain of the machine's host.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef references the IngotHost that the machine uses.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`

	// deprecated groups the fields that only contract v1beta1 defines.
	// +optional
	Deprecated *IngotMachineDeprecatedStatus `json:"deprecated,omitempty"`
}

// IngotMachineInitializationStatus reports the progress of the initial provisioning of the machine.
// +kubebuilder:validation:MinProperties=1
type IngotMachineInitializationStatus struct {
	// provisioned is true when the system is installed. It never becomes false again.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// IngotMachineDeprecatedStatus groups deprecated status fields.
type IngotMachineDeprecatedStatus struct {
	// v1beta1 groups the status fields that contract v1beta2 no longer has.
	// +optional
	V1Beta1 *IngotV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// IngotV1Beta1DeprecatedStatus contains the status fields that only contract v1beta1 defines.
type IngotV1Beta1DeprecatedStatus struct {
	// conditions are the conditions in the format of contract v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
	// failureReason is the reason of a terminal failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureReason *string `json:"failureReason,omitempty"`
	// failureMessage is a human-readable description of a terminal failure.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=10240
	FailureMessage *string `json:"failureMessage,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotmachines,shortName=im,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Cluster",type=string,JSONPath=`.metadata.labels['cluster\.x-k8s\.io/cluster-name']`
// +kubebuilder:printcolumn:name="Host",type=string,JSONPath=`.status.hostRef.name`
// +kubebuilder:printcolumn:name="Failure Domain",type=string,JSONPath=`.status.failureDomain`
// +kubebuilder:printcolumn:name="Provisioned",type=boolean,JSONPath=`.status.initialization.provisioned`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec['image.url','imageRef.name','live.kernel.url']`,priority=1
// +kubebuilder:printcolumn:name="Provider ID",type=string,JSONPath=`.spec.providerID`,priority=1
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotMachine is the infrastructure of a Cluster API Machine. It claims one IngotHost and installs
// a system on it.
type IngotMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotMachine.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotMachine. Only Ingot writes it.
	// +optional
	Status IngotMachineStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (m *IngotMachine) GetConditions() []metav1.Condition { return m.Status.Conditions }

// SetConditions replaces the conditions.
func (m *IngotMachine) SetConditions(conditions []metav1.Condition) { m.Status.Conditions = conditions }

// GetV1Beta1Conditions returns the conditions in the form of contract v1beta1.
func (m *IngotMachine) GetV1Beta1Conditions() clusterv1.Conditions {
	if m.Status.Deprecated == nil || m.Status.Deprecated.V1Beta1 == nil {
		return nil
	}
	return m.Status.Deprecated.V1Beta1.Conditions
}

// SetV1Beta1Conditions replaces the conditions in the form of contract v1beta1.
func (m *IngotMachine) SetV1Beta1Conditions(conditions clusterv1.Conditions) {
	if m.Status.Deprecated == nil {
		m.Status.Deprecated = &IngotMachineDeprecatedStatus{}
	}
	if m.Status.Deprecated.V1Beta1 == nil {
		m.Status.Deprecated.V1Beta1 = &IngotV1Beta1DeprecatedStatus{}
	}
	m.Status.Deprecated.V1Beta1.Conditions = conditions
}

// +kubebuilder:object:root=true

// IngotMachineList is a list of IngotMachines.
type IngotMachineList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotMachine `json:"items"`
}

// IngotMachineTemplateSpec defines the desired state of an IngotMachineTemplate.
type IngotMachineTemplateSpec struct {
	// template is the template from which Cluster API creates IngotMachines. The spec of the
	// template is immutable.
	// +required
	Template IngotMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotMachineTemplateResource is the metadata and spec of the IngotMachines that Cluster API
// creates.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.failureDomain)",fieldPath=".spec.failureDomain",messageExpression="self.spec.failureDomain + ' must not be set in a template; set the failure domain in the Machine, MachineDeployment or control plane'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",messageExpression="self.spec.providerID + ' must not be set in a template, because it identifies one machine; remove it'"
type IngotMachineTemplateResource struct {
	// metadata is the metadata of the IngotMachines, for example labels and annotations.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec is the spec of the IngotMachines.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
}

// IngotMachineTemplateStatus defines the observed state of an IngotMachineTemplate. The cluster
// autoscaler reads it to scale from zero.
type IngotMachineTemplateStatus struct {
	// conditions represents the observations of the template's current state. The condition type is
	// Paused.
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
	// capacity is the capacity that every host which the template can select has at least: cpu and
	// memory.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo describes the Nodes that the template's machines become.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// deprecated groups the fields that only contract v1beta1 defines.
	// +optional
	Deprecated *IngotMachineTemplateDeprecatedStatus `json:"deprecated,omitempty"`
}

// IngotMachineTemplateDeprecatedStatus groups deprecated status fields.
type IngotMachineTemplateDeprecatedStatus struct {
	// v1beta1 groups the status fields that contract v1beta2 no longer has.
	// +optional
	V1Beta1 *IngotMachineTemplateV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// IngotMachineTemplateV1Beta1DeprecatedStatus contains the status fields that only contract v1beta1
// defines.
type IngotMachineTemplateV1Beta1DeprecatedStatus struct {
	// conditions are the conditions in the format of contract v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// NodeInfo describes the Node that a machine becomes.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture is the processor architecture of the Node as a GOARCH value.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem is the operating system of the Node, for example linux.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	OperatingSystem string `json:"operatingSystem,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotmachinetemplates,shortName=imt,scope=Namespaced,categories=cluster-api;ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="cluster.x-k8s.io/v1beta2=v1beta2"
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Image",type=string,JSONPath=`.spec.template.spec['image.url','imageRef.name','live.kernel.url']`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`

// IngotMachineTemplate is a template from which Cluster API creates IngotMachines.
type IngotMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotMachineTemplate.
	// +required
	Spec IngotMachineTemplateSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotMachineTemplate. Only Ingot writes it.
	// +optional
	Status IngotMachineTemplateStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (t *IngotMachineTemplate) GetConditions() []metav1.Condition { return t.Status.Conditions }

// SetConditions replaces the conditions.
func (t *IngotMachineTemplate) SetConditions(conditions []metav1.Condition) {
	t.Status.Conditions = conditions
}

// GetV1Beta1Conditions returns the conditions in the form of contract v1beta1.
func (t *IngotMachineTemplate) GetV1Beta1Conditions() clusterv1.Conditions {
	if t.Status.Deprecated == nil || t.Status.Deprecated.V1Beta1 == nil {
		return nil
	}
	return t.Status.Deprecated.V1Beta1.Conditions
}

// SetV1Beta1Conditions replaces the conditions in the form of contract v1beta1.
func (t *IngotMachineTemplate) SetV1Beta1Conditions(conditions clusterv1.Conditions) {
	if t.Status.Deprecated == nil {
		t.Status.Deprecated = &IngotMachineTemplateDeprecatedStatus{}
	}
	if t.Status.Deprecated.V1Beta1 == nil {
		t.Status.Deprecated.V1Beta1 = &IngotMachineTemplateV1Beta1DeprecatedStatus{}
	}
	t.Status.Deprecated.V1Beta1.Conditions = conditions
}

// +kubebuilder:object:root=true

// IngotMachineTemplateList is a list of IngotMachineTemplates.
type IngotMachineTemplateList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotMachineTemplate `json:"items"`
}
