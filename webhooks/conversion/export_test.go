// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conversion

import (
	"context"

	"github.com/ingot-metal/ingot/api/v1beta1"
	"github.com/ingot-metal/ingot/api/v1beta2"
)

// Wrappers of the conversion functions for Cluster API's round-trip tests.

func ClusterToHub(ctx context.Context, src *v1beta1.IngotCluster, dst *v1beta2.IngotCluster) error {
	return clusterToHub(ctx, src, dst)
}

func ClusterFromHub(ctx context.Context, src *v1beta2.IngotCluster, dst *v1beta1.IngotCluster) error {
	return clusterFromHub(ctx, src, dst)
}

func ClusterTemplateToHub(ctx context.Context, src *v1beta1.IngotClusterTemplate, dst *v1beta2.IngotClusterTemplate) error {
	return clusterTemplateToHub(ctx, src, dst)
}

func ClusterTemplateFromHub(ctx context.Context, src *v1beta2.IngotClusterTemplate, dst *v1beta1.IngotClusterTemplate) error {
	return clusterTemplateFromHub(ctx, src, dst)
}

func MachineToHub(ctx context.Context, src *v1beta1.IngotMachine, dst *v1beta2.IngotMachine) error {
	return machineToHub(ctx, src, dst)
}

func MachineFromHub(ctx context.Context, src *v1beta2.IngotMachine, dst *v1beta1.IngotMachine) error {
	return machineFromHub(ctx, src, dst)
}

func MachineTemplateToHub(ctx context.Context, src *v1beta1.IngotMachineTemplate, dst *v1beta2.IngotMachineTemplate) error {
	return machineTemplateToHub(ctx, src, dst)
}

func MachineTemplateFromHub(ctx context.Context, src *v1beta2.IngotMachineTemplate, dst *v1beta1.IngotMachineTemplate) error {
	return machineTemplateFromHub(ctx, src, dst)
}
