// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package outlook

import (
	"context"
	"fmt"

	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory/addressuse"
	"github.com/ingot-metal/ingot/inventory/networkdata"
)

// addresses warns of those in networkData that an IngotNetwork has for something else.
// One that is reserved may be so for the interface that it is written for: that is not
// known before a host is. path leads to networkData.
func (o Outlook) addresses(ctx context.Context, path *field.Path, data *v1beta2.NetworkData) []string {
	written := networkdata.WrittenIn(path, data)
	list := &v1beta2.IngotNetworkList{}
	if len(written) == 0 || o.Reader.List(ctx, list, client.UnsafeDisableDeepCopy) != nil {
		return nil
	}
	networks := map[string]v1beta2.IngotNetworkSpec{}
	for i := range list.Items {
		networks[list.Items[i].Name] = list.Items[i].Spec
	}
	var warnings []string
	for _, w := range written {
		name, use := networkdata.Kept(networks, w.Address.Addr())
		if use == addressuse.None || use == addressuse.Reserved {
			continue
		}
		warnings = append(warnings, fmt.Sprintf("%s: %q is %s of IngotNetwork %s; give another, until then no host is given to its machines", w.Path, w.Address, use, name))
	}
	return warnings
}
