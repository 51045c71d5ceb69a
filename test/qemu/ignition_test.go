// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	bootstrapv1 "sigs.k8s.io/cluster-api/api/bootstrap/kubeadm/v1beta2"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/cloudinit"
	"sigs.k8s.io/cluster-api/bootstrap/kubeadm/pkg/ignition"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/internal/agentserver"
)

// ignitionDeadline bounds each of install, and boot of what was installed.
const ignitionDeadline = 20 * time.Minute

// stubKubeadm stands for kubeadm, which this image has not: it says what it sees.
const stubKubeadm = `#!/bin/bash
. /etc/ingot/metadata
left=$(ls -d /ignition /ignition.firstboot 2> /dev/null)
echo "IGNITED as $(uname -n) by $* with $(cat /etc/kubeadm.yml | tr '\n' ' ') rack $INGOT_FAILURE_DOMAIN left [$left] END" > /dev/ttyS0
`

// workerConfig is what Cluster API's kubeadm provider gives a worker by Ignition, with the
// commands of the book.
func workerConfig(t *testing.T) []byte {
	t.Helper()
	data, _, err := ignition.NewNode(&ignition.NodeInput{NodeInput: &cloudinit.NodeInput{
		JoinConfiguration: "kind: JoinConfiguration\nproviderID: @PROVIDER_ID@\n",
		BaseUserData: cloudinit.BaseUserData{
			PreKubeadmCommands: []string{`. /etc/ingot/metadata && sed -i "s|@PROVIDER_ID@|$INGOT_PROVIDER_ID|" /etc/kubeadm.yml`},
			AdditionalFiles:    []bootstrapv1.File{{Path: "/usr/local/bin/kubeadm", Content: stubKubeadm, Permissions: "0755"}},
		},
	}})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serveFile serves one file on the segment until the test ends, under any path.
func serveFile(t *testing.T, seg *segment, path string) {
	t.Helper()
	l, err := seg.stack.ListenTCP(livePort)
	if err != nil {
		t.Fatal(err)
	}
	served := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.ServeFile(w, r, path)
	})}
	done := make(chan struct{})
	go func() { defer close(done); _ = served.Serve(l) }()
	t.Cleanup(func() { _ = served.Close(); <-done })
}

// TestIgnition: the agent installs an image that is set up by the real program ignition
// of Debian on its first boot, from what the kubeadm provider writes and Ingot makes of
// it: its files and units are there, with host name and provider ID, the unit runs, the
// system reports itself, and the configuration is gone from the disk.
func TestIgnition(t *testing.T) {
	needs(t, "all")
	in := install(t, "ignition", ignitionDeadline, func(facts agentserver.SeedInput) (agentapi.Bootstrap, error) {
		config, err := agentserver.RenderIgnition(workerConfig(t), facts)
		return agentapi.Bootstrap{Format: agentapi.FormatIgnition, UserData: agentapi.Sensitive(config)}, err
	})
	ctx, cancel := context.WithTimeout(t.Context(), ignitionDeadline)
	defer cancel()
	go func() { // it goes off where Ignition fails
		select {
		case <-orClosed(in.vm.Ended()):
			cancel()
		case <-ctx.Done():
		}
	}()
	text, err := waitSerial(ctx, in.vm, "] END")
	if err != nil {
		t.Fatalf("%v; the console ends in:\n%s", err, tail(text, 6000))
	}
	_, said, _ := strings.Cut(text, "IGNITED ")
	said, _, _ = strings.Cut(said, " END")
	const want = "as worker-1 by join --config /etc/kubeadm.yml with --- kind: JoinConfiguration providerID: ingot://default/server-1/i1  rack rack-a left []"
	if diff := cmp.Diff(strings.Fields(want), strings.Fields(said)); diff != "" {
		t.Error(diff)
	}
	in.reports(ctx, t, "192.0.2.17", agentapi.Booted{})
}
