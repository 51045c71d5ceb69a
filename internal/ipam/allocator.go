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

// ErrStale: the facts of the host have changed since they were read; nothing was recorded.
var ErrStale = errors.New("the facts of the host have changed meanwhile")

// Allocator is where the addresses of hosts stand. All fields are needed.
type Allocator struct {
	Client client.Client
	Clock  clock.Clock
	// Warn tells people of something that nobody decided.
	Warn func(host *infrav1.IngotHost, reason, message string)
	// Memory outlasts a reconcile, and is one for all hosts and machines.
	Memory *Memory
}

// View is a host as this package sees it.
type View struct {
	Host *infrav1.IngotHost
	// Hardware is where its addresses are recorded; nil: there is none yet.
	Hardware *infrav1.IngotHardware
	Network  *infrav1.IngotNetwork
	// Lost: the pool gives the host another address than the recorded one.
	Lost bool
}

// Assignment is what a host has of what its network gives.
type Assignment struct {
	View
	// Recorded: all addresses are. In mode Proxy another DHCP server has them, and none is.
	Recorded bool
}

// Problem is why no address could be recorded; the zero value: nothing is known to be
// wrong. Reason is that of a condition; empty: the range is exhausted or wrong.
type Problem struct{ Reason, Message string }

// Observe looks what is recorded, and sees that a pool goes on holding it. What a free
// host has on a network that it left is given up. The error is the API server's.
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

// putBack records an address again for a host in use whose IngotHardware a user removed with
// its finalizer: the system, or the agent, still renews its lease. It prefers the address
// that the host had. It returns ErrStale when an address was recorded.
func (a *Allocator) putBack(ctx context.Context, v View) error {
	if v.hasIPv4() {
		a.Memory.remember(v)
	}
	lost := v.Hardware == nil || v.Hardware.Spec.Address == nil && v.Hardware.Spec.IPv6Address == nil && len(v.Hardware.Spec.NICs) == 0
	if !v.inUse() || !lost || !v.needsIPv4() && !v.needsIPv6() {
		return nil
	}
	problem, err := a.Record(ctx, v)
	if err == nil && problem.Message == "" {
		a.Warn(v.Host, infrav1.ReasonAddressPutBack, "The IngotHardware of the host was removed while the host is in use. Ingot recorded an address for its boot NIC again; compare it with the one that its system has.")
		return ErrStale
	}
	return err // a problem is reported where an address is needed
}

// Record takes a free address of the network's range or pool and records it in the
// IngotHardware, which it makes where there is none: one address a call, IPv4 first. The
// error is the API server's, or ErrStale.
func (a *Allocator) Record(ctx context.Context, v View) (Problem, error) {
	problem, err := a.record(ctx, v)
	if apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause) {
		return Problem{Reason: infrav1.ReasonNamespaceTerminating, Message: "the namespace is being deleted, and nothing can be created in it; to let the host go, annotate it with " +
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

// write changes the recorded facts by optimistic lock.
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
		return fmt.Errorf("recording an address for %s: %w", client.ObjectKeyFromObject(v.Host), err)
	}
	return nil
}
