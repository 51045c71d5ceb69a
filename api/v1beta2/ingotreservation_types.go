// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationState is how far a reservation is.
// +kubebuilder:validation:Enum=Requested;Reserved
type ReservationState string

// The states of a reservation.
const (
	// ReservationRequested: the hosts are being counted. Others keep their hands off them
	// as if they were promised, and the Cluster is not built yet.
	ReservationRequested ReservationState = "Requested"
	// ReservationReserved: the hosts were there, for all that was promised to others too.
	ReservationReserved ReservationState = "Reserved"
)

// ReservationPurpose is what hosts are promised for.
// +kubebuilder:validation:Enum=Creation;Upgrade
type ReservationPurpose string

// What hosts are promised for.
const (
	// ReservationCreation: the Cluster is to have its machines. It ends when it has all
	// of them at once.
	ReservationCreation ReservationPurpose = "Creation"
	// ReservationUpgrade: the Cluster gives up hosts, and is to get as many back. It is
	// kept before all promises that are not for an upgrade, and ends with the upgrade.
	ReservationUpgrade ReservationPurpose = "Upgrade"
)

// IngotReservationSpec is what one Cluster was promised. It stands in spec, so that it
// survives clusterctl move.
type IngotReservationSpec struct {
	// state of the reservation. Only Ingot's runtime extension asks first; a person
	// who writes a reservation promises.
	// +optional
	// +kubebuilder:default=Reserved
	State ReservationState `json:"state,omitempty"`
	// purpose of the promise. Upgrade: it stands, met or not, until the upgrade is over,
	// so that a host which the Cluster gives up comes back to it. Unset: Creation.
	// +optional
	Purpose ReservationPurpose `json:"purpose,omitempty"`
	// requestTime is when the hosts were asked for. What was asked for by a person has none,
	// and is not lowered when the Cluster's topology asks for less.
	// +optional
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// expirationTime ends the promise, met or not. Unset: it does not end by time.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty,omitzero"`

	// hostSelector of the IngotCluster, which is not there yet when the promise is made.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`
	// controlPlaneSelector of the IngotCluster.
	// +optional
	ControlPlaneSelector *metav1.LabelSelector `json:"controlPlaneSelector,omitempty"`
	// failureDomainLabel of the IngotCluster. Unset: the rack label.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	FailureDomainLabel string `json:"failureDomainLabel,omitempty"`
	// bootTrust of the IngotCluster. Verified: only hosts with a verified boot are
	// promised. Unset: Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`

	// groups of machines that hosts were promised for.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Groups []ReservedGroup `json:"groups,omitempty"`
}

// ReservedGroup is a number of equal machines.
type ReservedGroup struct {
	// name of the group: that of the MachineDeployment in the topology; without a
	// topology, that of the MachineDeployment. Of control planes any name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// controlPlane: the group is the control plane.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`
	// count of machines, those included that have their host already.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Count int32 `json:"count,omitempty"`
	// failureDomains in one of which each host must stand. None: any, and hosts in none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
	// hostSelector of the machines.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`
	// architecture of the machines' image, in Go's terms. Unset: any.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
	// rootDeviceHints of the machines.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// softwareRAID of the machines: a host that has no two disks for it is not kept for them.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`
	// ethernets are the interfaces that networkData of the machines asks for: a host that
	// lacks one is not kept for them. None: any host's interfaces do.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Ethernets []ReservedEthernet `json:"ethernets,omitempty"`
}

// ReservedEthernet is an interface that each host of a group has.
type ReservedEthernet struct {
	// name of the ethernet in networkData.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name,omitempty"`
	// nic says which of the host's interfaces it is. Where other than one is meant, the
	// host is not kept.
	// +required
	NIC NICSelector `json:"nic,omitempty,omitzero"`
}

// IngotReservationStatus is what was observed last. Nothing is decided by it.
type IngotReservationStatus struct {
	// observedGeneration is the metadata.generation that Ingot has acted on. Tools that wait
	// for a change of the spec compare the two.
	// +optional
	// +kubebuilder:validation:Minimum=1
	ObservedGeneration int64 `json:"observedGeneration,omitempty"`
	// conditions: Ready, Paused.
	// +optional
	// +listType=map
	// +listMapKey=type
	// +kubebuilder:validation:MaxItems=32
	Conditions []metav1.Condition `json:"conditions,omitempty"`
	// reserved counts the machines of all groups.
	// +optional
	Reserved *int32 `json:"reserved,omitempty"`
	// claimed counts those of them that have their host.
	// +optional
	Claimed *int32 `json:"claimed,omitempty"`
	// outstanding counts the hosts that are still kept for the Cluster.
	// +optional
	Outstanding *int32 `json:"outstanding,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotreservations,shortName=ires,scope=Namespaced,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be the name of the Cluster that hosts are promised to: 63 characters at most"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="Claimed",type=integer,JSONPath=`.status.claimed`
// +kubebuilder:printcolumn:name="Outstanding",type=integer,JSONPath=`.status.outstanding`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expirationTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotReservation is the promise of hosts to the Cluster of the same name and
// namespace. No other Cluster's machine is given a host without which it could not be
// kept. It shrinks with each host that the Cluster claims, and ends when the Cluster
// has them all, is deleted, or at spec.expirationTime.
type IngotReservation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is what was promised.
	// +required
	Spec IngotReservationSpec `json:"spec,omitempty,omitzero"`
	// status is what was observed last.
	// +optional
	Status IngotReservationStatus `json:"status,omitempty,omitzero"`
}

// GetConditions returns the conditions.
func (r *IngotReservation) GetConditions() []metav1.Condition { return r.Status.Conditions }

// SetConditions replaces the conditions.
func (r *IngotReservation) SetConditions(conditions []metav1.Condition) {
	r.Status.Conditions = conditions
}

// +kubebuilder:object:root=true

// IngotReservationList is a list of IngotReservations.
type IngotReservationList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`
	Items           []IngotReservation `json:"items"`
}
