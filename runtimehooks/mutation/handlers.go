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

// Names of the handlers. templates/clusterclass-ingot-runtime.yaml uses them with the suffix of the
// ExtensionConfig's name.
const (
	NameVariables = "discover-variables"
	NamePatches   = "generate-patches"
	NameTopology  = "validate-topology"
)

// errCatalog replaces errors of the API server, to keep conditions stable (R22).
var errCatalog = errors.New("Ingot cannot read the image catalog; Cluster API retries the call")

// Options configures the handlers.
type Options struct {
	// Images lists the image catalog from the cache.
	Images func(context.Context) ([]infrav1.IngotImage, error)
	// Choose returns the name of the image for a query. Users see its error.
	Choose func([]infrav1.IngotImage, ImageQuery) (string, error)
	// Templates lists the current machine templates of a Cluster's topology.
	Templates func(context.Context, types.NamespacedName) ([]infrav1.IngotMachineTemplate, error)
}

// Handlers returns the handlers of the topology mutation hooks.
func Handlers(o Options) []server.ExtensionHandler {
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.DiscoverVariables, Name: NameVariables, HandlerFunc: discoverVariables},
		{Hook: runtimehooksv1.GeneratePatches, Name: NamePatches, HandlerFunc: o.generatePatches},
		{Hook: runtimehooksv1.ValidateTopology, Name: NameTopology, HandlerFunc: validateTopology},
	}
}

func discoverVariables(_ context.Context, _ *runtimehooksv1.DiscoverVariablesRequest, answer *runtimehooksv1.DiscoverVariablesResponse) {
	answer.Variables = definitions()
	setStatus(answer, nil)
}

func (o Options) generatePatches(ctx context.Context, request *runtimehooksv1.GeneratePatchesRequest, answer *runtimehooksv1.GeneratePatchesResponse) {
	in := &catalog{Options: o, request: request}
	items, err := generate(request, func(query ImageQuery, deployment string) (string, error) {
		if err := in.read(ctx); err != nil {
			return "", err
		}
		kept := inventory.ImageInUse(templatesOf(in.templates, deployment), in.images,
			inventory.ImageQuery{KubernetesVersion: query.Version, Architecture: query.Architecture, OS: query.OS})
		if kept != "" {
			return kept, nil // a new image must not replace existing machines
		}
		if query.OS == "" {
			query.OS = OSInUse(in.templates, in.images, deployment)
		}
		return o.Choose(in.images, query)
	})
	if err == nil {
		answer.Items = items
	}
	setStatus(answer, err)
}

// catalog holds the images, and the templates of the Cluster of a request.
type catalog struct {
	Options
	request   *runtimehooksv1.GeneratePatchesRequest
	loaded    bool
	images    []infrav1.IngotImage
	templates []infrav1.IngotMachineTemplate
}

// read fills the catalog once.
func (u *catalog) read(ctx context.Context) error {
	if u.loaded {
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
		ctrl.LoggerFrom(ctx).Error(err, "Failed to read the image catalog")
		return errCatalog
	}
	u.loaded = true
	return nil
}

func validateTopology(_ context.Context, request *runtimehooksv1.ValidateTopologyRequest, answer *runtimehooksv1.ValidateTopologyResponse) {
	setStatus(answer, validate(request))
}

func setStatus(answer runtimehooksv1.ResponseObject, err error) {
	answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	if err != nil {
		answer.SetStatus(runtimehooksv1.ResponseStatusFailure)
		answer.SetMessage(err.Error())
	}
}
