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

// ErrStale: the facts of the host have changed since they were read; no pin was written.
var ErrStale = errors.New("the facts of the host have changed meanwhile")

// ErrNamespaceTerminating: the pin cannot be recorded, since the namespace is being deleted.
var ErrNamespaceTerminating = errors.New("the namespace is being deleted")

// Finder finds how BMCs are reached. All fields are needed.
type Finder struct {
	Client client.Client
	// Live reads from the API server what the cache does not hold yet.
	Live client.Reader
	// Fingerprint looks at the certificate that host:port presents, and sends nothing.
	Fingerprint func(ctx context.Context, address string) (string, error)
	// Note tells people of something that went as it should.
	Note func(host *infrav1.IngotHost, reason, message string)
	// Turn bounds the look at a certificate.
	Turn time.Duration
}
