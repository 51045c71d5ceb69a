// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hooks

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/pki"
	"github.com/ingot-metal/ingot/runtimehooks/inplace"
)

// replicaVariable has what a process that is a replica needs to know.
const replicaVariable = "INGOT_TEST_HOOKS_REPLICA"

// orders are what a replica is told.
type orders struct {
	Kubeconfig, CertDir string
	Port, Health        int
}

// RunReplica is to be the first word of TestMain: a test's binary that was started as a
// replica is one until it is killed, and never returns.
func RunReplica() {
	text := os.Getenv(replicaVariable)
	if text == "" {
		return
	}
	var told orders
	err := json.Unmarshal([]byte(text), &told)
	if err == nil {
		o := app.DefaultOptions()
		o.Roles, o.Kubeconfig = []string{app.RoleHooks}, told.Kubeconfig
		o.Hooks.Host, o.Hooks.Port, o.Hooks.CertDir = "127.0.0.1", told.Port, told.CertDir
		o.KubeAPIQPS, o.KubeAPIBurst = 500, 1000 // as the Deployment says
		o.HealthAddress, o.Manager.DiagnosticsAddress, o.Manager.InsecureDiagnostics = fmt.Sprintf("127.0.0.1:%d", told.Health), "0", true
		err = app.Run(context.Background(), o, app.HostSockets)
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// Replica is the runtime extension as a process of its own, so that it can be killed.
type Replica struct {
	url     string
	client  *http.Client
	process *exec.Cmd
}

// StartReplica starts one at an API server, and waits until it is ready.
func StartReplica(t testing.TB, kubeconfig string) *Replica {
	t.Helper()
	dir := t.TempDir()
	ca, err := pki.NewAuthority("hooks")
	must(t, err)
	serving, err := ca.Server("hooks", nil)
	must(t, err)
	must(t, serving.Write(dir, "tls"))
	ports, err := controlplane.FreePorts(2)
	must(t, err)
	told, err := json.Marshal(orders{Kubeconfig: kubeconfig, CertDir: dir, Port: ports[0], Health: ports[1]})
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	log, err := os.Create(filepath.Join(dir, "log"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(ca.CertificatePEM())
	r := &Replica{
		url: fmt.Sprintf("https://127.0.0.1:%d", ports[0]), process: exec.CommandContext(context.WithoutCancel(t.Context()), self),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 64}},
	}
	r.process.Env = append(os.Environ(), replicaVariable+"="+string(told))
	r.process.Stdout, r.process.Stderr = log, log
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive the test
	must(t, r.process.Start())
	t.Cleanup(func() { r.Kill(); _ = log.Close() })
	for deadline := time.Now().Add(awaitLimit); ; time.Sleep(100 * time.Millisecond) {
		if ready(fmt.Sprintf("http://127.0.0.1:%d/readyz", ports[1])) {
			return r
		}
		if time.Now().After(deadline) {
			text, _ := os.ReadFile(log.Name())
			t.Fatalf("the replica is not ready: %s", text)
		}
	}
}

func ready(url string) bool {
	answer, err := http.Get(url) //nolint:gosec,noctx // on loopback, until it is there
	if err != nil {
		return false
	}
	_ = answer.Body.Close()
	return answer.StatusCode == http.StatusOK
}

// Kill ends the process at once, whatever it is at; a second time it does nothing.
func (r *Replica) Kill() {
	if r.process.ProcessState == nil {
		_ = r.process.Process.Kill()
		_ = r.process.Wait()
	}
	r.client.CloseIdleConnections()
}

// Ask calls a hook of the first ExtensionConfig, by its name and its handler's, as Cluster
// API does. It fails where Cluster API would: without an answer.
func (r *Replica) Ask(ctx context.Context, hook, handler string, request, answer any) error {
	return r.ask(ctx, called{hook: hook, handler: handler}, request, answer)
}

// AskInPlace calls a hook of the second ExtensionConfig, that of updates in place.
func (r *Replica) AskInPlace(ctx context.Context, hook, handler string, request, answer any) error {
	return r.ask(ctx, called{mount: inplace.MountPath, hook: hook, handler: handler}, request, answer)
}

// called is a handler of a hook, below the path of its ExtensionConfig.
type called struct{ mount, hook, handler string }

func (c called) path() string {
	return c.mount + "/" + runtimehooksv1.GroupVersion.String() + "/" + strings.ToLower(c.hook) + "/" + c.handler + "?timeout=10s"
}

func (r *Replica) ask(ctx context.Context, to called, request, answer any) error {
	hook := to.hook
	fields := map[string]any{}
	data, err := json.Marshal(request)
	if err == nil {
		err = json.Unmarshal(data, &fields)
	}
	if err != nil {
		return fmt.Errorf("request of %s: %w", hook, err)
	}
	fields["apiVersion"], fields["kind"] = runtimehooksv1.GroupVersion.String(), hook+"Request"
	if data, err = json.Marshal(fields); err != nil {
		return fmt.Errorf("request of %s: %w", hook, err)
	}
	asked, err := http.NewRequestWithContext(ctx, http.MethodPost, r.url+to.path(), bytes.NewReader(data))
	if err != nil {
		return fmt.Errorf("call %s: %w", hook, err)
	}
	got, err := r.client.Do(asked)
	if err != nil {
		return fmt.Errorf("call %s: %w", hook, err)
	}
	defer func() { _ = got.Body.Close() }()
	if data, err = io.ReadAll(got.Body); err != nil {
		return fmt.Errorf("answer of %s: %w", hook, err)
	}
	if err := json.Unmarshal(data, answer); err != nil {
		return fmt.Errorf("answer of %s, %d %s: %w", hook, got.StatusCode, data, err)
	}
	return nil
}

// uidOf is the UID of a Cluster that is no object.
func uidOf(namespace, name string) types.UID { return types.UID("uid-" + namespace + "-" + name) }
