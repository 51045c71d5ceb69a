// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// maxListed bounds the NICs in a message.
const maxListed = 3

// checkPreconditions returns why the password must not be changed, and a remedy; empty if it may be
// changed.
func (r *Rotator) checkPreconditions(ctx context.Context, v View) (string, error) {
	host, secret := v.Host, v.Secret
	if reason := wrongServer(host, v.Seen); reason != "" {
		return reason, nil
	}
	if record := host.Spec.Record; record != nil && record.Preparation != nil && record.Preparation.Update != nil {
		return fmt.Sprintf("a firmware update (%s) is running, during which the BMC may lose the change; annotate again when it is over",
			record.Preparation.Update.Component), nil
	}
	sharing, err := r.otherHosts(ctx, host, client.MatchingFields{index.HostByCredentials: secret.Namespace + "/" + secret.Name})
	if err != nil {
		return "", err
	}
	sameBMC, err := r.otherHosts(ctx, host, client.MatchingFields{index.HostByBMC: index.BMC(host)})
	if err != nil {
		return "", err
	}
	switch owner := metav1.GetControllerOf(secret); {
	case len(sharing) > 0:
		return fmt.Sprintf("Secret %s is also used by %s, whose BMC would keep the old password; give each host its own Secret in spec.bmc.credentialsRef",
			secret.Name, inventory.ListHosts(host.Namespace, sharing)), nil
	case len(sameBMC) > 0:
		return fmt.Sprintf("the BMC is also the BMC of %s, which has its own Secret; change the password at the BMC and in all Secrets yourself",
			inventory.ListHosts(host.Namespace, sameBMC)), nil
	case owner != nil:
		return fmt.Sprintf("%s %s manages Secret %s and would restore the old password; change the password there", owner.Kind, owner.Name, secret.Name), nil
	case !secret.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Secret %s is being deleted, with the only copy of the new password; name another Secret in spec.bmc.credentialsRef", secret.Name), nil
	case ptr.Deref(secret.Immutable, false):
		return fmt.Sprintf("Secret %s is immutable; replace it by a mutable one", secret.Name), nil
	}
	return "", nil
}

// wrongServer returns why the BMC may not be this host's, and a remedy; empty if nothing indicates
// that. Ingot does not change another server's BMC (I8), and a password that many BMCs share proves
// nothing.
func wrongServer(host *infrav1.IngotHost, seen *lifecycle.Observation) string {
	switch {
	case seen.DuplicateOf != "":
		return fmt.Sprintf("this is the same server as %s; correct or delete one of the two", seen.DuplicateOf)
	case seen.WrongServer != "":
		return fmt.Sprintf("the BMC manages another server than the inspected one: %s; correct spec.bmc.address", seen.WrongServer)
	case seen.BootMACMissing:
		return fmt.Sprintf("spec.bootMACAddress %s is not among the BMC's NICs (%s); correct it, or spec.bmc.address if this is another server",
			host.Spec.BootMACAddress, joinNames(seen.KnownMACs))
	}
	return ""
}

// otherHosts lists the hosts that by selects, without this one.
func (r *Rotator) otherHosts(ctx context.Context, host *infrav1.IngotHost, by client.ListOption) ([]types.NamespacedName, error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, by); err != nil {
		return nil, fmt.Errorf("list hosts that share the BMC's credentials: %w", err)
	}
	var others []types.NamespacedName
	for i := range hosts.Items {
		if key := client.ObjectKeyFromObject(&hosts.Items[i]); key != client.ObjectKeyFromObject(host) {
			others = append(others, key)
		}
	}
	return others, nil
}

func joinNames(names []string) string {
	if more := len(names) - maxListed; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxListed], ", "), more)
	}
	return strings.Join(names, ", ")
}
