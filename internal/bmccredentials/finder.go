// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmccredentials

import (
	"context"
	"errors"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// +kubebuilder:rbac:groups="",resources=secrets;configmaps,verbs=get;list;watch;patch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=create;patch

// ErrStale means that the hardware facts have changed since they were read; no pin was written.
var ErrStale = errors.New("the hardware facts have changed since they were read")

// ErrNamespaceTerminating means that no pin can be written, since the namespace is being deleted.
var ErrNamespaceTerminating = errors.New("the namespace is being deleted")

// Finder finds how to reach BMCs. All fields are required.
type Finder struct {
	Client client.Client
	// Live reads from the API server what the cache does not hold yet.
	Live client.Reader
	// Fingerprint returns the fingerprint of the certificate that host:port presents. It sends no
	// credentials.
	Fingerprint func(ctx context.Context, address string) (string, error)
	// Note records a normal event.
	Note func(host *infrav1.IngotHost, reason, message string)
	// Turn bounds the call of Fingerprint.
	Turn time.Duration
}
