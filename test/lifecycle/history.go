// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"context"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/test/objecthistory"
)

// A Version is one version of an IngotHost or an IngotMachine.
type Version struct {
	// Revision orders the versions of all objects: it is etcd's.
	Revision uint64
	Deleted  bool
	// One of the two is set.
	Host    *infrav1.IngotHost
	Machine *infrav1.IngotMachine
}

// A History keeps every version of the hosts and machines of a namespace, from
// before the first one on.
type History struct{ record *objecthistory.History }

// newHistory starts to record; the recording ends with the test. The namespace is
// empty still.
func newHistory(t *testing.T, c client.WithWatch, namespace string) *History {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	record, err := objecthistory.Record(ctx, c, objecthistory.Options{
		Namespace: namespace, Kinds: []client.ObjectList{&infrav1.IngotHostList{}, &infrav1.IngotMachineList{}},
	})
	t.Cleanup(func() {
		cancel()
		if record != nil {
			record.Wait()
		}
	})
	check(t, err)
	h := &History{record: record}
	if n := len(h.Versions(t)); n != 0 {
		t.Fatalf("history begins too late: there are %d objects", n)
	}
	return h
}

// Versions are all of them in the order in which they were written.
func (h *History) Versions(t *testing.T) []Version {
	t.Helper()
	recorded, err := h.record.Versions()
	check(t, err)
	versions := make([]Version, len(recorded))
	for i, v := range recorded {
		versions[i] = Version{Revision: v.Revision, Deleted: v.Deleted}
		switch obj := v.Object.(type) {
		case *infrav1.IngotHost:
			versions[i].Host = obj
		case *infrav1.IngotMachine:
			versions[i].Machine = obj
		}
	}
	return versions
}

// Settle waits until the history holds what the API server holds now.
func (h *History) Settle(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	check(t, h.record.Settle(ctx))
}
