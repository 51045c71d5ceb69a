// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	runtimev1 "sigs.k8s.io/cluster-api/api/runtime/v1beta2"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const extensionService = "ingot-runtime-extension"

// registrationInterval is the interval at which a missing ExtensionConfig is checked: clusterctl may
// create it after the Deployment.
const registrationInterval = 10 * time.Second

// registration checks that the ExtensionConfigs of a release refer to this installation, because
// clusterctl does not write --target-namespace into them.
type registration struct {
	reader    client.Reader
	namespace string
	interval  time.Duration
}

// NeedLeaderElection returns false: every replica checks.
func (r *registration) NeedLeaderElection() bool { return false }

// Start returns an error, which ends the process, if an ExtensionConfig refers to another namespace.
// It runs until it has checked each of them.
func (r *registration) Start(ctx context.Context) error {
	missing := map[string]bool{"ingot": true, "ingot-in-place": true}
	err := wait.PollUntilContextCancel(ctx, r.interval, true, func(ctx context.Context) (bool, error) {
		for name := range missing {
			config := &runtimev1.ExtensionConfig{}
			err := r.reader.Get(ctx, client.ObjectKey{Name: name}, config)
			if err != nil {
				if !apierrors.IsNotFound(err) {
					ctrl.LoggerFrom(ctx).Error(err, "Failed to get an ExtensionConfig", "name", name)
				}
				continue
			}
			if err := misdirected(config, r.namespace); err != nil {
				return false, err
			}
			delete(missing, name)
		}
		return len(missing) == 0, nil
	})
	if ctx.Err() != nil {
		return nil
	}
	return err
}

// misdirected returns an error if an ExtensionConfig uses the extension's Service or certificate in
// another namespace. It accepts a URL or another Service.
func misdirected(config *runtimev1.ExtensionConfig, namespace string) error {
	service := config.Spec.ClientConfig.Service
	if service.Name != extensionService {
		return nil
	}
	secret := namespace + "/ingot-runtime-extension-cert"
	from, injected := config.Annotations[runtimev1.InjectCAFromSecretAnnotation]
	if service.Namespace == namespace && (!injected || from == secret) {
		return nil
	}
	return fmt.Errorf("ExtensionConfig %s: spec.clientConfig.service.namespace is %q and annotation %s is %q, but the extension runs in namespace %q, so that it gets no hook calls; "+
		"install with INGOT_RUNTIME_NAMESPACE=%s, or run: kubectl patch extensionconfig %s --type=merge -p '{\"metadata\":{\"annotations\":{%q:%q}},\"spec\":{\"clientConfig\":{\"service\":{\"namespace\":%q}}}}'",
		config.Name, service.Namespace, runtimev1.InjectCAFromSecretAnnotation, from, namespace,
		namespace, config.Name, runtimev1.InjectCAFromSecretAnnotation, secret, namespace)
}
