// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/webhooks/conversion"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// +kubebuilder:rbac:groups=authorization.k8s.io,resources=subjectaccessreviews,verbs=create
// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts;ingotnetworks;ingothardwares;ingotclusters;ingotmachines;ingotmachinetemplates,verbs=list;watch
// +kubebuilder:rbac:groups=cluster.x-k8s.io,resources=machines,verbs=get

// Options configures the webhooks.
type Options struct {
	// ManagerUsername is the user name of the manager at the API server (--manager-username). Only
	// this user may change the persistent state of hosts, spec.providerID and IngotHardware (I9).
	// If it is empty, no user may.
	ManagerUsername string
	BMCs            BMCs
}

// SetupWithManager registers the defaulting, validation and conversion of every kind. The scheme
// of mgr must contain both API versions, and its cache the indexes of internal/index. The cache is
// delayed: two conflicting hosts that are written at once can both be admitted, so the host
// controller checks again (I8).
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	g := guard{managerUsername: options.ManagerUsername, access: reviewer{client: mgr.GetClient()}}
	reader := mgr.GetClient()
	c := warnings.Checker{Reader: reader}
	steps := []func() error{
		mutateBy(mgr, &v1beta2.IngotHost{}, hostDefaulter{clock: clock.RealClock{}}),
		mutate(mgr, &v1beta2.IngotNetwork{}, defaultNetwork),
		mutate(mgr, &v1beta2.IngotMachine{}, defaultMachine),
		mutate(mgr, &v1beta2.IngotMachineTemplate{}, defaultMachineTemplate),
		mutate(mgr, &v1beta2.IngotCluster{}, defaultCluster),
		mutate(mgr, &v1beta2.IngotClusterTemplate{}, defaultClusterTemplate),
		mutate(mgr, &v1beta2.IngotImage{}, defaultImage),
		register(mgr, &v1beta2.IngotImage{}, &imageValidator{reader: reader, clock: clock.RealClock{}}, nil),
		register(mgr, &v1beta2.IngotReservation{}, reservationValidator{}, nil),
		register(mgr, &v1beta2.IngotHost{}, &hostValidator{guard: g, hosts: reader, live: mgr.GetAPIReader(), checker: c, bmcs: options.BMCs, clock: clock.RealClock{}}, nil),
		register(mgr, &v1beta2.IngotHardware{}, &hardwareValidator{guard: g}, nil),
		register(mgr, &v1beta2.IngotNetwork{}, &networkValidator{reader: reader, checker: c}, nil),
		register(mgr, &v1beta2.IngotMachine{}, &machineValidator{guard: g, checker: c, live: mgr.GetAPIReader()}, conversion.Machine()),
		register(mgr, &v1beta2.IngotMachineTemplate{}, &machineTemplateValidator{checker: c}, conversion.MachineTemplate()),
		register(mgr, &v1beta2.IngotCluster{}, &clusterValidator{checker: c}, conversion.Cluster()),
		register(mgr, &v1beta2.IngotClusterTemplate{}, &clusterTemplateValidator{checker: c}, conversion.ClusterTemplate()),
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// register returns a function that registers one kind. convert is nil for a kind with one version.
func register[T client.Object](mgr ctrl.Manager, object T, validator admission.Validator[T], convert conversion.New) func() error {
	return func() error {
		builder := ctrl.NewWebhookManagedBy(mgr, object).WithValidator(validator)
		if convert != nil {
			builder = builder.WithConverter(convert)
		}
		if err := builder.Complete(); err != nil {
			return fmt.Errorf("register the webhooks of %T: %w", runtime.Object(object), err)
		}
		return nil
	}
}
