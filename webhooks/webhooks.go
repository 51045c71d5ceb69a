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

// Options of the webhooks.
type Options struct {
	// ManagerUsername is the user name of Ingot's manager, as the API server
	// sees it (--manager-username): the only identity that may change the ledger,
	// spec.providerID and IngotHardware (I9). Empty: nobody may.
	ManagerUsername string
	// BMCs tells what the drivers of BMCs can.
	BMCs BMCs
}

// SetupWithManager registers defaulting, validation and conversion of every kind
// with mgr, whose scheme must know both API versions. Hosts, hardware, networks, clusters,
// machines and templates are read from mgr's cache, in which the indexes of internal/index are
// set up; two hosts written within the cache's delay can pass as different, so the
// host controller looks again (I8).
func SetupWithManager(mgr ctrl.Manager, options Options) error {
	g := guard{managerUsername: options.ManagerUsername, access: reviewer{client: mgr.GetClient()}}
	hosts := mgr.GetClient()
	o := warnings.Outlook{Reader: hosts}
	steps := []func() error{
		mutateBy(mgr, &v1beta2.IngotHost{}, hostDefaulter{clock: clock.RealClock{}}),
		mutate(mgr, &v1beta2.IngotNetwork{}, defaultNetwork),
		mutate(mgr, &v1beta2.IngotMachine{}, defaultMachine),
		mutate(mgr, &v1beta2.IngotMachineTemplate{}, defaultMachineTemplate),
		mutate(mgr, &v1beta2.IngotCluster{}, defaultCluster),
		mutate(mgr, &v1beta2.IngotClusterTemplate{}, defaultClusterTemplate),
		mutate(mgr, &v1beta2.IngotImage{}, defaultImage),
		register(mgr, &v1beta2.IngotImage{}, &imageValidator{reader: hosts, clock: clock.RealClock{}}, nil),
		register(mgr, &v1beta2.IngotReservation{}, reservationValidator{}, nil),
		register(mgr, &v1beta2.IngotHost{}, &hostValidator{guard: g, hosts: hosts, live: mgr.GetAPIReader(), outlook: o, bmcs: options.BMCs, clock: clock.RealClock{}}, nil),
		register(mgr, &v1beta2.IngotHardware{}, &hardwareValidator{guard: g}, nil),
		register(mgr, &v1beta2.IngotNetwork{}, &networkValidator{reader: hosts, outlook: o}, nil),
		register(mgr, &v1beta2.IngotMachine{}, &machineValidator{guard: g, outlook: o, live: mgr.GetAPIReader()}, conversion.Machine()),
		register(mgr, &v1beta2.IngotMachineTemplate{}, &machineTemplateValidator{outlook: o}, conversion.MachineTemplate()),
		register(mgr, &v1beta2.IngotCluster{}, &clusterValidator{outlook: o}, conversion.Cluster()),
		register(mgr, &v1beta2.IngotClusterTemplate{}, &clusterTemplateValidator{outlook: o}, conversion.ClusterTemplate()),
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// register returns a step that registers one kind; convert is nil for kinds with
// one version.
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
