// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"

	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// RBAC of the authenticated diagnostics endpoint.
// +kubebuilder:rbac:groups=authentication.k8s.io,resources=tokenreviews,verbs=create
// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create

// RBAC of the migration. RBAC cannot limit list and watch to names.
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=list;watch
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions,verbs=get;patch,resourceNames=ingotclusters.infrastructure.cluster.x-k8s.io;ingotclustertemplates.infrastructure.cluster.x-k8s.io;ingotmachines.infrastructure.cluster.x-k8s.io;ingotmachinetemplates.infrastructure.cluster.x-k8s.io;ingothosts.infrastructure.cluster.x-k8s.io;ingothardwares.infrastructure.cluster.x-k8s.io;ingotnetworks.infrastructure.cluster.x-k8s.io;ingotreservations.infrastructure.cluster.x-k8s.io;ingotimages.infrastructure.cluster.x-k8s.io;ingotremediations.infrastructure.cluster.x-k8s.io;ingotremediationtemplates.infrastructure.cluster.x-k8s.io
// +kubebuilder:rbac:groups=apiextensions.k8s.io,resources=customresourcedefinitions/status,verbs=patch,resourceNames=ingotclusters.infrastructure.cluster.x-k8s.io;ingotclustertemplates.infrastructure.cluster.x-k8s.io;ingotmachines.infrastructure.cluster.x-k8s.io;ingotmachinetemplates.infrastructure.cluster.x-k8s.io;ingothosts.infrastructure.cluster.x-k8s.io;ingothardwares.infrastructure.cluster.x-k8s.io;ingotnetworks.infrastructure.cluster.x-k8s.io;ingotreservations.infrastructure.cluster.x-k8s.io;ingotimages.infrastructure.cluster.x-k8s.io;ingotremediations.infrastructure.cluster.x-k8s.io;ingotremediationtemplates.infrastructure.cluster.x-k8s.io
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters;ingotmachines;ingotmachinetemplates;ingothosts;ingothardwares;ingotnetworks;ingotreservations;ingotimages;ingotremediations,verbs=list;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclustertemplates;ingotremediationtemplates,verbs=get;list;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotclusters/status;ingotmachines/status;ingotmachinetemplates/status;ingothosts/status;ingotreservations/status;ingotimages/status;ingotremediations/status,verbs=patch

// addMigrator adds Cluster API's CRD migrator. It rewrites stored objects in the storage version and
// removes managed fields of old versions, so that a later release can drop a version.
func addMigrator(ctx context.Context, mgr manager.Manager, o *Options) error {
	phases := make([]crdmigrator.Phase, 0, len(o.SkipCRDMigrationPhases))
	for _, phase := range o.SkipCRDMigrationPhases {
		phases = append(phases, crdmigrator.Phase(phase))
	}
	// The cache of a single namespace does not contain all objects.
	cached := o.Namespace == ""
	withStatus := crdmigrator.ByObjectConfig{UseCache: cached, UseStatusForStorageVersionMigration: true}
	return (&crdmigrator.CRDMigrator{
		Client: mgr.GetClient(), APIReader: mgr.GetAPIReader(), SkipCRDMigrationPhases: phases,
		Config: map[client.Object]crdmigrator.ByObjectConfig{
			&infrav1.IngotCluster{}:         withStatus,
			&infrav1.IngotMachine{}:         withStatus,
			&infrav1.IngotMachineTemplate{}: withStatus,
			&infrav1.IngotHost{}:            withStatus,
			&infrav1.IngotReservation{}:     withStatus,
			&infrav1.IngotImage{}:           withStatus,
			&infrav1.IngotRemediation{}:     withStatus,
			&infrav1.IngotHardware{}:        {UseCache: cached},
			&infrav1.IngotNetwork{}:         {UseCache: cached},
			// These are read only here, so a cache is not worthwhile.
			&infrav1.IngotClusterTemplate{}:     {},
			&infrav1.IngotRemediationTemplate{}: {},
		},
	}).SetupWithManager(ctx, mgr, workers(1))
}
