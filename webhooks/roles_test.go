// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	rbacv1 "k8s.io/api/rbac/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// ingot-viewer reads every kind of Ingot, and ingot-operator also writes hosts. Neither grants
// access to Secrets, a status or the verb restore (I9), and neither is bound. Namespace owners can
// read hosts, but not register them unless the cluster operator grants it.
func TestRolesForPeople(t *testing.T) {
	kinds, roles := []string{}, map[string]*rbacv1.ClusterRole{}
	for _, object := range render(t) {
		switch object.GetKind() {
		case "CustomResourceDefinition":
			kinds = append(kinds, as[apiextensionsv1.CustomResourceDefinition](t, object).Spec.Names.Plural)
		case "ClusterRole":
			roles[object.GetName()] = as[rbacv1.ClusterRole](t, object)
		case "ClusterRoleBinding", "RoleBinding":
			if to := as[rbacv1.ClusterRoleBinding](t, object).RoleRef.Name; to == "ingot-viewer" || to == "ingot-operator" {
				t.Errorf("%s binds %s", object.GetName(), to)
			}
		}
	}
	slices.Sort(kinds)
	group, reads := []string{v1beta2.GroupVersion.Group}, []string{"get", "list", "watch"}
	viewer := []rbacv1.PolicyRule{
		{APIGroups: group, Resources: kinds, Verbs: reads},
		{APIGroups: []string{"", "events.k8s.io"}, Resources: []string{"events"}, Verbs: reads},
	}
	hosts := rbacv1.PolicyRule{APIGroups: group, Resources: []string{"ingothosts"}, Verbs: []string{"create", "delete", "patch", "update"}}
	for name, want := range map[string]struct {
		rules       []rbacv1.PolicyRule
		aggregateTo string
	}{
		"ingot-viewer":   {viewer, "view"},
		"ingot-operator": {append([]rbacv1.PolicyRule{hosts}, viewer...), ""},
	} {
		role := roles[name]
		if role == nil {
			t.Errorf("no ClusterRole %s", name)
			continue
		}
		if diff := cmp.Diff(want.rules, role.Rules); diff != "" {
			t.Errorf("rules of %s (-want +got); a new kind needs its line in config/rbac/viewer_role.yaml and operator_role.yaml:\n%s", name, diff)
		}
		for _, to := range []string{"view", "edit", "admin"} {
			if got := role.Labels["rbac.authorization.k8s.io/aggregate-to-"+to] == "true"; got != (to == want.aggregateTo) {
				t.Errorf("%s is part of the cluster's %s: %t", name, to, got)
			}
		}
	}
}
