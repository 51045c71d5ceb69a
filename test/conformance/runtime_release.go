// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

const contractPage = "docs/book/develop/contract.md"

const runtimeName = "ingot-runtime-extension"

// runtimeRelease are the rules of how the extension is installed (R23–R35).
func runtimeRelease() []Rule {
	return []Rule{
		{ID: "R23", Level: Must, Tag: TagRelease, Text: "the endpoint can be reached from Cluster API's controllers", Check: reachable,
			Break: func(s *Shipped) {
				set(s.runtimeObject("Service"), map[string]any{"control-plane": "other"}, "spec", "selector")
			}},
		{ID: "R24", Level: Must, Tag: TagRelease, Text: "it runs out of their process", Check: func(s *Shipped) error {
			var p problems
			containers := list(s.runtimeObject("Deployment"), "spec", "template", "spec", "containers")
			p.unless(len(containers) == 1, "%d containers", len(containers))
			for _, c := range containers {
				args := list(tree(c), "args")
				p.unless(slices.Contains(args, any("--roles=runtime-extension")), "arguments %v", args)
			}
			return p.err()
		}, Break: func(s *Shipped) {
			edit(s, func(c map[string]any) {
				c["args"] = []any{"--roles=controllers,runtime-extension"}
			})
		}},
		{ID: "R25", Level: Should, Tag: TagRelease, Text: "image, Deployment, Service and Certificate, and the ExtensionConfig with them", Check: func(s *Shipped) error {
			var p problems
			p.unless(s.Runtime.Installed.Err == "", "clusterctl: %s", s.Runtime.Installed.Err)
			for _, kind := range []string{"Namespace", "Deployment", "Service", "Issuer", "Certificate", "ExtensionConfig"} {
				p.unless(len(ofKind(s.Runtime.Installed.Objects, kind)) > 0, "there is no %s", kind)
			}
			return p.err()
		}, Break: func(s *Shipped) { s.Runtime.drop("Issuer") }},
		{ID: "R26", Level: Should, Tag: TagRelease, Text: "several replicas behind the Service", Check: func(s *Shipped) error {
			var p problems
			n, _ := value(s.runtimeObject("Deployment"), "spec", "replicas").(int64)
			p.unless(n >= 2, "%d replicas", n)
			return p.err()
		}, Break: func(s *Shipped) { set(s.runtimeObject("Deployment"), int64(1), "spec", "replicas") }},
		{ID: "R27", Level: Must, Tag: TagRelease, Text: "a service account of its own with the least access", Check: leastAccess,
			Break: func(s *Shipped) {
				role := s.runtimeObject("ClusterRole")
				set(role, append(list(role, "rules"), map[string]any{"apiGroups": []any{""}, "resources": []any{"secrets"}, "verbs": []any{"get"}}), "rules")
			}},
		{ID: "R28", Level: Should, Tag: TagRelease, Text: "a small image and a pod without privileges", Check: unprivileged,
			Break: func(s *Shipped) {
				edit(s, func(c map[string]any) { set(tree(c), true, "securityContext", "allowPrivilegeEscalation") })
			}},
		{ID: "R29", Level: May, Tag: TagRelease, Text: "it may be part of another component: it is the manager's image by another role", Check: func(s *Shipped) error {
			var p problems
			own, manager := imagesOf(s.Runtime.Installed.Objects), imagesOf(s.Installed.Objects)
			p.unless(len(own) == 1 && slices.Contains(manager, own[0]), "its image is %v, that of the manager %v", own, manager)
			return p.err()
		}, Break: func(s *Shipped) {
			edit(s, func(c map[string]any) { c["image"] = "ghcr.io/ingot-metal/hooks:v0.1.0" })
		}},
		{ID: "R30", Level: Must, Tag: TagRelease, Text: "only administrators register it, and only where the feature is on", Check: registeredByAdministrators,
			Break: func(s *Shipped) {
				role := ofKind(s.Installed.Objects, "ClusterRole")[0]
				set(role, append(list(role, "rules"), map[string]any{"apiGroups": []any{extensionAPI}, "resources": []any{"extensionconfigs"}, "verbs": []any{"patch"}}), "rules")
			}},
		{ID: "R31", Level: Must, Tag: TagRelease, Text: "ExtensionConfig has either URL or Service, a CA, and a namespace selector", Check: extensionConfigs,
			Break: func(s *Shipped) {
				set(ofKind(s.Runtime.Installed.Objects, "ExtensionConfig")[0], "https://192.0.2.1", "spec", "clientConfig", "url")
			}},
		{ID: "R32", Level: Must, Tag: TagReconcile, Text: "its status lists the handlers, and Discovered is true", Live: discovered,
			BreakRun: func(r *Run) {
				for i := range r.Extensions {
					conditioned := list(&r.Extensions[i], "status", "conditions")
					tree(conditioned[0]).Object["status"] = "False"
				}
			}},
		{ID: "R33", Level: May, Tag: TagDocument, Text: "there is no object selector", Document: contractPage + "#r33-no-object-selector"},
		{ID: "R34", Level: Must, Tag: TagDocument, Text: "there is no dependency model", Document: contractPage + "#r34-other-extensions"},
		{ID: "R35", Level: Must, Tag: TagRelease, Text: "TLS, no privileges, a network policy; of all providers only the boot servers' namespace admits privileged Pods", Check: walled,
			Break: func(s *Shipped) { s.Runtime.drop("NetworkPolicy") }},
	}
}

// runtimeObject is the one of a kind in the second provider; empty if there is none.
func (s *Shipped) runtimeObject(kind string) *unstructured.Unstructured {
	for _, o := range ofKind(s.Runtime.Installed.Objects, kind) {
		if o.GetName() == runtimeName || kind == "Namespace" {
			return o
		}
	}
	return &unstructured.Unstructured{Object: map[string]any{}}
}

func (r *RuntimeExtension) drop(kind string) {
	is := func(o unstructured.Unstructured) bool { return o.GetKind() == kind }
	r.Installed.Objects, r.Elsewhere.Objects = slices.DeleteFunc(r.Installed.Objects, is), slices.DeleteFunc(r.Elsewhere.Objects, is)
}

// edit changes the container of the extension.
func edit(s *Shipped, change func(map[string]any)) {
	deployment := s.runtimeObject("Deployment")
	containers := list(deployment, "spec", "template", "spec", "containers")
	change(containers[0].(map[string]any))
	set(deployment, containers, "spec", "template", "spec", "containers")
}

// reachable: the ExtensionConfigs name the Service, which leads to the Pods' port.
func reachable(s *Shipped) error {
	var p problems
	service, deployment := s.runtimeObject("Service"), s.runtimeObject("Deployment")
	for _, config := range ofKind(s.Runtime.Installed.Objects, "ExtensionConfig") {
		name, namespace := text(config, "spec", "clientConfig", "service", "name"), text(config, "spec", "clientConfig", "service", "namespace")
		p.unless(name == service.GetName() && namespace == service.GetNamespace(), "%s leads to %s/%s", config.GetName(), namespace, name)
	}
	selector, _ := value(service, "spec", "selector").(map[string]any)
	labels, _ := value(deployment, "spec", "template", "metadata", "labels").(map[string]any)
	p.unless(len(selector) > 0, "the Service selects nothing")
	for key, want := range selector {
		p.unless(labels[key] == want, "the Service selects %s=%v, the Pods have %v", key, want, labels[key])
	}
	ports := map[string]bool{}
	for _, c := range list(deployment, "spec", "template", "spec", "containers") {
		for _, port := range list(tree(c), "ports") {
			ports[text(tree(port), "name")] = true
		}
	}
	for _, port := range list(service, "spec", "ports") {
		p.unless(ports[text(tree(port), "targetPort")], "the Pods have no port %s", text(tree(port), "targetPort"))
	}
	return p.err()
}

// leastAccess: nothing is granted by pattern, no Secret, and only what is promised is
// written.
func leastAccess(s *Shipped) error {
	var p problems
	account := text(s.runtimeObject("Deployment"), "spec", "template", "spec", "serviceAccountName")
	p.unless(account == runtimeName && one(s.Runtime.Installed.Objects, "ServiceAccount", account) != nil, "its account is %q", account)
	rules := list(s.runtimeObject("ClusterRole"), "rules")
	p.unless(len(rules) > 0, "it has no role")
	writable := []string{"ingotreservations", "events", "tokenreviews", "subjectaccessreviews"}
	for _, rule := range rules {
		r := tree(rule)
		for _, field := range []string{"apiGroups", "resources", "verbs"} {
			p.unless(!slices.Contains(list(r, field), any("*")), "%s by pattern: %v", field, rule)
		}
		p.unless(!slices.Contains(list(r, "resources"), any("secrets")), "it reads Secrets")
		for _, verb := range list(r, "verbs") {
			if slices.Contains([]any{"get", "list", "watch"}, verb) {
				continue
			}
			for _, resource := range list(r, "resources") {
				name, _ := resource.(string)
				p.unless(slices.Contains(writable, name), "it may %v %s", verb, name)
			}
		}
	}
	return p.err()
}

func unprivileged(s *Shipped) error {
	var p problems
	deployment := s.runtimeObject("Deployment")
	p.unless(truth(deployment, "spec", "template", "spec", "securityContext", "runAsNonRoot"), "it may run as root")
	for _, c := range list(deployment, "spec", "template", "spec", "containers") {
		container := tree(c)
		escalates, said := value(container, "securityContext", "allowPrivilegeEscalation").(bool)
		p.unless(said && !escalates, "it may gain privileges")
		p.unless(truth(container, "securityContext", "readOnlyRootFilesystem"), "it may write its image")
		p.unless(slices.Contains(list(container, "securityContext", "capabilities", "drop"), any("ALL")), "it keeps capabilities")
	}
	return p.err()
}

func imagesOf(objects []unstructured.Unstructured) []string {
	var out []string
	for _, o := range ofKind(objects, "Deployment") {
		for _, c := range list(o, "spec", "template", "spec", "containers") {
			if image := text(tree(c), "image"); !slices.Contains(out, image) {
				out = append(out, image)
			}
		}
	}
	return out
}

// registeredByAdministrators: the other providers, which need no feature, bring no
// ExtensionConfig, and no role of any does more than get one.
func registeredByAdministrators(s *Shipped) error {
	var p problems
	for _, of := range s.parts() {
		p.unless(of.file == runtimeComponentsFile || len(ofKind(of.components, "ExtensionConfig")) == 0, "%s has an ExtensionConfig", of.file)
		for _, role := range ofKind(of.installed.Objects, "ClusterRole", "Role") {
			for _, rule := range list(role, "rules") {
				for _, verb := range list(tree(rule), "verbs") {
					p.unless(!slices.Contains(list(tree(rule), "apiGroups"), any(extensionAPI)) || verb == "get", "%s grants %v", role.GetName(), rule)
				}
			}
		}
	}
	return p.err()
}

func extensionConfigs(s *Shipped) error {
	var p problems
	names := map[string][]any{} // of the certificates, by their Secret
	for _, certificate := range ofKind(s.Runtime.Installed.Objects, "Certificate") {
		names[certificate.GetNamespace()+"/"+text(certificate, "spec", "secretName")] = list(certificate, "spec", "dnsNames")
	}
	configs := ofKind(s.Runtime.Installed.Objects, "ExtensionConfig")
	p.unless(len(configs) == 2, "%d ExtensionConfigs", len(configs))
	for _, config := range configs {
		p.unless(config.GetAPIVersion() == extensionAPI+"/v1beta2" && !strings.Contains(config.GetName(), "."), "%s %s", config.GetAPIVersion(), config.GetName())
		url, service := text(config, "spec", "clientConfig", "url"), text(config, "spec", "clientConfig", "service", "name")
		p.unless((url == "") != (service == ""), "%s has URL %q and Service %q", config.GetName(), url, service)
		selector, _ := value(config, "spec", "namespaceSelector").(map[string]any)
		p.unless(len(selector) > 0, "%s has no namespace selector", config.GetName())
		from := config.GetAnnotations()[extensionAPI+"/inject-ca-from-secret"]
		p.unless(names[from] != nil, "%s: no Certificate makes the Secret %q", config.GetName(), from)
		if service == "" {
			continue
		}
		namespace := text(config, "spec", "clientConfig", "service", "namespace")
		p.unless(slices.Contains(names[from], any(service+"."+namespace+".svc")), "%s: its certificate is for %v, not for Service %s in %s", config.GetName(), names[from], service, namespace)
		to := one(s.Runtime.Installed.Objects, "Service", service)
		p.unless(to != nil && to.GetNamespace() == namespace, "%s leads to a Service %s/%s, which is not installed", config.GetName(), namespace, service)
		p.unless(to == nil || slices.ContainsFunc(list(to, "spec", "ports"), func(port any) bool {
			return value(tree(port), "port") == value(config, "spec", "clientConfig", "service", "port")
		}), "%s: the Service has no port %v", config.GetName(), value(config, "spec", "clientConfig", "service", "port"))
	}
	return p.err()
}

// walled: only providers' namespaces reach the hooks, on a namespace that admits
// nothing privileged.
func walled(s *Shipped) error {
	var p problems
	policy := s.runtimeObject("NetworkPolicy")
	selected, _ := value(policy, "spec", "podSelector", "matchLabels").(map[string]any)
	labels, _ := value(s.runtimeObject("Deployment"), "spec", "template", "metadata", "labels").(map[string]any)
	p.unless(len(selected) > 0, "no network policy is for the Pods")
	for key, want := range selected {
		p.unless(labels[key] == want, "the network policy is for other Pods")
	}
	for _, rule := range list(policy, "spec", "ingress") {
		for _, port := range list(tree(rule), "ports") {
			p.unless(text(tree(port), "port") != "hooks" || len(list(tree(rule), "from")) > 0, "anybody reaches the hooks")
		}
	}
	for _, of := range s.parts() {
		want := "restricted"
		if of.file == bootComponentsFile {
			want = "privileged" // DHCP needs the host's network
		}
		for _, o := range ofKind(of.installed.Objects, "Namespace") {
			level := o.GetLabels()["pod-security.kubernetes.io/enforce"]
			p.unless(level == want, "the namespace of %s admits %q", of.file, level)
		}
	}
	return p.err()
}

// discovered: in a run with the real Cluster API, which asked over TLS.
func discovered(r *Run) error {
	var p problems
	p.unless(len(r.Extensions) == 2, "%d ExtensionConfigs were discovered", len(r.Extensions))
	for i := range r.Extensions {
		config := &r.Extensions[i]
		p.unless(status(config, "Discovered") == "True", "%s: Discovered is %q", config.GetName(), status(config, "Discovered"))
		handlers := list(config, "status", "handlers")
		p.unless(len(handlers) > 0, "%s has no handlers", config.GetName())
		for _, h := range handlers {
			handler := tree(h)
			name := text(handler, "name")
			p.unless(strings.HasSuffix(name, "."+config.GetName()), "handler %q of %s", name, config.GetName())
			p.unless(text(handler, "requestHook", "hook") != "" && text(handler, "failurePolicy") != "" && value(handler, "timeoutSeconds") != nil, "handler %v", h)
		}
	}
	return p.err()
}
