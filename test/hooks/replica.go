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

	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/types"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/yaml"

	"github.com/ingot-metal/ingot/cmd/manager/app"
	"github.com/ingot-metal/ingot/hack/tools"
	"github.com/ingot-metal/ingot/runtimehooks/inplace"
	"github.com/ingot-metal/ingot/test/eventually"
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
		err = app.Run(context.Background(), optionsOf(told), app.HostSockets)
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
	place := servingPlace(t)
	told, err := json.Marshal(orders{Kubeconfig: kubeconfig, CertDir: place.certificates, Port: place.port, Health: place.health})
	must(t, err)
	self, err := os.Executable()
	must(t, err)
	log, err := os.Create(filepath.Join(place.certificates, "log"))
	must(t, err)
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(place.authority.CertificatePEM())
	r := &Replica{
		url: place.URL(), process: exec.CommandContext(context.WithoutCancel(t.Context()), self),
		client: &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}, MaxIdleConnsPerHost: 64}},
	}
	r.process.Env = append(append(os.Environ(), shippedEnvironment(t)...), replicaVariable+"="+string(told))
	r.process.Stdout, r.process.Stderr = log, log
	r.process.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} // it does not outlive the test
	must(t, r.process.Start())
	t.Cleanup(func() { r.Kill(); _ = log.Close() })
	eventually.Wait{Limit: awaitLimit, Interval: 100 * time.Millisecond, Explain: func() string {
		text, _ := os.ReadFile(log.Name())
		return string(text)
	}}.Until(t, "the replica to be ready", eventually.Holds(func() bool {
		return ready(fmt.Sprintf("http://127.0.0.1:%d/readyz", place.health))
	}))
	return r
}

// shippedEnvironment is what the Deployment gives its container besides where it is.
func shippedEnvironment(t testing.TB) []string {
	t.Helper()
	set, err := tools.Open()
	must(t, err)
	data, err := os.ReadFile(filepath.Join(set.Root(), "config", "runtime-extension", "deployment.yaml"))
	must(t, err)
	deployment := &appsv1.Deployment{}
	must(t, yaml.Unmarshal(data, deployment))
	var out []string
	for _, variable := range deployment.Spec.Template.Spec.Containers[0].Env {
		if variable.ValueFrom == nil {
			out = append(out, variable.Name+"="+variable.Value)
		}
	}
	return out
}

func ready(url string) bool {
	answer, err := http.Get(url) // on loopback, until it is there
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

// Used ends the replica, and says how much time of processors it took, and how much memory
// at its largest, in bytes.
func (r *Replica) Used() (cpu time.Duration, memory int64) {
	r.Kill()
	state := r.process.ProcessState
	if usage, ok := state.SysUsage().(*syscall.Rusage); ok {
		memory = usage.Maxrss << 10 // Linux counts KiB
	}
	return state.UserTime() + state.SystemTime(), memory
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
