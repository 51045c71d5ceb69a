// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package e2e

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	rbacv1 "k8s.io/api/rbac/v1"

	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/lab/netns"
)

// seldom are rights that a life like this one does not use, and what does.
var seldom = map[string]string{
	"infrastructure.cluster.x-k8s.io/ingothosts/finalizers update":    "asked for by the admission plugin OwnerReferencesPermissionEnforcement",
	"infrastructure.cluster.x-k8s.io/ingotmachines/finalizers update": "asked for by the admission plugin OwnerReferencesPermissionEnforcement",
	"infrastructure.cluster.x-k8s.io/ingotclustertemplates get":       "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotclustertemplates patch":     "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotnetworks patch":             "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotmachinetemplates patch":     "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotreservations patch":         "promises of hosts: none is made here",
	"infrastructure.cluster.x-k8s.io/ingotreservations delete":        "promises of hosts: none is made here",
	"infrastructure.cluster.x-k8s.io/ingotreservations/status patch":  "promises of hosts: none is made here",
	"infrastructure.cluster.x-k8s.io/ingotimages patch":               "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotimages/status patch":        "the catalogue, which is empty here",
	"ipam.cluster.x-k8s.io/ipaddressclaims patch":                     "a claim whose owner a restore has lost",
	"apiextensions.k8s.io/customresourcedefinitions/status patch":     "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotremediations get":           "remediations of Machines: none is unhealthy here",
	"infrastructure.cluster.x-k8s.io/ingotremediations patch":         "remediations of Machines: none is unhealthy here",
	"infrastructure.cluster.x-k8s.io/ingotremediations/status patch":  "remediations of Machines: none is unhealthy here",
	"infrastructure.cluster.x-k8s.io/ingotremediationtemplates get":   "migration of stored versions",
	"infrastructure.cluster.x-k8s.io/ingotremediationtemplates patch": "migration of stored versions",
	"cluster.x-k8s.io/machines/status patch":                          "Machines handed over by a remediation: none is unhealthy here",
	"events.k8s.io/events patch":                                      "an event that is repeated within minutes",
}

// everyRightIsUsed: each verb that Ingot's service accounts are granted is in the
// audit log of all that was done here, or is known to be for something else.
func everyRightIsUsed(t *testing.T, s *stage) {
	askForMetrics(t, s)
	for account, namespace := range map[string]string{management.ServiceAccount: management.Namespace, "ingot-boot": management.BootNamespace} {
		used := map[string]bool{}
		for _, e := range s.site.Audit(t, time.Time{}) {
			if e.User.Username == "system:serviceaccount:"+namespace+":"+account {
				o := e.Object
				used[right(o.APIGroup, o.Resource, o.Subresource, e.Verb)] = true
			}
		}
		for _, right := range granted(t, s, namespace, account) {
			// A watch brings the list with it where the server can; it is asked for
			// only where it cannot.
			watch := strings.TrimSuffix(right, " list") + " watch"
			if !used[right] && !used[watch] && seldom[right] == "" {
				t.Errorf("%s may %s, which nothing used", account, right)
			}
		}
	}
}

// right is a verb on a resource, as one word.
func right(group, resource, subresource, verb string) string {
	if subresource != "" {
		resource += "/" + subresource
	}
	return group + "/" + resource + " " + verb
}

// granted lists the rights of a service account in Ingot's namespace, by the roles
// that are bound to it there and everywhere.
func granted(t *testing.T, s *stage, namespace, account string) []string {
	t.Helper()
	var rules []rbacv1.PolicyRule
	clusterRoles := list[rbacv1.ClusterRoleList](t, s, "clusterroles")
	for _, binding := range list[rbacv1.ClusterRoleBindingList](t, s, "clusterrolebindings").Items {
		for _, role := range clusterRoles.Items {
			if isFor(binding.Subjects, namespace, account) && role.Name == binding.RoleRef.Name {
				rules = append(rules, role.Rules...)
			}
		}
	}
	roles := list[rbacv1.RoleList](t, s, "roles")
	for _, binding := range list[rbacv1.RoleBindingList](t, s, "rolebindings").Items {
		for _, role := range roles.Items {
			if isFor(binding.Subjects, namespace, account) && role.Name == binding.RoleRef.Name {
				rules = append(rules, role.Rules...)
			}
		}
	}
	var all []string
	for _, rule := range rules {
		for _, group := range rule.APIGroups {
			for _, resource := range rule.Resources {
				for _, verb := range rule.Verbs {
					all = append(all, right(group, resource, "", verb))
				}
			}
		}
	}
	if len(all) == 0 {
		t.Errorf("no rights are bound to %s", account)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// list gets all of a kind, namespaced ones of Ingot's namespace.
func list[T any](t *testing.T, s *stage, kind string) T {
	t.Helper()
	var all T
	out := s.site.Kubectl(t, "--namespace="+management.Namespace, "get", kind, "--output=json")
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatalf("%s: %v", kind, err)
	}
	return all
}

func isFor(subjects []rbacv1.Subject, namespace, account string) bool {
	return slices.ContainsFunc(subjects, func(s rbacv1.Subject) bool {
		return s.Kind == rbacv1.ServiceAccountKind && s.Namespace == namespace && s.Name == account
	})
}

// askForMetrics asks the manager's diagnostics endpoint as somebody in the cluster
// does: who may see them gets metrics, who shows no token nothing.
func askForMetrics(t *testing.T, s *stage) {
	t.Helper()
	s.site.Kubectl(t, "create", "serviceaccount", "observer")
	s.site.Kubectl(t, "create", "clusterrole", "observer", "--verb=get", "--non-resource-url=/metrics")
	s.site.Kubectl(t, "create", "clusterrolebinding", "observer", "--clusterrole=observer", "--serviceaccount=default:observer")
	token := strings.TrimSpace(s.site.Kubectl(t, "create", "token", "observer"))
	address := s.site.Kubectl(t, "--namespace="+management.Namespace, "get", "pods",
		"--selector=control-plane=controller-manager", "--output=jsonpath={.items[0].status.podIP}")
	url := fmt.Sprintf("https://%s/metrics", net.JoinHostPort(address, "8443"))
	if status, body := get(t, s.node.NetNS(), url, token); status != http.StatusOK || !strings.Contains(body, "\ningot_") {
		t.Errorf("metrics for who may see them: %d, %d bytes", status, len(body))
	}
	if status, _ := get(t, s.node.NetNS(), url, ""); status != http.StatusUnauthorized {
		t.Errorf("metrics without a token: %d, want %d", status, http.StatusUnauthorized)
	}
}

// get asks from inside a network namespace.
func get(t *testing.T, namespace, url, token string) (status int, body string) {
	t.Helper()
	dial := func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = netns.Do(namespace, func() error {
			conn, err = (&net.Dialer{}).DialContext(ctx, network, address)
			return err
		})
		return conn, err
	}
	client := &http.Client{Transport: &http.Transport{
		DialContext: dial, DisableKeepAlives: true,
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, // the endpoint signs its own certificate
	}}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	if token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	data, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(data)
}
