// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package cluster_test

import (
	"context"
	"fmt"

	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/controllers/cluster"
)

// How cmd/manager/app starts the reconciler. It is compiled, and never run.
func Example() {
	ctx := context.Background()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = (&cluster.Reconciler{Client: mgr.GetClient(), Recorder: mgr.GetEventRecorder("ingotcluster")}).SetupWithManager(ctx, mgr, controller.Options{})
	fmt.Println(err)
}
