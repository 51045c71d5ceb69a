// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine_test

import (
	"context"
	"fmt"

	"github.com/google/uuid"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/controller"

	"github.com/ingot-metal/ingot/controllers/machine"
)

// How cmd/manager/app starts the reconciler. It is compiled, and never run.
func Example() {
	ctx := context.Background()
	mgr, err := ctrl.NewManager(ctrl.GetConfigOrDie(), ctrl.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	err = (&machine.Reconciler{
		Client: mgr.GetClient(), Live: mgr.GetAPIReader(), Recorder: mgr.GetEventRecorder("ingotmachine"),
		Clock: clock.RealClock{}, NewID: uuid.NewString,
	}).SetupWithManager(ctx, mgr, controller.Options{})
	fmt.Println(err)
}
