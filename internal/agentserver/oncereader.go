// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// onceReader reads an IngotHardware once per request. Several checks of a session need it, and
// hundreds of hosts can open sessions at the same time. Writes fail if it has changed since.
type onceReader struct{ client.Reader }

// factsKey is the key of a request's *requestFacts in its context.
type factsKey struct{}

// requestFacts has the IngotHardware that a request has read; nil if none.
type requestFacts struct{ read *infrav1.IngotHardware }

func withFacts(ctx context.Context) context.Context {
	return context.WithValue(ctx, factsKey{}, &requestFacts{})
}

// forgetFacts makes the next read of the request go to the API server. Call it after a write.
func forgetFacts(ctx context.Context) {
	if facts, ok := ctx.Value(factsKey{}).(*requestFacts); ok {
		facts.read = nil
	}
}

// Get implements client.Reader.
func (o onceReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	hardware, isHardware := object.(*infrav1.IngotHardware)
	facts, isRequest := ctx.Value(factsKey{}).(*requestFacts)
	if !isHardware || !isRequest {
		return o.Reader.Get(ctx, key, object, options...)
	}
	if facts.read != nil && client.ObjectKeyFromObject(facts.read) == key {
		facts.read.DeepCopyInto(hardware)
		return nil
	}
	err := o.Reader.Get(ctx, key, object, options...)
	if err == nil {
		facts.read = hardware.DeepCopy()
	}
	return err
}
