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

// findNetwork gathers what the machine's networkData needs beside the host. Addresses of
// pools are claimed before a host is: a host is not held while a pool has none.
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
	closed, err := r.closed(ctx, s.machine, networks)
	if err != nil {
		return next, err
	}
	around := networkdata.Surroundings{Networks: networks, Closed: closed, Pools: map[networkdata.Place]networkdata.Given{},
		Endpoints: endpoints, IngotCluster: s.ingotClusterKey(), ControlPlane: util.IsControlPlaneMachine(s.owner)}
	var waits []pool.Answer
	for _, place := range networkdata.PoolPlaces(data) {
		given, answer, err := pool.Pools{Client: r.Client}.ClaimForMachine(ctx, s.asking(networks, endpoints), place)
		if err != nil {
			return next, err
		}
		if answer.Problem != "" { // all are asked for at once, and the first is told of
			waits = append(waits, answer)
			continue
		}
		around.Pools[place.Place] = given
	}
	if len(waits) > 0 {
		if first := waits[0]; s.notClaimed(first.Reason, first.Problem) && first.Reason != infrav1.ReasonWaitingForAddress {
			r.Recorder.Eventf(s.machine, nil, corev1.EventTypeWarning, first.Reason, action, "%s", first.Problem)
		}
		return r.retryLater(), nil
	}
	if around.Holders, err = index.HoldersOf(ctx, r.Client, networkdata.Candidates(data, around)...); err != nil {
		return next, err
	}
	s.around = &around
	return next, nil
}

// closed are the networks that networkData asks for a reserved address of and that do not allow
// the machine's namespace (I22).
func (r *Reconciler) closed(ctx context.Context, machine *infrav1.IngotMachine, networks map[string]infrav1.IngotNetworkSpec) (map[string]bool, error) {
	asked := networkdata.ReservedIn(nil, machine.Spec.NetworkData)
	if len(asked) == 0 {
		return nil, nil
	}
	namespace := networkuse.Namespace()
	if err := r.Client.Get(ctx, client.ObjectKey{Name: machine.Namespace}, namespace); client.IgnoreNotFound(err) != nil {
		return nil, fmt.Errorf("namespace %s: %w", machine.Namespace, err)
	}
	closed := map[string]bool{}
	for _, address := range asked {
		closed[address.Network] = !networkuse.Allows(networks[address.Network], machine.Namespace, namespace.Labels)
	}
	return closed, nil
}

// endpoints are the addresses by which control planes are reached; that of the machine's
// own also where the Cluster alone says it.
func (r *Reconciler) endpoints(ctx context.Context, s *scope) (addressuse.Endpoints, error) {
	found, err := index.Endpoints(ctx, r.Client)
	if err != nil {
		return nil, err
	}
	found.Add(addressuse.ParseEndpoint(s.cluster.Spec.ControlPlaneEndpoint.Host), s.ingotClusterKey())
	return found, nil
}

// ingotClusterKey names the infrastructure of the machine's Cluster.
func (s *scope) ingotClusterKey() client.ObjectKey {
	return client.ObjectKey{Namespace: s.cluster.Namespace, Name: s.cluster.Spec.InfrastructureRef.Name}
}

// asking is the machine as pools are asked.
func (s *scope) asking(networks map[string]infrav1.IngotNetworkSpec, endpoints addressuse.Endpoints) pool.ForMachine {
	return pool.ForMachine{Machine: s.machine, Cluster: s.cluster.Name, Networks: networks, Endpoints: endpoints, IngotCluster: s.ingotClusterKey()}
}

// networkOn is what networkData comes to on the host that is being claimed, by a live
// read of its hardware; nil where the machine has none. misfit says why it cannot be.
func (r *Reconciler) networkOn(ctx context.Context, s *scope, host *infrav1.IngotHost) (_ *infrav1.ClaimedNetwork, misfit string, _ error) {
	if s.machine.Spec.NetworkData == nil {
		return nil, "", nil
	}
	out, err := r.findNetwork(ctx, s)
	switch {
	case err != nil:
		return nil, "", err
	case out.stop:
		return nil, "an address of a pool that the machine was given is not there any more", nil
	}
	hardware := &infrav1.IngotHardware{}
	if err := r.Live.Get(ctx, client.ObjectKeyFromObject(host), hardware); client.IgnoreNotFound(err) != nil {
		return nil, "", fmt.Errorf("live read of the hardware of host %s: %w", host.Name, err)
	}
	network, err := networkdata.Resolve(s.machine.Spec.NetworkData, networkdata.SourcesOf(host, hardware, *s.around))
	if errors.Is(err, networkdata.ErrMisfit) {
		return nil, err.Error(), nil
	}
	if err != nil {
		return nil, "", fmt.Errorf("network of host %s: %w", host.Name, err)
	}
	reserved := ipam.SystemAddresses{Machine: s.machine.UID, BootMAC: host.Spec.BootMACAddress, Addresses: givenAnew(network.Exclusive(s.around.Networks), hardware)}
	if taken, ok := r.memory().Reserve(reserved, r.Clock.Now()); !ok {
		return nil, fmt.Sprintf("address %s was given to another host, or to the system of another machine, a moment ago", taken), nil
	}
	return network.Claimed(), "", nil
}

// givenAnew leaves out what is recorded for the host: whoever claims the host has that, and
// one at most does.
func givenAnew(addresses []netip.Addr, hardware *infrav1.IngotHardware) []netip.Addr {
	return slices.DeleteFunc(addresses, func(address netip.Addr) bool {
		for _, own := range []*infrav1.RecordedAddress{hardware.Spec.Address, hardware.Spec.IPv6Address} {
			if own == nil {
				continue
			}
			if ip, err := netip.ParseAddr(own.IP); err == nil && ip == address {
				return true
			}
		}
		return false
	})
}

// machinesOfNetwork are those that wait for a host with a network: what a network
// reserves, or says of itself, may be what they wait for.
func (r *Reconciler) machinesOfNetwork(ctx context.Context, _ client.Object) []reconcile.Request {
	return index.RequestsIf(ctx, r.Client, &infrav1.IngotMachineList{}, func(machine *infrav1.IngotMachine) bool {
		return machine.Spec.ProviderID == "" && machine.Spec.NetworkData != nil
	})
}

// maxTold bounds how many addresses a condition tells of.
const maxTold = 3

// memory is where it stands which addresses were given a moment ago.
func (r *Reconciler) memory() *ipam.Memory {
	if r.Addresses != nil {
		return r.Addresses
	}
	return &r.addresses
}

// keepAddresses shows the claim, and looks after the IPAddressClaims of what the machine's
// system was given by pools: one that somebody deleted is made again, and people are told
// where a pool may give the address of a running server to the next one.
func (r *Reconciler) keepAddresses(ctx context.Context, s *scope) (outcome, error) {
	data, network := s.machine.Spec.NetworkData, s.host.Spec.Claim.Network
	if data == nil || network == nil {
		s.claimed("")
		return next, nil
	}
	assigned := networkdata.Assigned(data, network.Addresses)
	var told []string
	isNew := false
	for _, place := range networkdata.PoolPlaces(data) {
		has, known := assigned[place.Place]
		if !known {
			continue
		}
		answer, err := pool.Pools{Client: r.Client}.KeepForMachine(ctx, s.asking(nil, nil), place, has)
		if err != nil {
			return next, err
		}
		if answer.Problem == "" {
			continue
		}
		if !answer.Made && !s.lostAddress() && r.Clock.Now().Before(answer.Unanswered.Add(r.timing().PoolAnswer)) {
			isNew = true
			continue
		}
		message := fmt.Sprintf("The system has %s; have pool %s hold it back until the Machine is replaced: %s", has, place.Pool.Name, answer.Problem)
		if told = append(told, message); answer.Made {
			r.Recorder.Eventf(s.machine, s.host, corev1.EventTypeWarning, infrav1.ReasonAddressClaimLost, action, "An IPAddressClaim was deleted, and is made again. %s", message)
		}
	}
	if more := len(told) - maxTold; more > 0 {
		told = append(told[:maxTold], fmt.Sprintf("and so for %d more addresses", more))
	}
	s.claimed(strings.Join(told, "; "))
	if isNew || len(told) > 0 { // addresses are not watched, nor is the clock
		return nextAndAgain(wait.Jitter(r.timing().Placement, retryJitter)), nil
	}
	return next, nil
}

// lostAddress says whether people were told already that an address may be given away.
func (s *scope) lostAddress() bool {
	return conditions.GetReason(s.machine, infrav1.MachineHostClaimedCondition) == infrav1.ReasonAddressClaimLost
}
