// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/cluster-api/util/conditions"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// testUpgraded: hosts that a new version would not admit, by its defaults of allowedNamespaces
// and of --bmc-sources, say what is missing and are not stopped. The remedies that they name
// work.
func testUpgraded(t *testing.T, plane *Plane) {
	const used, free = "used", "free"
	site := plane.NewSite(t, SiteOptions{Servers: []string{used, free}})
	manager := site.StartManager(t, ManagerOptions{Name: "before"})
	site.CreateCluster(t)
	site.Register(t, used)
	site.Register(t, free)
	site.Await(t, "hosts inspected", site.Free(used, free))
	site.Claim(t, used, theHost(used))
	site.Await(t, "host installed", site.Installed(used))

	network := &infrav1.IngotNetwork{}
	check(t, site.Client.Get(t.Context(), client.ObjectKey{Name: site.Namespace}, network))
	network.Spec.AllowedNamespaces = nil // as before there was the field
	site.do(t, "forget the namespaces", func(ctx context.Context) error { return site.Client.Update(ctx, network) })
	manager.Stop()
	manager = site.StartManager(t, ManagerOptions{Name: "after", Args: []string{"--bmc-sources=10.0.0.0/8"}})
	actions := func() []string {
		return slices.DeleteFunc(append(site.Server(used).BMC.Actions(), site.Server(free).BMC.Actions()...), func(action string) bool {
			return action == "Login" || action == "Logout" // the old manager's end
		})
	}
	before := actions()
	for _, name := range []string{used, free} {
		site.Await(t, "host "+name+" to explain itself", site.shows(name, infrav1.HostNetworkAllowedCondition, infrav1.ReasonOutsideAllowedNamespaces, "keeps working", infrav1.NetworksLabel))
		site.Await(t, "host "+name+" to explain itself", site.shows(name, infrav1.HostBMCReachableCondition, infrav1.ReasonBMCAddressNotAllowed, "A server in use keeps running", "--bmc-sources"))
	}
	time.Sleep(statusHold)
	host := site.Host(t, used)
	if claim := host.Spec.Claim; claim == nil || claim.State != infrav1.ClaimProvisioned || !site.Server(used).Powered() {
		t.Errorf("the host in use has claim %+v; its server is on: %t", claim, site.Server(used).Powered())
	}
	if after := actions(); !slices.Equal(before, after) {
		t.Errorf("the BMCs did %v, then %v", before, after)
	}

	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: site.Namespace}}
	check(t, site.Client.Patch(t.Context(), namespace, mergePatch(`{"metadata":{"labels":{"`+infrav1.NetworksLabel+`":"`+infrav1.NetworksAllowed+`"}}}`)))
	manager.Stop()
	site.StartManager(t, ManagerOptions{Name: "remedied", Args: []string{"--bmc-sources=127.0.0.0/8"}})
	for _, name := range []string{used, free} {
		site.Await(t, "host "+name+" to be allowed", site.shows(name, infrav1.HostNetworkAllowedCondition, infrav1.HostNetworkAllowedCondition))
	}
	site.Await(t, "hosts as before", site.Provisioned(used))
	site.Delete(t, used)
	site.Await(t, "hosts free", site.Free(used, free))
}

// shows waits for a condition of a host with the reason and the words.
func (s *Site) shows(name, kind, reason string, words ...string) func(context.Context) (string, error) {
	return func(ctx context.Context) (string, error) {
		host := &infrav1.IngotHost{}
		if err := s.Client.Get(ctx, client.ObjectKey{Namespace: s.Namespace, Name: name}, host); err != nil {
			return "", err
		}
		condition := conditions.Get(host, kind)
		if condition == nil || condition.Reason != reason || slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(condition.Message, w) }) {
			return fmt.Sprintf("%s is %+v", kind, condition), nil
		}
		return "", nil
	}
}
