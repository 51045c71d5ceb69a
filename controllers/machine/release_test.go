// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package machine

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/cluster-api/util/conditions"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// A control plane server that cannot be powered off blocks the control plane: the condition shows
// it and the remedy.
func TestWaitingForFence(t *testing.T) {
	machine, host := &infrav1.IngotMachine{}, &infrav1.IngotHost{}
	host.Name = "h1"
	worker := waitingForFence(machine, host)
	machine.Labels = map[string]string{clusterv1.MachineControlPlaneLabel: ""}
	controlPlane := waitingForFence(machine, host)
	for name, message := range map[string]string{"worker": worker, "control plane": controlPlane} {
		if !strings.Contains(message, "IngotHost h1") || !strings.Contains(message, infrav1.ForceReleaseAnnotation) {
			t.Errorf("%s: %q names neither the host nor the remedy", name, message)
		}
	}
	if strings.Contains(worker, "control plane") || !strings.Contains(controlPlane, "The control plane waits") {
		t.Errorf("worker: %q\ncontrol plane: %q", worker, controlPlane)
	}
}

func TestWaitingForFenceShowsTheHostsReason(t *testing.T) {
	for name, c := range map[string]struct {
		reason, message string
		seen            int64
		paused          bool
		says, not       string
	}{
		"fencing":                        {infrav1.ReasonFencing, "shutting down", 2, false, "Waiting for the BMC", "shutting down"},
		"a duplicate":                    {infrav1.ReasonDuplicate, "another host has this BMC", 2, false, "another host has this BMC", "paused"},
		"paused":                         {infrav1.ReasonFencing, "shutting down", 2, true, "Remove the annotation " + clusterv1.PausedAnnotation, infrav1.ForceReleaseAnnotation},
		"a release that it has not seen": {infrav1.ReasonProvisioning, "the agent installs", 1, false, "Waiting for the BMC", "the agent installs"},
		"nothing known":                  {"", "", 0, false, "Waiting for the BMC", "paused"},
	} {
		t.Run(name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Name, host.Generation = "h1", c.seen
			if c.reason != "" {
				conditions.Set(host, metav1.Condition{Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse, Reason: c.reason, Message: c.message})
			}
			host.Generation = 2
			if c.paused {
				host.Annotations = map[string]string{clusterv1.PausedAnnotation: ""}
			}
			got := waitingForFence(&infrav1.IngotMachine{}, host)
			if !strings.Contains(got, "IngotHost h1") || !strings.Contains(got, c.says) || strings.Contains(got, c.not) {
				t.Errorf("%q, want %q and not %q", got, c.says, c.not)
			}
		})
	}
}

// I7: every deletion hook of a Machine keeps the host and is named.
func TestDeleteHooks(t *testing.T) {
	const drain, terminate = clusterv1.PreDrainDeleteHookAnnotationPrefix, clusterv1.PreTerminateDeleteHookAnnotationPrefix
	for name, tc := range map[string]struct {
		annotations, want []string
	}{
		"none":             {nil, nil},
		"others":           {[]string{"example.com/x", clusterv1.ExcludeNodeDrainingAnnotation}, nil},
		"etcd":             {[]string{terminate + "/kcp-cleanup"}, []string{terminate + "/kcp-cleanup"}},
		"both, and others": {[]string{terminate + "/b", "x", drain + "/a"}, []string{drain + "/a", terminate + "/b"}},
		"old form":         {[]string{drain + ".example.com"}, []string{drain + ".example.com"}}, // Cluster API goes by the prefix alone
	} {
		owner := &clusterv1.Machine{}
		owner.Annotations = map[string]string{}
		for _, key := range tc.annotations {
			owner.Annotations[key] = ""
		}
		got := deleteHooks(owner)
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		message := waitingForHooks("m", got)
		for _, hook := range append(got, "Machine m", "kubectl drain") {
			if !strings.Contains(message, hook) {
				t.Errorf("%s: %q does not name %s", name, message, hook)
			}
		}
	}
}
