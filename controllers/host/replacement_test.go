// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/hardware"
)

// identified is a BMC that says which server it manages.
type identified struct {
	*fakeBMC
	identity bmc.Identity
}

func (i *identified) Do(ctx context.Context, target bmc.Target, fn func(context.Context, bmc.Conn) error) error {
	return i.fakeBMC.Do(ctx, target, func(ctx context.Context, _ bmc.Conn) error { return fn(ctx, i) })
}

func (i *identified) Inventory(context.Context) (bmc.Inventory, error) {
	return bmc.Inventory{Identity: i.identity, MACs: i.macs}, nil
}

// testReplacement: an address that leads to the BMC of another server, which is on,
// must not have that one switched off; a replaced BMC of the same server goes on.
func testReplacement(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	y := newYard(t, cfg, scheme)
	server := bmc.Identity{UUID: uuid.NewString(), Serial: "A1"}
	y.bmc.set(func(f *fakeBMC) { f.power = bmc.PowerOn })
	metal := &identified{fakeBMC: y.bmc, identity: bmc.Identity{UUID: uuid.NewString(), Serial: "B2"}}
	y.BMC = metal
	host := y.ready("h", func(h *infrav1.IngotHost) { h.Spec.Power = infrav1.PowerIntentOff })
	facts, err := hardware.New(host, scheme)
	must(y, err)
	facts.Spec.System = infrav1.HardwareSystem{UUID: server.UUID, SerialNumber: server.Serial}
	y.create(facts)

	for range 6 {
		y.step("h")
		y.clock.Step(time.Minute)
	}
	y.want("h", infrav1.ReadyCondition, metav1.ConditionFalse, infrav1.ReasonWrongServer)
	if writes := y.bmc.took(); writes != "" {
		t.Fatalf("another server was switched: %s", writes)
	}

	metal.identity = server
	y.edit("h", func(h *infrav1.IngotHost) { h.Spec.BMC.Address += ":8443" })
	for range 6 {
		y.step("h")
		y.clock.Step(time.Minute)
		if y.bmc.took() == string(bmc.ActionGracefulOff) {
			return
		}
	}
	t.Errorf("with its own BMC again, the host is not switched off: %+v", y.get("h").Status.Conditions)
}
