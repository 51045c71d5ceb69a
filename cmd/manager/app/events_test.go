// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	eventsv1 "k8s.io/api/events/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/test/envtest"
)

// The API server accepts every Event of the manager's recorders, even with a long message.
func TestEventNotesAreTruncated(t *testing.T) {
	env := envtest.Environment(t, envtest.IngotCRDs(t))
	envtest.StartEnvironment(t, env)
	o := DefaultOptions()
	o.Kubeconfig = filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(o.Kubeconfig, env.KubeConfig, 0o600); err != nil {
		t.Fatal(err)
	}
	o.Manager.DiagnosticsAddress, o.Manager.InsecureDiagnostics, o.HealthAddress, o.LeaderElect = "0", true, "0", false
	mgr, err := newManager(o)
	if err != nil {
		t.Fatal(err)
	}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: "h", UID: "1"}}
	for reason, tc := range map[string]struct {
		note  string
		bytes int // minimum length of the stored note
	}{
		// The longest message of a failure, with a remedy.
		infrav1.ReasonQuarantined: {inventory.Truncate(strings.Repeat("x", 2000), 1024) + ". Repair the host", 1024},
		infrav1.ReasonCleanFailed: {strings.Repeat("ü", 1000), 1023},
		infrav1.ReasonInspected:   {"100 % of " + strings.Repeat("x", 1015), 1024},
	} {
		t.Run(reason, func(t *testing.T) {
			mgr.GetEventRecorder("ingot").Eventf(host, nil, corev1.EventTypeWarning, reason, "ReconcileHost", "%s", tc.note)
			got := recorded(t, mgr.GetAPIReader(), reason)
			if !strings.HasPrefix(tc.note, strings.TrimSuffix(got, "…")) || len(got) != tc.bytes {
				t.Errorf("%d bytes of %d, want %d: %q", len(got), len(tc.note), tc.bytes, got)
			}
		})
	}
}

// recorded returns the note of the Event.
func recorded(t *testing.T, reader client.Reader, reason string) (note string) {
	t.Helper()
	err := wait.PollUntilContextTimeout(t.Context(), 200*time.Millisecond, 20*time.Second, true, func(ctx context.Context) (bool, error) {
		list := &eventsv1.EventList{}
		if err := reader.List(ctx, list); err != nil {
			return false, err
		}
		for _, e := range list.Items {
			if e.Reason == reason {
				note = e.Note
				return true, nil
			}
		}
		return false, nil
	})
	if err != nil {
		t.Fatalf("no Event %s: %v", reason, err)
	}
	return note
}
