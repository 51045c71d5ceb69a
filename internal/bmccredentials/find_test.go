// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/test/testscheme"
)

const canary = "CANARY-0815-bmc-password"

// scene is a namespace with what a host names.
type scene struct {
	*Finder
	host  *infrav1.IngotHost
	notes []string
}

func newScene(t *testing.T, objects ...client.Object) *scene {
	t.Helper()
	scheme := testscheme.Scheme(t)
	builder := fake.NewClientBuilder().WithScheme(scheme).WithObjects(objects...)
	if err := index.Setup(t.Context(), testscheme.Indexer{ClientBuilder: builder}); err != nil {
		t.Fatal(err)
	}
	api := builder.Build()
	s := &scene{host: &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "h", UID: "1"}, Spec: infrav1.IngotHostSpec{
		BMC: &infrav1.BMC{Address: "redfish://bmc.example", CredentialsRef: infrav1.LocalReference{Name: "bmc"}},
	}}}
	s.Finder = &Finder{Client: api, Live: api, Turn: time.Second,
		Fingerprint: func(context.Context, string) (string, error) { return "sha256:seen", nil },
		Note:        func(_ *infrav1.IngotHost, reason, _ string) { s.notes = append(s.notes, reason) }}
	return s
}

func credentials(keys ...string) *corev1.Secret {
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "bmc",
		Labels: map[string]string{infrav1.BMCCredentialsDeleteLabel: ""}}, Data: map[string][]byte{}}
	for _, key := range keys {
		secret.Data[key] = []byte(canary)
	}
	return secret
}

// What is missing is told, and the password in no message.
func TestFind(t *testing.T) {
	both := credentials("username", "password")
	ca := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "n", Name: "ca"}, Data: map[string]string{infrav1.CAKey: "pem"}}
	byCA := func(h *infrav1.IngotHost) { h.Spec.BMC.CABundleRef = &infrav1.CABundleReference{Name: "ca"} }
	firstUse := func(h *infrav1.IngotHost) { h.Spec.BMC.TrustOnFirstUse = ptr.To(true) }
	for name, tc := range map[string]struct {
		objects  []client.Object
		host     func(*infrav1.IngotHost)
		problem  lifecycle.BMCProblem
		says     string
		unpinned bool
	}{
		"all there":        {objects: []client.Object{both}},
		"no Secret":        {problem: lifecycle.BMCCredentialsMissing, says: `Secret "bmc" does not exist`},
		"no password":      {objects: []client.Object{credentials("username")}, problem: lifecycle.BMCCredentialsMissing, says: `no key "password"`},
		"a CA":             {objects: []client.Object{both, ca}, host: byCA},
		"no CA":            {objects: []client.Object{both}, host: byCA, problem: lifecycle.BMCCAMissing, says: `ConfigMap "ca" does not exist`},
		"before first use": {objects: []client.Object{both}, host: firstUse, unpinned: true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(t, tc.objects...)
			if tc.host != nil {
				tc.host(s.host)
			}
			found, err := s.Find(t.Context(), s.host, nil)
			if err != nil {
				t.Fatal(err)
			}
			if found.Problem != tc.problem || !strings.Contains(found.Message, tc.says) || found.Unpinned != tc.unpinned || strings.Contains(found.Message, canary) {
				t.Errorf("problem %q, message %q, unpinned %t", found.Problem, found.Message, found.Unpinned)
			}
			if tc.problem == lifecycle.BMCOK && (found.Target.Password.Reveal() != canary || found.Version == "") {
				t.Errorf("target %v, version %q", found.Target, found.Version)
			}
		})
	}
}

// The version tells another password, and no label; the Secret is the host's own then.
func TestVersion(t *testing.T) {
	s := newScene(t, credentials("username", "password"))
	find := func() Access {
		t.Helper()
		found, err := s.Find(t.Context(), s.host, nil)
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := find()
	if len(first.Secret.OwnerReferences) != 1 {
		t.Errorf("owners %v", first.Secret.OwnerReferences)
	}
	changed := first.Secret.DeepCopy()
	changed.Labels["team"] = "a"
	if err := s.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if find().Version != first.Version {
		t.Error("a label makes a BMC be asked at once")
	}
	changed.Data["password"] = []byte("another")
	if err := s.Client.Update(t.Context(), changed); err != nil {
		t.Fatal(err)
	}
	if find().Version == first.Version {
		t.Error("another password does not")
	}
}

// The pin is written down before anybody may log in, once, and by who sees what is there.
func TestPin(t *testing.T) {
	s := newScene(t, credentials("username", "password"))
	s.host.Spec.BMC.TrustOnFirstUse = ptr.To(true)
	pinned, refused, err := s.Pin(t.Context(), s.host, nil)
	if refused != nil || err != nil {
		t.Fatal(refused, err)
	}
	found, err := s.Find(t.Context(), s.host, pinned)
	if err != nil || found.Unpinned || found.Target.Fingerprint != "sha256:seen" || len(s.notes) != 1 {
		t.Errorf("%+v, %v, notes %q", found.Target, err, s.notes)
	}
	if _, _, err := s.Pin(t.Context(), s.host, nil); !errors.Is(err, ErrStale) {
		t.Errorf("who has not seen the pin: %v", err)
	}
	s.host.Spec.BMC.TrustOnFirstUse = nil
	if free, err := s.Unpin(t.Context(), s.host, pinned); err != nil || free.Spec.BMC != nil {
		t.Errorf("after the choice was taken back: %+v, %v", free.Spec.BMC, err)
	}
	s.Fingerprint = func(context.Context, string) (string, error) { return "", bmc.ErrUnreachable }
	if _, refused, err := s.Pin(t.Context(), s.host, nil); !errors.Is(refused, bmc.ErrUnreachable) || err != nil {
		t.Errorf("nobody there: %v, %v", refused, err)
	}
}
