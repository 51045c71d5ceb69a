// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

// ledger is the part of a host's spec that only Ingot writes (I9).
type ledger struct {
	Claim    *v1beta2.HostClaim    `json:"claim,omitempty"`
	Record   *v1beta2.HostRecord   `json:"record,omitempty"`
	Order    *v1beta2.HostOrder    `json:"order,omitempty"`
	Commands []v1beta2.HostCommand `json:"commands,omitempty"`
}

func ledgerOf(host *v1beta2.IngotHost) ledger {
	return ledger{Claim: host.Spec.Claim, Record: host.Spec.Record, Order: host.Spec.Order, Commands: host.Spec.Commands}
}

// createdLedger refuses a new host with a ledger, unless the requester may
// restore: a ledger that somebody made up could release, or hide, a server in use.
func (g guard) createdLedger(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledger{}, ledgerOf(host))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	ok, err := g.mayCreate(ctx, "ingothosts", host)
	if err != nil || ok {
		return nil, err
	}
	return refuseChanges(list, fmt.Sprintf("only Ingot writes claim, record, order and commands; remove them to register the server again, "+
		"or restore as somebody with the RBAC verb %s on ingothosts", restoreVerb)), nil
}

// changedLedger refuses a change of the ledger by anybody but the manager.
func (g guard) changedLedger(ctx context.Context, before, after *v1beta2.IngotHost) (field.ErrorList, error) {
	list, err := changes(field.NewPath("spec"), ledgerOf(before), ledgerOf(after))
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := g.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return refuseChanges(list, fmt.Sprintf("only Ingot's manager changes claim, record, order and commands; leave them as they are "+
		"(kubectl apply and patch do), delete the Machine to release a host, or annotate the host with %s or %s",
		inventory.CommandText(v1beta2.ReleaseDanglingAnnotation), inventory.CommandText(v1beta2.ClearQuarantineAnnotation))), nil
}
