// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/ingot-metal/ingot/test/testscheme"
)

// The extension stops with a remedy if an ExtensionConfig refers to another namespace.
func TestRegistration(t *testing.T) {
	config := func(name, service, namespace, secret string) client.Object {
		c := &runtimev1.ExtensionConfig{}
		c.Name = name
		if secret != "" {
			c.Annotations = map[string]string{runtimev1.InjectCAFromSecretAnnotation: secret}
		}
		c.Spec.ClientConfig.Service = runtimev1.ServiceReference{Name: service, Namespace: namespace}
		return c
	}
	own := func(name string) client.Object {
		return config(name, extensionService, "here", "here/ingot-runtime-extension-cert")
	}
	for name, tc := range map[string]struct {
		configs []client.Object
		want    string
	}{
		"both lead here":               {configs: []client.Object{own("ingot"), own("ingot-in-place")}},
		"not registered yet":           {},
		"a CA by hand":                 {configs: []client.Object{own("ingot"), config("ingot-in-place", extensionService, "here", "")}},
		"a Service of someone's":       {configs: []client.Object{own("ingot"), config("ingot-in-place", "proxy", "there", "")}},
		"the default namespace":        {configs: []client.Object{config("ingot", extensionService, "ingot-runtime-system", "ingot-runtime-system/ingot-runtime-extension-cert")}, want: "install with INGOT_RUNTIME_NAMESPACE=here, or run: kubectl patch extensionconfig ingot "},
		"in-place leads elsewhere":     {configs: []client.Object{own("ingot"), config("ingot-in-place", extensionService, "there", "here/ingot-runtime-extension-cert")}, want: "kubectl patch extensionconfig ingot-in-place "},
		"the certificate of elsewhere": {configs: []client.Object{config("ingot", extensionService, "here", "there/ingot-runtime-extension-cert"), own("ingot-in-place")}, want: `is "there/ingot-runtime-extension-cert"`},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
			defer cancel()
			reader := fake.NewClientBuilder().WithScheme(testscheme.Scheme(t, runtimev1.AddToScheme)).WithObjects(tc.configs...).Build()
			err := (&registration{reader: reader, namespace: "here", interval: time.Millisecond}).Start(ctx)
			if (err == nil) != (tc.want == "") || err != nil && (!strings.Contains(err.Error(), tc.want) || errors.Is(err, context.DeadlineExceeded)) {
				t.Errorf("%v, want %q", err, tc.want)
			}
		})
	}
}
