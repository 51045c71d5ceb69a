// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package v1beta2

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ReservationState is the state of a reservation.
// +kubebuilder:validation:Enum=Requested;Reserved
type ReservationState string

// The states of a reservation.
const (
	// ReservationRequested means that Ingot counts the hosts. Other Clusters cannot use these
	// hosts, and the Cluster is not created yet.
	ReservationRequested ReservationState = "Requested"
	// ReservationReserved means that enough hosts were free, in addition to those reserved for
	// other Clusters.
	ReservationReserved ReservationState = "Reserved"
)

// ReservationPurpose is the purpose of a reservation.
// +kubebuilder:validation:Enum=Creation;Upgrade
type ReservationPurpose string

// The purposes of a reservation.
const (
	// ReservationCreation reserves hosts for a new Cluster. The reservation ends when all machines
	// of the Cluster have a host.
	ReservationCreation ReservationPurpose = "Creation"
	// ReservationUpgrade reserves hosts for an upgrade, which releases and claims hosts. It has
	// priority over reservations with another purpose, and ends with the upgrade.
	ReservationUpgrade ReservationPurpose = "Upgrade"
)

// IngotReservationSpec defines the desired state of an IngotReservation.
type IngotReservationSpec struct {
	// state is the state of the reservation, either Requested or Reserved. Only Ingot's runtime
	// extension sets Requested, while it counts the hosts. The default is Reserved.
	// +optional
	// +kubebuilder:default=Reserved
	State ReservationState `json:"state,omitempty"`
	// purpose is the purpose of the reservation, either Creation or Upgrade. An Upgrade reservation
	// remains until the upgrade is over, so that a host which the Cluster releases returns to it.
	// The default is Creation.
	// +optional
	Purpose ReservationPurpose `json:"purpose,omitempty"`
	// requestTime is the time at which the runtime extension requested the hosts. Ingot reduces
	// such a reservation if the Cluster's topology needs fewer hosts. Leave it unset in a
	// reservation that you create.
	// +optional
	RequestTime metav1.Time `json:"requestTime,omitempty,omitzero"`
	// expirationTime is the time at which the reservation ends. If unset, the reservation does not
	// expire.
	// +optional
	ExpirationTime metav1.Time `json:"expirationTime,omitempty,omitzero"`

	// hostSelector is the hostSelector of the IngotCluster, which does not exist yet when the
	// reservation is created.
	// +optional
	HostSelector *metav1.LabelSelector `json:"hostSelector,omitempty"`
	// controlPlaneSelector is the controlPlaneSelector of the IngotCluster.
	// +optional
	ControlPlaneSelector *metav1.LabelSelector `json:"controlPlaneSelector,omitempty"`
	// failureDomainLabel is the failureDomainLabel of the IngotCluster. If unset, Ingot uses the
	// rack label.
	// +optional
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=317
	FailureDomainLabel string `json:"failureDomainLabel,omitempty"`
	// bootTrust is the bootTrust of the IngotCluster. With Verified, Ingot reserves only hosts
	// whose condition BootSecure is True. The default is Network.
	// +optional
	BootTrust BootTrust `json:"bootTrust,omitempty"`

	// groups lists the groups of machines for which hosts are reserved.
	// +required
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=128
	Groups []ReservedGroup `json:"groups,omitempty"`
}

// ReservedGroup is a group of machines with equal requirements.
type ReservedGroup struct {
	// name is the name of the MachineDeployment in the Cluster's topology. Without a topology, it
	// is the name of the MachineDeployment. A control plane group can have any name.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name,omitempty"`
	// controlPlane is true if the group is the control plane. The default is false.
	// +optional
	ControlPlane *bool `json:"controlPlane,omitempty"`
	// count is the number of machines, including machines that already have a host.
	// +required
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10000
	Count int32 `json:"count,omitempty"`
	// failureDomains lists the failure domains in which the hosts must be. If empty, the hosts can
	// be in any failure domain or in none.
	// +optional
	// +listType=set
	// +kubebuilder:validation:MaxItems=100
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=256
	FailureDomains []string `json:"failureDomains,omitempty"`
	// hostSelector is the hostSelector of the machines.
	// +optional
	HostSelector *HostSelector `json:"hostSelector,omitempty"`
	// architecture is the processor architecture of the machines' image as a GOARCH value, either
	// amd64 or arm64. If unset, the architecture is not restricted.
	// +optional
	// +kubebuilder:validation:Enum=amd64;arm64
	Architecture string `json:"architecture,omitempty"`
	// rootDeviceHints are the root device hints of the machines.
	// +optional
	RootDeviceHints *RootDeviceHints `json:"rootDeviceHints,omitempty"`
	// softwareRAID is the software RAID configuration of the machines. Hosts without suitable disks
	// do not count.
	// +optional
	SoftwareRAID *SoftwareRAID `json:"softwareRAID,omitempty"`
	// ethernets lists the network interfaces that networkData of the machines requires. Hosts that
	// lack one do not count. If empty, the interfaces are not restricted.
	// +optional
	// +listType=map
	// +listMapKey=name
	// +kubebuilder:validation:MaxItems=16
	Ethernets []ReservedEthernet `json:"ethernets,omitempty"`
}

// ReservedEthernet is a network interface that each host of a group must have.
type ReservedEthernet struct {
	// name is the name of the ethernet in networkData.
	// +required
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=15
	Name string `json:"name,omitempty"`
	// nic selects the interface. Hosts on which it does not select exactly one interface do not
	// count.
	// +required
	NIC NICSelector `json:"nic,omitempty,omitzero"`
}

// IngotReservationStatus defines the observed state of an IngotReservation. Ingot makes no decision
// from it.
type IngotReservationStatus struct {
	// conditions represents the observations of the reservation's current state. The condition
	// types are Ready and Paused.
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
	// reserved is the number of machines in all groups.
	// +optional
	Reserved *int32 `json:"reserved,omitempty"`
	// claimed is the number of these machines that have a host.
	// +optional
	Claimed *int32 `json:"claimed,omitempty"`
	// outstanding is the number of hosts that Ingot still reserves for the Cluster.
	// +optional
	Outstanding *int32 `json:"outstanding,omitempty"`
}

// +kubebuilder:object:root=true
// +kubebuilder:resource:path=ingotreservations,shortName=ires,scope=Namespaced,categories=ingot
// +kubebuilder:storageversion
// +kubebuilder:metadata:labels="clusterctl.cluster.x-k8s.io/move-hierarchy="
// +kubebuilder:subresource:status
// +kubebuilder:validation:XValidation:rule="self.metadata.name.size() <= 63",message="metadata.name must be the name of the Cluster, with at most 63 characters"
// +kubebuilder:printcolumn:name="State",type=string,JSONPath=`.spec.state`
// +kubebuilder:printcolumn:name="Reserved",type=integer,JSONPath=`.status.reserved`
// +kubebuilder:printcolumn:name="Claimed",type=integer,JSONPath=`.status.claimed`
// +kubebuilder:printcolumn:name="Outstanding",type=integer,JSONPath=`.status.outstanding`
// +kubebuilder:printcolumn:name="Ready",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].status`
// +kubebuilder:printcolumn:name="Reason",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].reason`,priority=1
// +kubebuilder:printcolumn:name="Expires",type=string,JSONPath=`.spec.expirationTime`
// +kubebuilder:printcolumn:name="Age",type=date,JSONPath=`.metadata.creationTimestamp`
// +kubebuilder:printcolumn:name="Message",type=string,JSONPath=`.status.conditions[?(@.type=="Ready")].message`

// IngotReservation reserves hosts for the Cluster that has the same name and namespace. Ingot does
// not give hosts that the reservation needs to other Clusters. The reservation shrinks with each
// host that the Cluster claims. It ends when all machines have a host, when the Cluster is deleted,
// or at spec.expirationTime.
type IngotReservation struct {
	metav1.TypeMeta `json:",inline"`
	// metadata is the standard object's metadata.
	// +optional
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// spec is the desired state of the IngotReservation. It is persistent state that clusterctl
	// move preserves.
	// +required
	Spec IngotReservationSpec `json:"spec,omitempty,omitzero"`
	// status is the observed state of the IngotReservation. Only Ingot writes it.
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
