// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package address

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/controllers/hardware"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=list;watch;create;patch

// ErrStale: the facts of the host have changed since they were read; nothing was recorded.
var ErrStale = errors.New("the facts of the host have changed meanwhile")

// Book is where the addresses of hosts stand. All fields are needed.
type Book struct {
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

// Held is what a host has of what its network gives.
type Held struct {
	View
	// Recorded: all addresses are. In mode Proxy another DHCP server has them, and none is.
	Recorded bool
}

// Problem is why no address could be recorded; the zero value: nothing is known to be
// wrong. Reason is that of a condition; empty: the range is exhausted or wrong.
type Problem struct{ Reason, Message string }

// Observe looks what is recorded, and sees that a pool goes on holding it. What a free
// host has on a network that it left is given up. The error is the API server's.
func (b *Book) Observe(ctx context.Context, v View) (Held, error) {
	v, err := b.leave(ctx, v)
	if err != nil {
		return Held{View: v}, err
	}
	if v.Lost, err = b.isLost(ctx, v); err != nil {
		return Held{View: v}, err
	}
	return Held{View: v, Recorded: !v.needsIPv4() && !v.needsIPv6() && !v.Lost}, nil
}

// Record takes a free address of the network's range or pool and records it in the
// IngotHardware, which it makes where there is none: one address a call, IPv4 first. The
// error is the API server's, or ErrStale.
func (b *Book) Record(ctx context.Context, v View) (Problem, error) {
	if !v.needsIPv4() && !v.Lost {
		return b.recordIPv6(ctx, v)
	}
	address, problem, err := b.chooseIPv4(ctx, v)
	if err != nil || !address.IsValid() {
		return problem, err
	}
	return Problem{}, b.write(ctx, v, func(facts *infrav1.IngotHardwareSpec) { facts.Address = v.entry(address) })
}

// write changes the recorded facts by optimistic lock.
func (b *Book) write(ctx context.Context, v View, change func(*infrav1.IngotHardwareSpec)) (err error) {
	if v.Hardware == nil {
		facts, newErr := hardware.New(v.Host, b.Client.Scheme())
		if newErr != nil {
			return newErr
		}
		change(&facts.Spec)
		err = b.Client.Create(ctx, facts)
	} else {
		facts := v.Hardware.DeepCopy()
		change(&facts.Spec)
		err = b.Client.Patch(ctx, facts, client.MergeFromWithOptions(v.Hardware, client.MergeFromWithOptimisticLock{}))
	}
	if apierrors.IsConflict(err) || apierrors.IsAlreadyExists(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("recording an address for %s: %w", client.ObjectKeyFromObject(v.Host), err)
	}
	return nil
}
