// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"context"
	"errors"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
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
	// Templates are the machine templates that a Cluster's topology has now.
	Templates func(context.Context, types.NamespacedName) ([]infrav1.IngotMachineTemplate, error)
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
	in := &inUse{Options: o, request: request}
	items, err := generate(request, func(wanted Wanted, deployment string) (string, error) {
		if err := in.read(ctx); err != nil {
			return "", err
		}
		query := inventory.ImageQuery{KubernetesVersion: wanted.Version, Architecture: wanted.Architecture, OS: wanted.OS}
		if kept := inventory.ImageInUse(ofGroup(in.templates, deployment), in.images, query); kept != "" {
			return kept, nil // another image of the catalogue is for machines to come
		}
		if wanted.OS == "" {
			wanted.OS = SystemInUse(in.templates, in.images, deployment)
		}
		return o.Choose(in.images, wanted)
	})
	if err == nil {
		answer.Items = items
	}
	settle(answer, err)
}

// inUse is the catalogue, and what of it the Cluster of a request uses.
type inUse struct {
	Options
	request   *runtimehooksv1.GeneratePatchesRequest
	done      bool
	images    []infrav1.IngotImage
	templates []infrav1.IngotMachineTemplate
}

// read reads it once.
func (u *inUse) read(ctx context.Context) error {
	if u.done {
		return nil
	}
	cluster, err := clusterOf(u.request)
	if err != nil {
		return err
	}
	if u.images, err = u.Images(ctx); err == nil {
		u.templates, err = u.Templates(ctx, cluster)
	}
	if err != nil {
		ctrl.LoggerFrom(ctx).Error(err, "Failed to read the image catalogue")
		return errCatalogue
	}
	u.done = true
	return nil
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
