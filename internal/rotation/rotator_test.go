// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	testclock "k8s.io/utils/clock/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const canary = "CANARY-0815-bmc-password"

// door is a BMC that accepts one password.
type door struct {
	bmc.Conn // the rest of it is never called
	password bmc.Password
	// refuses and loses decide the result of a new password.
	refuses, loses bool
	sent           int
	told           []string
}

func (d *door) Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	if target.Password != d.password {
		return fmt.Errorf("login: %w", bmc.ErrUnauthorized)
	}
	return calls(ctx, d)
}

func (d *door) Read(context.Context) bool { return true }

func (d *door) Failed(err error, tell func(string) string) {
	d.told = append(d.told, tell(err.Error()))
}

func (d *door) PowerState(context.Context) (bmc.PowerState, error) { return bmc.PowerOn, nil }
func (d *door) Close(context.Context) error                        { return nil }

func (d *door) SetPassword(_ context.Context, password bmc.Password) error {
	d.sent++
	switch {
	case d.refuses:
		return fmt.Errorf("%s is too simple: %w", password.Reveal(), bmc.ErrNotApplied)
	case d.loses:
		return nil // it says yes, and keeps the old one
	}
	d.password = password
	return nil
}

// The Secret ends with the BMC's password, and no text contains a password.
func TestRotate(t *testing.T) {
	for name, tc := range map[string]struct {
		door   door
		seen   lifecycle.Observation
		reason string
		sent   int
	}{
		"taken":              {reason: infrav1.ReasonCredentialsRotated, sent: 1},
		"refused":            {door: door{refuses: true}, reason: infrav1.ReasonRotationFailed, sent: 1},
		"lost":               {door: door{loses: true}, reason: infrav1.ReasonRotationFailed, sent: 3},
		"a duplicate":        {seen: lifecycle.Observation{DuplicateOf: "n/other"}, reason: infrav1.ReasonRotationRejected},
		"another server":     {seen: lifecycle.Observation{WrongServer: "serial B2"}, reason: infrav1.ReasonRotationRejected},
		"no NIC of the host": {seen: lifecycle.Observation{BootMACMissing: true}, reason: infrav1.ReasonRotationRejected},
	} {
		t.Run(name, func(t *testing.T) {
			tc.door.password = canary
			secret, outcome, texts := rotate(t, &tc.door, &tc.seen)
			if outcome == nil || outcome.Reason != tc.reason || tc.door.sent != tc.sent {
				t.Fatalf("told %+v after %d sendings, want %s after %d", outcome, tc.door.sent, tc.reason, tc.sent)
			}
			if bmc.Password(secret.Data[infrav1.SecretKeyPassword]) != tc.door.password || len(secret.Data[infrav1.SecretKeyNextPassword]) > 0 || secret.Annotations[infrav1.RotatingAnnotation] != "" {
				t.Error("the Secret does not hold the password of the BMC")
			}
			for _, text := range append(append(texts, tc.door.told...), outcome.Message) {
				for _, key := range []string{infrav1.SecretKeyPassword, infrav1.SecretKeyUnprovenPassword} {
					if password := string(secret.Data[key]); password != "" && strings.Contains(text, password) {
						t.Errorf("a password is shown: %s", strings.ReplaceAll(text, password, "***"))
					}
				}
			}
		})
	}
}

// rotate runs a rotation to its end. It returns the Secret, the condition and the events.
func rotate(t *testing.T, d *door, seen *lifecycle.Observation) (*corev1.Secret, *metav1.Condition, []string) {
	t.Helper()
	scheme := testscheme.Scheme(t)
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "bmc"},
		Data: map[string][]byte{infrav1.SecretKeyUsername: []byte("root"), infrav1.SecretKeyPassword: []byte(canary)}}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "1",
		Annotations: map[string]string{infrav1.RotateCredentialsAnnotation: "1970-01-01T00:16:40Z"}}}
	host.Spec.BMC = &infrav1.BMC{Address: "redfish://bmc.example", CredentialsRef: infrav1.LocalReference{Name: "bmc"}}
	none := func(client.Object) []string { return nil }
	api := fake.NewClientBuilder().WithScheme(scheme).WithObjects(secret, host).
		WithIndex(&infrav1.IngotHost{}, index.HostByCredentials, none).WithIndex(&infrav1.IngotHost{}, index.HostByBMC, none).Build()
	var texts []string
	tell := func(_ *infrav1.IngotHost, _, message string) { texts = append(texts, message) }
	r := &Rotator{Client: api, Clock: testclock.NewFakeClock(time.Unix(1000, 0)), BMC: d, Turn: time.Minute,
		Current: func(context.Context, *infrav1.IngotHost) error { return nil },
		Save: func(ctx context.Context, next, before *infrav1.IngotHost) error {
			return api.Patch(ctx, next, client.MergeFrom(before))
		},
		Note: tell, Warn: tell}
	seen.Now = r.Clock.Now()
	var memory Memory
	var told *metav1.Condition
	for range 10 {
		target := bmc.Target{Address: host.Spec.BMC.Address, Username: "root", Password: bmc.Password(secret.Data[infrav1.SecretKeyPassword])}
		outcome, err := r.Rotate(t.Context(), View{Host: host, Secret: secret, Target: &target, Seen: seen, Memory: &memory})
		if err != nil {
			t.Fatal(err)
		}
		if outcome.Condition != nil {
			told = outcome.Condition
		}
		if err := api.Get(t.Context(), client.ObjectKeyFromObject(secret), secret); err != nil {
			t.Fatal(err)
		}
		if !IsAsked(host, seen, true) && !IsPending(host, secret) {
			break
		}
	}
	return secret, told, texts
}
