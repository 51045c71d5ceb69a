// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller"
	metricsserver "sigs.k8s.io/controller-runtime/pkg/metrics/server"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/internal/ipam"
	"github.com/ingot-metal/ingot/test/eventually"
)

// Every change is seen by a watch: the poll interval is an hour.
func testWatches(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	mgr, err := ctrl.NewManager(on.cfg, ctrl.Options{Scheme: on.scheme, Metrics: metricsserver.Options{BindAddress: "0"},
		Cache: cache.Options{DefaultNamespaces: map[string]cache.Config{y.ns: {}}}}) // other hosts belong to other tests
	must(y, err)
	must(y, index.Setup(t.Context(), mgr.GetFieldIndexer()))
	r := &Reconciler{Client: mgr.GetClient(), Live: mgr.GetAPIReader(), BMC: y.bmc, Recorder: y.events, Clock: clock.RealClock{},
		Policy: y.Policy, Poll: time.Hour, NewID: y.NewID, Addresses: &ipam.Memory{}}
	must(y, r.SetupWithManager(mgr, controller.Options{}))
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- mgr.Start(ctx) }()
	defer func() {
		cancel()
		must(y, <-done)
	}()

	inspected := func(h *infrav1.IngotHost) { h.Spec.Record = &infrav1.HostRecord{InspectedTime: metav1.Now()} }
	available := func(name string, status metav1.ConditionStatus, reason string) {
		t.Helper()
		y.eventually(name, infrav1.HostAvailableCondition, status, reason)
	}
	first := y.ready("a", inspected)
	available("a", metav1.ConditionTrue, infrav1.ReasonAvailable)

	t.Log("a person's annotation pauses, and its removal wakes")
	y.pause("a")
	y.eventually("a", infrav1.PausedCondition, metav1.ConditionTrue, infrav1.ReasonPaused)
	y.edit("a", func(h *infrav1.IngotHost) { h.Annotations, h.Spec.Power = nil, infrav1.PowerIntentOff })
	available("a", metav1.ConditionFalse, infrav1.ReasonPoweredOff)
	y.edit("a", func(h *infrav1.IngotHost) { h.Spec.Power = "" })
	available("a", metav1.ConditionTrue, infrav1.ReasonAvailable)

	t.Log("a duplicate disables the host until it is deleted")
	y.ready("twin", inspected, func(h *infrav1.IngotHost) { h.Spec.BMC.Address = first.Spec.BMC.Address })
	available("a", metav1.ConditionFalse, infrav1.ReasonDuplicate)
	must(y, y.api.Delete(y.ctx, y.get("twin")))
	available("a", metav1.ConditionTrue, infrav1.ReasonAvailable)

	t.Log("a claim whose machine comes and goes")
	y.claim("a")
	y.edit("a", func(h *infrav1.IngotHost) { h.Spec.Claim.State, h.Spec.Claim.Attempt = infrav1.ClaimProvisioned, 1 })
	y.eventually("a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)
	machine := &infrav1.IngotMachine{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "m-a"}}
	must(y, y.api.Delete(y.ctx, machine))
	y.eventually("a", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonMachineNotFound)
	y.machine("a", y.get("a").Spec.Claim.InstanceID)
	y.eventually("a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)

	t.Log("a status that was lost")
	y.status("a", func(s *infrav1.IngotHostStatus) { *s = infrav1.IngotHostStatus{} })
	y.eventually("a", infrav1.ReadyCondition, metav1.ConditionTrue, infrav1.ReasonProvisioned)

	t.Log("a Secret that goes wrong and is corrected")
	secret := y.secret("bmc")
	must(y, y.api.Get(y.ctx, keyOf(&infrav1.IngotHost{ObjectMeta: secret.ObjectMeta}), secret))
	secret.Data["password"] = []byte("wrong")
	must(y, y.api.Update(y.ctx, secret))
	y.eventually("a", infrav1.HostCredentialsValidCondition, metav1.ConditionFalse, infrav1.ReasonCredentialsRejected)
	secret.Data["password"] = []byte(canary)
	must(y, y.api.Update(y.ctx, secret))
	y.eventually("a", infrav1.HostCredentialsValidCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsAccepted)

	t.Log("a Secret with a CA that is corrected")
	ca := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: y.ns, Name: "ca"}}
	y.create(ca)
	y.edit("a", func(h *infrav1.IngotHost) {
		h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca", Kind: infrav1.CABundleSecret}
	})
	y.eventually("a", infrav1.HostBMCReachableCondition, metav1.ConditionUnknown, infrav1.ReasonCABundleMissing)
	must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(ca), ca))
	ca.Data = map[string][]byte{infrav1.CAKey: []byte("pem")}
	must(y, y.api.Update(y.ctx, ca))
	y.eventually("a", infrav1.HostBMCReachableCondition, metav1.ConditionTrue, infrav1.ReasonBMCResponding)
}

// eventually waits for a condition.
func (y *fixture) eventually(name, kind string, status metav1.ConditionStatus, reason string) {
	y.t.Helper()
	explain := func() string { return fmt.Sprintf("%+v", y.get(name).Status.Conditions) }
	eventually.Wait{Explain: explain}.Until(y.t, fmt.Sprintf("condition %s %s %s", kind, status, reason), eventually.Holds(func() bool {
		c := conditions.Get(y.get(name), kind)
		return c != nil && c.Status == status && c.Reason == reason
	}))
}

// M41: hosts of another manager are not touched.
func testWatchFilter(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	y.WatchFilterValue = "mine"
	for _, value := range []string{"mine", "theirs"} {
		y.ready(value, func(h *infrav1.IngotHost) { h.Labels = map[string]string{clusterv1.WatchLabel: value} })
	}
	for range 3 { // finalizer, pause and BMC read
		y.step("theirs")
	}
	if h := y.get("theirs"); len(h.Finalizers) != 0 || len(h.Status.Conditions) != 0 || y.bmc.readsSoFar() != 0 {
		t.Errorf("another manager's host was touched: finalizers %v, conditions %v, BMC read %d times", h.Finalizers, h.Status.Conditions, y.bmc.readsSoFar())
	}
	for range 3 {
		y.step("mine")
	}
	if y.get("mine").Status.Phase == "" || y.bmc.readsSoFar() == 0 {
		t.Error("our host was not touched")
	}
}
