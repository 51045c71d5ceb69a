// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package ipam

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/inventory"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=list;watch;create;patch

// ErrStale means that the hardware facts have changed since they were read; nothing was recorded.
var ErrStale = errors.New("the hardware facts have changed since they were read")

// Allocator allocates addresses. All fields are required.
type Allocator struct {
	Client client.Client
	Clock  clock.Clock
	// Warn records an event that no decision foresaw.
	Warn func(host *infrav1.IngotHost, reason, message string)
	// Memory outlives a reconcile. All hosts and machines share one.
	Memory *Memory
}

// View is a host in one reconcile.
type View struct {
	Host *infrav1.IngotHost
	// Hardware holds the recorded addresses; nil if it does not exist yet.
	Hardware *infrav1.IngotHardware
	Network  *infrav1.IngotNetwork
	// Lost: the pool assigns the host another address than the recorded one.
	Lost bool
}

// Assignment is the result of Observe.
type Assignment struct {
	View
	// Recorded: all addresses are recorded, or in mode Proxy none is needed.
	Recorded bool
}

// Problem is why no address could be recorded; zero if there is no problem. Reason is a condition
// reason; empty if the range is exhausted or invalid.
type Problem struct{ Reason, Message string }

// Observe reports whether the addresses are recorded, and makes sure that a pool still holds them. It
// gives up the addresses of a free host on a network that it left. It returns errors of the API server.
func (a *Allocator) Observe(ctx context.Context, v View) (Assignment, error) {
	v, err := a.leave(ctx, v)
	if err != nil {
		return Assignment{View: v}, err
	}
	if err := a.putBack(ctx, v); err != nil {
		return Assignment{View: v}, err
	}
	if v.Lost, err = a.isLost(ctx, v); err != nil {
		return Assignment{View: v}, err
	}
	return Assignment{View: v, Recorded: !v.needsIPv4() && !v.needsIPv6() && !v.Lost}, nil
}

// putBack records an address again for a host in use whose IngotHardware was deleted with its
// finalizer: the system or the agent still renews its lease. It prefers the address that the host had.
// It returns ErrStale after an address was recorded.
func (a *Allocator) putBack(ctx context.Context, v View) error {
	if v.hasIPv4() {
		a.Memory.remember(v)
	}
	isLost := v.Hardware == nil || v.Hardware.Spec.Address == nil && v.Hardware.Spec.IPv6Address == nil && len(v.Hardware.Spec.NICs) == 0
	if !v.isInUse() || !isLost || !v.needsIPv4() && !v.needsIPv6() {
		return nil
	}
	problem, err := a.Record(ctx, v)
	if err == nil && problem.Message == "" {
		a.Warn(v.Host, infrav1.ReasonAddressRestored, "The IngotHardware was deleted while the host is in use. Ingot recorded an address for the boot NIC again. Compare it with the address of the system.")
		return ErrStale
	}
	return err // Record reports a problem when the address is needed
}

// Record allocates an address and records it in the IngotHardware, which it creates if needed. Each call
// records one address, IPv4 first. It returns ErrStale or an error of the API server.
func (a *Allocator) Record(ctx context.Context, v View) (Problem, error) {
	problem, err := a.record(ctx, v)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return Problem{Reason: infrav1.ReasonNamespaceTerminating, Message: "the namespace is being deleted; to release the host, annotate it with " +
			inventory.CommandText(infrav1.ForceReleaseAnnotation)}, nil
	}
	return problem, err
}

func (a *Allocator) record(ctx context.Context, v View) (Problem, error) {
	if !v.needsIPv4() && !v.Lost {
		return a.recordIPv6(ctx, v)
	}
	address, problem, err := a.chooseIPv4(ctx, v)
	if err != nil || !address.IsValid() {
		return problem, err
	}
	return Problem{}, a.write(ctx, v, func(facts *infrav1.IngotHardwareSpec) { facts.Address = v.entry(address) })
}

// write changes the recorded facts with optimistic locking.
func (a *Allocator) write(ctx context.Context, v View, change func(*infrav1.IngotHardwareSpec)) (err error) {
	if v.Hardware == nil {
		facts, newErr := hardware.New(v.Host, a.Client.Scheme())
		if newErr != nil {
			return newErr
		}
		change(&facts.Spec)
		err = a.Client.Create(ctx, facts)
	} else {
		facts := v.Hardware.DeepCopy()
		change(&facts.Spec)
		err = a.Client.Patch(ctx, facts, client.MergeFromWithOptions(v.Hardware, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("record address of host %s: %w", client.ObjectKeyFromObject(v.Host), err)
	}
	return nil
}
