// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Each decision is one log line with the machine's keys.
func testLog(t *testing.T, cfg *rest.Config, scheme *runtime.Scheme) {
	s := newSite(t, cfg, scheme)
	var lines []string
	s.ctx = ctrl.LoggerInto(s.ctx, funcr.New(func(_, args string) { lines = append(lines, args) }, funcr.Options{}))
	s.machine("m")
	s.settle("m")
	s.host("h", "a")
	s.provision("m")
	owner := &clusterv1.Machine{}
	s.must(s.api.Get(s.ctx, s.key("m"), owner))
	s.must(s.api.Delete(s.ctx, owner))
	s.must(s.api.Delete(s.ctx, s.get("m")))
	s.settle("m")
	s.editHost("h", func(h *infrav1.IngotHost) { h.Spec.Claim.FencedTime = metav1.NewTime(s.clock.Now()) })
	s.step("m")
	for _, want := range []struct {
		message string
		keys    []string
	}{
		{`Condition changed" "machine"="` + s.ns + `/m" "cluster"="` + s.ns + `/c" "condition"="HostClaimed" "status"="False`, []string{"reason"}},
		{"Wrote spec.providerID", nil},
		{"Claimed the host", []string{"host", "instanceID", "duration"}},
		{"The machine is provisioned", []string{"host", "instanceID", "attempt", "duration"}},
		{"Releasing the host", []string{"host", "instanceID"}},
		{"Removed the finalizer", []string{"host", "instanceID"}},
	} {
		found := 0
		for _, line := range lines {
			if !strings.Contains(line, `"msg"="`+want.message) {
				continue
			}
			found++
			for _, key := range append(want.keys, "machine", "cluster") {
				if !strings.Contains(line, `"`+key+`"=`) {
					t.Errorf("a line without %s: %s", key, line)
				}
			}
		}
		if found != 1 {
			t.Errorf("%q is logged %d times:\n%s", want.message, found, strings.Join(lines, "\n"))
		}
	}
}
