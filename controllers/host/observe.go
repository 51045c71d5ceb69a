// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/index"
	"github.com/ingot-metal/ingot/inventory"
)

// observation is what the decision is made from, and what its execution needs.
type observation struct {
	inventory.Observation
	hardware *infrav1.IngotHardware
	network  *infrav1.IngotNetwork
	target   bmc.Target
	// backoffID keys the retries: it changes with the spec and the Secret, so that
	// a correction is tried at once (I13).
	backoffID string
}

// observe gathers what there is to know. Only the API server's failure is an
// error: what is wrong with the host is part of the observation.
func (r *Reconciler) observe(ctx context.Context, host *infrav1.IngotHost) (*observation, error) {
	seen := &observation{Observation: inventory.Observation{
		Now:       r.Clock.Now(),
		NewID:     r.NewID(),
		LastReset: host.Status.LastResetTime.Time,
		SoftOffAt: host.Status.SoftPowerOffTime.Time,
		Deleting:  !host.DeletionTimestamp.IsZero(),
	}}
	for _, gather := range []func(context.Context, *infrav1.IngotHost, *observation) error{
		r.observeHardware, r.observeDuplicates, r.observeMachine, r.observeBMC,
	} {
		if err := gather(ctx, host, seen); err != nil {
			return nil, err
		}
	}
	observeContact(host, seen)
	return seen, nil
}

// observeHardware reads the facts, the network and the recorded address.
func (r *Reconciler) observeHardware(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	hardware := &infrav1.IngotHardware{}
	err := r.Client.Get(ctx, client.ObjectKeyFromObject(host), hardware)
	switch {
	case err == nil:
		seen.hardware = hardware
	case !apierrors.IsNotFound(err):
		return fmt.Errorf("hardware of the host: %w", err)
	}
	network := &infrav1.IngotNetwork{}
	err = r.Client.Get(ctx, client.ObjectKey{Name: host.Spec.NetworkRef.Name}, network)
	switch {
	case apierrors.IsNotFound(err):
		seen.NetworkMissing = true
		return nil
	case err != nil:
		return fmt.Errorf("network %s: %w", host.Spec.NetworkRef.Name, err)
	}
	seen.network = network
	seen.AddressRecorded = hasAddress(host, seen.hardware)
	return nil
}

// observeDuplicates looks for another host that is the same server (I8).
func (r *Reconciler) observeDuplicates(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	for _, same := range []struct{ field, value string }{
		{index.HostByMAC, host.Spec.BootMACAddress},
		{index.HostByBMC, index.BMCSystem(host)},
	} {
		if same.value == "" {
			continue
		}
		hosts := &infrav1.IngotHostList{}
		if err := r.Client.List(ctx, hosts, client.MatchingFields{same.field: same.value}); err != nil {
			return fmt.Errorf("hosts with the same %s: %w", same.field, err)
		}
		for i := range hosts.Items {
			if other := &hosts.Items[i]; other.UID != host.UID && other.DeletionTimestamp.IsZero() {
				seen.DuplicateOf = client.ObjectKeyFromObject(other).String()
				return nil
			}
		}
	}
	if seen.hardware == nil || index.System(seen.hardware) == "" {
		return nil
	}
	twins := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, twins, client.MatchingFields{index.HardwareBySystem: index.System(seen.hardware)}); err != nil {
		return fmt.Errorf("hosts with the same UUID and serial number: %w", err)
	}
	for i := range twins.Items {
		if twin := &twins.Items[i]; twin.UID != seen.hardware.UID {
			seen.DuplicateOf = client.ObjectKeyFromObject(twin).String()
			return nil
		}
	}
	return nil
}

// observeMachine looks for the machine that the claim names. Only a live read may
// say that it is missing (I6).
func (r *Reconciler) observeMachine(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.Claim == nil {
		return nil
	}
	key := client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}
	err := r.Client.Get(ctx, key, &infrav1.IngotMachine{})
	if apierrors.IsNotFound(err) {
		err = r.Live.Get(ctx, key, &infrav1.IngotMachine{})
	}
	switch {
	case err == nil:
		seen.Machine = inventory.MachineExists
	case apierrors.IsNotFound(err):
		seen.Machine = inventory.MachineMissing
	default:
		return fmt.Errorf("machine %s of the claim: %w", key, err)
	}
	return nil
}

// observeContact reads when the agent of the present order last spoke.
func observeContact(host *infrav1.IngotHost, seen *observation) {
	operation, order := host.Status.Operation, host.Spec.Order
	if operation == nil || order == nil || operation.Kind != order.Kind || !operation.StartedAt.Equal(&order.CreatedAt) {
		return
	}
	seen.LastContact = operation.LastContactTime.Time
}
