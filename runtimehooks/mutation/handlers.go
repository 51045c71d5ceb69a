// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"errors"

	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Names of the handlers, which templates/clusterclass-ingot-runtime.yaml has with the
// name of the ExtensionConfig behind them.
const (
	NameVariables = "discover-variables"
	NamePatches   = "generate-patches"
	NameTopology  = "validate-topology"
)

// errCatalogue is all that a condition is to say of an API server that fails.
var errCatalogue = errors.New("the image catalogue cannot be read now; the call is made again")

// Options of the handlers.
type Options struct {
	// Images lists the catalogue, from the cache.
	Images func(context.Context) ([]infrav1.IngotImage, error)
	// Choose names the image for what is wanted; its error is for people.
	Choose func([]infrav1.IngotImage, Wanted) (string, error)
}

// Handlers of the topology mutation hooks.
func Handlers(o Options) []server.ExtensionHandler {
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.DiscoverVariables, Name: NameVariables, HandlerFunc: discoverVariables},
		{Hook: runtimehooksv1.GeneratePatches, Name: NamePatches, HandlerFunc: o.generatePatches},
		{Hook: runtimehooksv1.ValidateTopology, Name: NameTopology, HandlerFunc: validateTopology},
	}
}

func discoverVariables(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest, answer *runtimehooksv1.DiscoverVariablesResponse) {
	answer.Variables = definitions()
	settle(answer, nil)
}

func (o Options) generatePatches(ctx context.Context, request *runtimehooksv1.GeneratePatchesRequest, answer *runtimehooksv1.GeneratePatchesResponse) {
	var images []infrav1.IngotImage
	read := false
	items, err := generate(request, func(wanted Wanted) (string, error) {
		if !read {
			var err error
			if images, err = o.Images(ctx); err != nil {
				ctrl.LoggerFrom(ctx).Error(err, "Failed to list the IngotImages")
				return "", errCatalogue
			}
			read = true
		}
		return o.Choose(images, wanted)
	})
	if err == nil {
		answer.Items = items
	}
	settle(answer, err)
}

func validateTopology(_ context.Context, request *runtimehooksv1.ValidateTopologyRequest, answer *runtimehooksv1.ValidateTopologyResponse) {
	settle(answer, validate(request))
}

// settle sets status and message.
func settle(answer runtimehooksv1.ResponseObject, err error) {
	answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if err != nil {
		answer.SetStatus(runtimehooksv1.ResponseStatusFailure)
		answer.SetMessage(err.Error())
	}
}
