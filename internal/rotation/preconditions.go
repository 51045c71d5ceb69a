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

// maxOthers bounds how many NICs one message names.
const maxOthers = 3

// obstacle says why the password of the host's BMC must not be changed, and what
// helps; empty: it may be.
func (r *Rotator) obstacle(ctx context.Context, v View) (string, error) {
	host, secret := v.Host, v.Secret
	if why := elsewhere(host, v.Seen); why != "" {
		return why, nil
	}
	if record := host.Spec.Record; record != nil && record.Preparation != nil && record.Preparation.Update != nil {
		return fmt.Sprintf("an update of %s is under way, over which the BMC may forget what it is told; annotate again when it is over",
			record.Preparation.Update.Component), nil
	}
	sharing, err := r.others(ctx, host, client.MatchingFields{index.HostByCredentials: secret.Namespace + "/" + secret.Name})
	if err != nil {
		return "", err
	}
	neighbours, err := r.others(ctx, host, client.MatchingFields{index.HostByBMC: index.BMC(host)})
	if err != nil {
		return "", err
	}
	switch owner := metav1.GetControllerOf(secret); {
	case len(sharing) > 0:
		return fmt.Sprintf("Secret %s is also the one of %s, whose BMC would keep the old password; give each host a Secret of its own in spec.bmc.credentialsRef",
			secret.Name, inventory.ListHosts(host.Namespace, sharing)), nil
	case len(neighbours) > 0:
		return fmt.Sprintf("the BMC is also the one of %s, with a Secret of its own and perhaps the same account; change the password at the BMC and in all their Secrets by hand",
			inventory.ListHosts(host.Namespace, neighbours)), nil
	case owner != nil:
		return fmt.Sprintf("Secret %s is kept by %s %s, which would put the old password back; change it there", secret.Name, owner.Kind, owner.Name), nil
	case !secret.DeletionTimestamp.IsZero():
		return fmt.Sprintf("Secret %s is being deleted, and would take the only copy of the new password along; name another Secret in spec.bmc.credentialsRef", secret.Name), nil
	case ptr.Deref(secret.Immutable, false):
		return fmt.Sprintf("Secret %s is immutable; replace it by one that is not", secret.Name), nil
	}
	return "", nil
}

// elsewhere says why the BMC that was read may not be this host's, and what helps;
// empty: nothing speaks against it. Another server's BMC is not changed (I8), and a
// password that a person gave many BMCs proves nothing.
func elsewhere(host *infrav1.IngotHost, seen *lifecycle.Observation) string {
	switch {
	case seen.DuplicateOf != "":
		return fmt.Sprintf("this is the same server as %s; correct or delete one of the two", seen.DuplicateOf)
	case seen.WrongServer != "":
		return fmt.Sprintf("the BMC manages another server than the one that was inspected here: %s; correct spec.bmc.address", seen.WrongServer)
	case seen.BootMACMissing:
		return fmt.Sprintf("spec.bootMACAddress %s is not among the NICs that the BMC lists (%s); correct it, or spec.bmc.address if this is another server",
			host.Spec.BootMACAddress, listed(seen.KnownMACs))
	}
	return ""
}

// others are the hosts found that are not this one.
func (r *Rotator) others(ctx context.Context, host *infrav1.IngotHost, by client.ListOption) ([]types.NamespacedName, error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, by); err != nil {
		return nil, fmt.Errorf("hosts that share the BMC's credentials: %w", err)
	}
	var others []types.NamespacedName
	for i := range hosts.Items {
		if other := &hosts.Items[i]; client.ObjectKeyFromObject(other) != client.ObjectKeyFromObject(host) {
			others = append(others, client.ObjectKeyFromObject(other))
		}
	}
	return others, nil
}

func listed(names []string) string {
	if more := len(names) - maxOthers; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:maxOthers], ", "), more)
	}
	return strings.Join(names, ", ")
}
