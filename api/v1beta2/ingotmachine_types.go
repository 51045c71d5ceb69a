// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
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
	ProviderID string `json:"providerID,omitempty"`

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
	Live *LiveSystem `json:"live,omitempty"`

	// rootDeviceHints choose the disk to install to; they win over the host's.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`

	// softwareRAID has the image installed on two disks at once, so that the server runs and
	// boots when one of them fails. Unset: on one disk.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`

	// cleaning at release; it wins over the host's. None is not possible beside
	// softwareRAID, and where the host says it, Metadata is done.
	// +optional
	Cleaning CleaningMode `json:"cleaning,omitempty"`

	// networkData is the network of the installed system. Unset: the system finds its own,
	// most often by DHCP on one of its interfaces.
	// +optional
	NetworkData *NetworkData `json:"networkData,omitempty"`

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

// IngotMachineStatus is what was observed last.
type IngotMachineStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`

	// conditions: Ready, Paused, HostClaimed, Installed, Booted, HostHealthy.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`

	// initialization tells Cluster API how far the first provisioning is.
	// +optional
	Initialization IngotMachineInitializationStatus `json:"initialization,omitempty,omitzero"`

	// addresses of the machine.
	// +optional
	Addresses []clusterv1.MachineAddress `json:"addresses,omitempty"`

	// failureDomain that the machine was placed in.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=256
	FailureDomain string `json:"failureDomain,omitempty"`

	// hostRef names the IngotHost.
	// +optional
	HostRef *LocalReference `json:"hostRef,omitempty"`

	// deprecated groups what only contract v1beta1 knows.
	// +optional
	Deprecated *IngotMachineDeprecatedStatus `json:"deprecated,omitempty"`
}

// IngotMachineInitializationStatus tells how far the first provisioning is.
// +kubebuilder:validation:MinProperties=1
type IngotMachineInitializationStatus struct {
	// provisioned is true from the commit point on, for ever.
	// +optional
	Provisioned *bool `json:"provisioned,omitempty"`
}

// IngotMachineDeprecatedStatus groups deprecated fields.
type IngotMachineDeprecatedStatus struct {
	// v1beta1 groups what contract v1beta1 has and v1beta2 has not.
	// +optional
	V1Beta1 *IngotV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// IngotV1Beta1DeprecatedStatus keeps what only contract v1beta1 knows.
type IngotV1Beta1DeprecatedStatus struct {
	// conditions in the form of contract v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
	// failureReason of a terminal failure.
	// +optional
	FailureReason *string `json:"failureReason,omitempty"`
	// failureMessage of a terminal failure.
	// +optional
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

// IngotMachine is the infrastructure of a Cluster API Machine: one claimed host.
type IngotMachine struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec asks for a server.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
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

// IngotMachineTemplateSpec holds the template.
type IngotMachineTemplateSpec struct {
	// template of the IngotMachines.
	// +required
	Template IngotMachineTemplateResource `json:"template,omitempty,omitzero"`
}

// IngotMachineTemplateResource is the template of an IngotMachine.
// +kubebuilder:validation:XValidation:rule="!has(self.spec.failureDomain)",fieldPath=".spec.failureDomain",messageExpression="'a template must not hold ' + self.spec.failureDomain + ', the place of one machine; remove it, and set the failure domain in the Machine, MachineDeployment or control plane'"
// +kubebuilder:validation:XValidation:rule="!has(self.spec.providerID)",fieldPath=".spec.providerID",messageExpression="'a template must not hold ' + self.spec.providerID + ', the identity of one machine; remove it'"
type IngotMachineTemplateResource struct {
	// metadata given to the IngotMachines.
	// +optional
	ObjectMeta clusterv1.ObjectMeta `json:"metadata,omitempty,omitzero"`
	// spec given to the IngotMachines.
	// +required
	Spec IngotMachineSpec `json:"spec,omitempty,omitzero"`
}

// IngotMachineTemplateStatus lets the cluster autoscaler scale from zero.
type IngotMachineTemplateStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// capacity that every host which the template can select has at least.
	// +optional
	Capacity corev1.ResourceList `json:"capacity,omitempty"`
	// nodeInfo of the hosts that the template can select.
	// +optional
	NodeInfo NodeInfo `json:"nodeInfo,omitempty,omitzero"`
	// deprecated groups what only contract v1beta1 knows.
	// +optional
	Deprecated *IngotMachineTemplateDeprecatedStatus `json:"deprecated,omitempty"`
}

// IngotMachineTemplateDeprecatedStatus groups deprecated fields.
type IngotMachineTemplateDeprecatedStatus struct {
	// v1beta1 groups what contract v1beta1 has and v1beta2 has not.
	// +optional
	V1Beta1 *IngotMachineTemplateV1Beta1DeprecatedStatus `json:"v1beta1,omitempty"`
}

// IngotMachineTemplateV1Beta1DeprecatedStatus keeps what only contract v1beta1 knows.
type IngotMachineTemplateV1Beta1DeprecatedStatus struct {
	// conditions in the form of contract v1beta1.
	// +optional
	Conditions clusterv1.Conditions `json:"conditions,omitempty"`
}

// NodeInfo says what kind of Node a machine becomes.
// +kubebuilder:validation:MinProperties=1
type NodeInfo struct {
	// architecture of the Node.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64;s390x;ppc64le
	Architecture string `json:"architecture,omitempty"`
	// operatingSystem of the Node.
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

// IngotMachineTemplate is the template of IngotMachines.
type IngotMachineTemplate struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec holds the template.
	// +required
	Spec IngotMachineTemplateSpec `json:"spec,omitempty,omitzero"`
	// status lets the cluster autoscaler scale from zero, and says whether Ingot is paused.
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
