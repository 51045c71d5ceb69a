// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package qemu_test

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
	"github.com/ingot-metal/ingot/lab/qemu"
	"github.com/ingot-metal/ingot/pxe"
)

// orderer is a manager that has one order for whoever knows the token.
type orderer struct {
	token string
	order agentapi.Order
	// seed is given to an agent that installs, then is what it does in the end.
	seed    agentapi.Bootstrap
	then    agentapi.Action
	reports chan agentapi.Report
	// key is the manager's; nil: one is made.
	key *managerKey
	// bootedToken is the installed system's, whose words go to booted; empty: there is none.
	bootedToken string
	booted      chan agentapi.Booted
}

// managerKey is a certificate with the pin of its key.
type managerKey struct {
	certificate tls.Certificate
	pin         string
}

func (m *orderer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if m.bootedToken != "" && r.URL.Path == agentapi.PathBooted && r.Header.Get(agentapi.TokenHeader) == "Bearer "+m.bootedToken {
		var said agentapi.Booted
		if err := json.NewDecoder(r.Body).Decode(&said); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.booted <- said
		_ = json.NewEncoder(w).Encode(agentapi.BootedReply{Accepted: true})
		return
	}
	if r.Header.Get(agentapi.TokenHeader) != "Bearer "+m.token || len(r.TLS.PeerCertificates) == 0 {
		http.Error(w, "no token or no key", http.StatusUnauthorized)
		return
	}
	var answer any = agentapi.ProgressReply{}
	switch r.URL.Path {
	case agentapi.PathSession:
		answer = agentapi.Session{Now: time.Now(), Host: "default/server-1"}
	case agentapi.PathOrder:
		answer = m.order
	case agentapi.PathBootstrap:
		answer = m.seed
	case agentapi.PathReport:
		var rep agentapi.Report
		if err := json.NewDecoder(r.Body).Decode(&rep); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.reports <- rep
		answer = agentapi.Acknowledgement{Action: m.then}
		if rep.Outcome != agentapi.Succeeded {
			answer = agentapi.Acknowledgement{Action: agentapi.PowerOff}
		}
	}
	_ = json.NewEncoder(w).Encode(answer)
}

// boot starts a server whose agent gets the order, on a segment that is made ready first.
func (m *orderer) boot(t *testing.T, files *pxe.Files, cfg qemu.Config, ready ...func(*segment)) (*segment, *qemu.VM) {
	t.Helper()
	m.token, m.reports = "token-of-this-boot", make(chan agentapi.Report, 100)
	add := func(name string) pxe.File {
		f, err := files.Add(agentFile(t, name))
		if err != nil {
			t.Fatal(err)
		}
		return f
	}
	if m.key == nil {
		m.key = &managerKey{}
		m.key.certificate, m.key.pin = newManagerKey(t)
	}
	host := newHost(pxe.Plan{Kind: pxe.Agent, Agent: pxe.AgentBoot{
		Kernel: add("vmlinuz"), Initrds: []pxe.File{add("initramfs.cpio.zst")},
		Server: "192.0.2.1:8843", Pin: m.key.pin, Token: agentapi.Sensitive(m.token), Arguments: []string{"console=ttyS0,115200"},
	}})
	seg := startSegment(t, host, files, nil)
	serveManager(t, seg, m.key.certificate, m)
	for _, do := range ready {
		do(seg)
	}
	cfg.NICs = []qemu.NIC{{}}
	vm := newVM(t, seg, host.MAC, cfg)
	if err := vm.SetBoot(qemu.Boot{Device: qemu.Network, Once: true}); err != nil {
		t.Fatal(err)
	}
	seg.record.restart()
	if err := vm.PowerOn(context.Background()); err != nil {
		t.Fatal(err)
	}
	return seg, vm
}

// report waits for the end of the order.
func (m *orderer) report(t *testing.T, vm *qemu.VM, deadline time.Duration) agentapi.Report {
	t.Helper()
	select {
	case rep := <-m.reports:
		for line := range strings.Lines(console(vm)) {
			if strings.Contains(line, "ingot [") {
				t.Log(strings.TrimSpace(line))
			}
		}
		if rep.Outcome != agentapi.Succeeded {
			t.Fatalf("the order ended as %s: %s", rep.Reason, rep.Message)
		}
		return rep
	case <-time.After(deadline):
		t.Fatalf("no report; the console ends in:\n%s", tail(console(vm), 4000))
		panic("unreachable")
	}
}
