// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/internal/ipam/pool"
	"github.com/ingot-metal/ingot/internal/networkuse"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// findNetwork gathers the input of the machine's networkData in addition to the host. Pool
// addresses are claimed before the host, so that no host is held while a pool is empty.
func (r *Reconciler) findNetwork(ctx context.Context, s *scope) (outcome, error) {
	data := s.machine.Spec.NetworkData
	if data == nil || s.around != nil {
		return next, nil
	}
	networks, err := index.Networks(ctx, r.Client)
	if err != nil {
		return next, err
	}
	endpoints, err := r.endpoints(ctx, s)
	if err != nil {
		return next, err
	}
	closed, err := r.forbiddenNetworks(ctx, s.machine, networks)
	if err != nil {
		return next, err
	}
	around := networkdata.Surroundings{Networks: networks, Closed: closed, Pools: map[networkdata.Place]networkdata.Given{},
		Endpoints: endpoints, IngotCluster: s.ingotClusterKey(), ControlPlane: util.IsControlPlaneMachine(s.owner)}
	var waits []pool.Answer
	for _, place := range networkdata.PoolPlaces(data) { // claim all addresses at once
		assigned, answer, err := pool.Pools{Client: r.Client}.ClaimForMachine(ctx, s.poolRequest(networks, endpoints), place)
		if err != nil {
			return next, err
		}
		if answer.Problem != "" {
			waits = append(waits, answer)
			continue
		}
		around.Pools[place.Place] = assigned
	}
	if len(waits) > 0 {
		if first := waits[0]; s.notClaimed(first.Reason, first.Problem) && first.Reason != infrav1.ReasonWaitingForAddress {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, first.Reason, action, "%s", first.Problem)
		}
		return r.retryLater(), nil
	}
	if around.Holders, err = index.OwnersOf(ctx, r.Client, networkdata.Candidates(data, around)...); err != nil {
		return next, err
	}
	s.around = &around
	return next, nil
}

// forbiddenNetworks returns, for each network of which networkData uses a static lease, whether
// the network does not allow the machine's namespace (I22).
func (r *Reconciler) forbiddenNetworks(ctx context.Context, machine *infrav1.IngotMachine, networks map[string]infrav1.IngotNetworkSpec) (map[string]bool, error) {
	leases := networkdata.ReservedAddressesIn(nil, machine.Spec.NetworkData)
	if len(leases) == 0 {
		return nil, nil
	}
	namespace := networkuse.Namespace()
	if err := r.Client.Get(ctx, client.ObjectKey{Name: machine.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("read namespace %s: %w", machine.Namespace, err)
	}
	closed := map[string]bool{}
	for _, address := range leases {
		closed[address.Network] = !networkuse.Allows(networks[address.Network], machine.Namespace, namespace.Labels)
	}
	return closed, nil
}

// endpoints returns the control plane endpoints of all clusters, including an endpoint that only
// the machine's Cluster has.
func (r *Reconciler) endpoints(ctx context.Context, s *scope) (addressuse.Endpoints, error) {
	found, err := index.Endpoints(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	found.Add(addressuse.ParseEndpoint(s.cluster.Spec.ControlPlaneEndpoint.Host), s.ingotClusterKey())
	return found, nil
}

func (s *scope) ingotClusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
}

func (s *scope) poolRequest(networks map[string]infrav1.IngotNetworkSpec, endpoints addressuse.Endpoints) pool.MachineRequest {
	return pool.MachineRequest{Machine: s.machine, Cluster: s.cluster.Name, Networks: networks, Endpoints: endpoints, IngotCluster: s.ingotClusterKey()}
}

// resolveNetwork resolves networkData for the host by a live read of its hardware; nil without
// networkData. misfit is the reason if the host cannot have that network.
func (r *Reconciler) resolveNetwork(ctx context.Context, s *scope, host *infrav1.IngotHost) (_ *infrav1.ClaimedNetwork, misfit string, _ error) {
	if s.machine.Spec.NetworkData == nil {
		return nil, "", nil
	}
	out, err := r.findNetwork(ctx, s)
	switch {
	case err != nil:
		return nil, "", err
	case out.stop:
		return nil, "the pool withdrew an address of the machine", nil
	}
	hardware := &infrav1.IngotHardware{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), hardware); client.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("read hardware of host %s live: %w", host.Name, err)
	}
	network, err := networkdata.Resolve(s.machine.Spec.NetworkData, networkdata.SourcesOf(host, hardware, *s.around))
	if errors.Is(err, networkdata.ErrMisfit) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("resolve network of host %s: %w", host.Name, err)
	}
	reserved := ipam.SystemAddresses{Machine: s.machine.UID, BootMAC: host.Spec.BootMACAddress, Addresses: withoutRecorded(network.Exclusive(s.around.Networks), hardware)}
	if taken, ok := r.memory().Reserve(reserved, r.Clock.Now()); !ok {
		return nil, fmt.Sprintf("address %s was just assigned to another host or machine", taken), nil
	}
	return network.Claimed(), "", nil
}

// withoutRecorded removes the recorded addresses of the host, which only its claiming machine
// can have.
func withoutRecorded(addresses []netip.Addr, hardware *infrav1.IngotHardware) []netip.Addr {
	return slices.DeleteFunc(addresses, func(address netip.Addr) bool {
		return slices.ContainsFunc(recordedIPs(hardware), func(text string) bool { return addressOf(text) == address })
	})
}

// recordedIPs lists the recorded addresses of the host's boot NIC.
func recordedIPs(hardware *infrav1.IngotHardware) []string {
	var ips []string
	for _, recorded := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
		if recorded != nil {
			ips = append(ips, recorded.IP)
		}
	}
	return ips
}

func (r *Reconciler) machinesOfNetwork(ctx context.Context, _ client.Object) []reconcile.Request {
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return machine.Spec.ProviderID == "" && machine.Spec.NetworkData != nil
	})
}

// maxLostAddresses is the maximum number of addresses in a condition.
const maxLostAddresses = 3

func (r *Reconciler) memory() *ipam.Memory {
	if r.Addresses != nil {
		return r.Addresses
	}
	return &r.addresses
}

// keepAddresses shows the claim and keeps the IPAddressClaims of the system's pool addresses. It
// recreates a deleted IPAddressClaim, and warns if a pool may assign the address of a running
// server to another one.
func (r *Reconciler) keepAddresses(ctx context.Context, s *scope) (outcome, error) {
	data, network := s.machine.Spec.NetworkData, s.host.Spec.Claim.Network
	if data == nil || network == nil {
		s.claimed("")
		return next, nil
	}
	assigned := networkdata.Assigned(data, network.Addresses)
	wasShown := conditions.GetReason(s.machine, infrav1.MachineHostClaimedCondition) == infrav1.ReasonAddressClaimLost
	var lost []string
	pending := false
	for _, place := range networkdata.PoolPlaces(data) {
		has, known := assigned[place.Place]
		if !known {
			continue
		}
		answer, err := pool.Pools{Client: r.Client}.KeepForMachine(ctx, s.poolRequest(nil, nil), place, has)
		if err != nil {
			return next, err
		}
		if answer.Problem == "" {
			continue
		}
		if !answer.Created && !wasShown && r.Clock.Now().Before(answer.Unanswered.Add(r.timing().PoolAnswer)) {
			pending = true
			continue
		}
		message := fmt.Sprintf("The system uses %s: exclude it from pool %s until the Machine is replaced. %s", has, place.Pool.Name, answer.Problem)
		if lost = append(lost, message); answer.Created {
			r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonAddressClaimLost, action, "Recreated a deleted IPAddressClaim. %s", message)
		}
	}
	if more := len(lost) - maxLostAddresses; more > 0 {
		lost = append(lost[:maxLostAddresses], fmt.Sprintf("%d more addresses", more))
	}
	s.claimed(strings.Join(lost, "; "))
	if pending || len(lost) > 0 { // addresses are not watched
		return outcome{after: wait.Jitter(r.timing().Placement, retryJitter)}, nil
	}
	return next, nil
}
