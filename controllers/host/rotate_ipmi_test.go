// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/ipmi"
	"github.com/ingot-metal/ingot/internal/rotation"
	labbmc "github.com/ingot-metal/ingot/lab/bmc"
	labipmi "github.com/ingot-metal/ingot/lab/ipmi"
)

// By IPMI a password of 16 bytes is set, which every BMC has room for, and proven.
func testRotationIPMI(t *testing.T, on *ground) {
	const old = "CANARY-0817"
	y := newYard(t, on)
	lab, err := labipmi.Start(labipmi.Config{Machine: &labbmc.Bench{}, Username: "root", Password: old})
	must(y, err)
	t.Cleanup(func() { _ = lab.Close() })
	pool := bmc.NewPool(ipmi.Dial, bmc.PoolOptions{})
	t.Cleanup(func() { _ = pool.Close(context.Background()) })
	y.BMC = pool
	secret := y.secret("bmc")
	secret.Data[infrav1.SecretKeyPassword] = []byte(old)
	y.create(secret)
	y.host("h", func(h *infrav1.IngotHost) {
		h.Spec.BMC.Address, h.Spec.Maintenance = lab.Address(), ptr.To(true)
		h.Annotations = map[string]string{infrav1.RotateCredentialsAnnotation: commandAt(y.clock.Now())}
	})
	y.until("h", "rotated", func(h *infrav1.IngotHost) bool {
		_, asked := h.Annotations[infrav1.RotateCredentialsAnnotation]
		return !asked
	})
	y.want("h", infrav1.HostCredentialsRotatedCondition, metav1.ConditionTrue, infrav1.ReasonCredentialsRotated)
	must(y, y.api.Get(y.ctx, client.ObjectKeyFromObject(secret), secret))
	target := bmc.Target{Address: lab.Address(), Username: "root", Password: bmc.Password(secret.Data[infrav1.SecretKeyPassword])}
	if n := len(target.Password.Reveal()); n != rotation.LengthIPMI || len(secret.Data) != 2 {
		t.Errorf("a password of %d bytes, %d keys", n, len(secret.Data))
	}
	conn, err := ipmi.Dial(t.Context(), target)
	must(y, err)
	must(y, conn.Close(t.Context()))
	target.Password = old
	if conn, err := ipmi.Dial(t.Context(), target); !errors.Is(err, bmc.ErrUnauthorized) {
		t.Errorf("the old password still holds: %v, %v", conn, err)
	}
}
