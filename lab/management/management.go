// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package management

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"github.com/ingot-metal/ingot/lab/controlplane"
	"github.com/ingot-metal/ingot/lab/process"
)

// The names that the manifests of Ingot bear.
const (
	Namespace      = "ingot-system"
	BootNamespace  = "ingot-boot-system"
	ServiceAccount = "ingot-controller-manager"
	webhookService = "ingot-webhook-service"
	// Username is the manager's, as the API server sees it.
	Username = "system:serviceaccount:" + Namespace + ":" + ServiceAccount
)

// tokenLifetime is longer than any demo or test.
const tokenLifetime = "24h"

// readyTimeout bounds the start of a manager on a busy machine.
const readyTimeout = 2 * time.Minute

// Options say where things are.
type Options struct {
	// Dir keeps kubeconfig and logs. It is made if missing.
	Dir string
	// ConfigDir is the kustomization to install (config/default of the source tree);
	// empty: "clusterctl init" has installed Ingot already.
	ConfigDir string
	// NoCertManager leaves out the objects of cert-manager's kinds, for a control
	// plane on which these are not defined.
	NoCertManager bool
}

// Ingot is an installation on a control plane.
type Ingot struct {
	plane       *controlplane.ControlPlane
	dir         string
	kubeconfig  string
	webhookPort int
}

// Install applies the manifests, points the webhooks to a port of this machine and
// makes a kubeconfig for the manager's service account. The definitions of Cluster
// API are installed already.
func Install(ctx context.Context, plane *controlplane.ControlPlane, o Options) (*Ingot, error) {
	dir, err := filepath.Abs(o.Dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("install Ingot: %w", err)
	}
	ports, err := controlplane.FreePorts(1)
	if err != nil {
		return nil, err
	}
	i := &Ingot{plane: plane, dir: dir, kubeconfig: filepath.Join(dir, "manager.kubeconfig"), webhookPort: ports[0]}
	if err := i.apply(ctx, o); err != nil {
		return nil, fmt.Errorf("install Ingot: %w", err)
	}
	if err := plane.RepointWebhooks(ctx, controlplane.WebhookService{Namespace: Namespace, Name: webhookService, Port: i.webhookPort}); err != nil {
		return nil, fmt.Errorf("install Ingot: %w", err)
	}
	token, err := plane.Kubectl(ctx, "create", "token", "--namespace", Namespace, ServiceAccount, "--duration", tokenLifetime)
	if err != nil {
		return nil, fmt.Errorf("install Ingot: %w", err)
	}
	return i, i.writeKubeconfig(strings.TrimSpace(string(token)))
}

// apply renders the manifests and applies them.
func (i *Ingot) apply(ctx context.Context, o Options) error {
	if o.ConfigDir == "" {
		return i.plane.ScaleToZero(ctx, Namespace)
	}
	config, err := filepath.Abs(o.ConfigDir)
	if err != nil {
		return err
	}
	rendered, err := i.plane.Kubectl(ctx, "kustomize", config)
	if err != nil {
		return err
	}
	missing := ""
	if o.NoCertManager {
		missing = certManagerGroup
	}
	if rendered, err = applied(rendered, missing); err != nil {
		return err
	}
	path := filepath.Join(i.dir, "manifests.yaml")
	if err := os.WriteFile(path, rendered, 0o600); err != nil {
		return err
	}
	_, err = i.plane.Kubectl(ctx, "apply", "--server-side", "--filename", path)
	return err
}

// Kubeconfig is the path of the manager's kubeconfig.
func (i *Ingot) Kubeconfig() string { return i.kubeconfig }

// writeKubeconfig gives the manager what a Pod would have: the service account's token.
func (i *Ingot) writeKubeconfig(token string) error {
	rest := i.plane.RESTConfig()
	config := clientcmdapi.NewConfig()
	config.Clusters["lab"] = &clientcmdapi.Cluster{Server: rest.Host, CertificateAuthorityData: rest.CAData}
	config.AuthInfos["manager"] = &clientcmdapi.AuthInfo{Token: token}
	config.Contexts["manager"] = &clientcmdapi.Context{Cluster: "lab", AuthInfo: "manager"}
	config.CurrentContext = "manager"
	if err := clientcmd.WriteToFile(*config, i.kubeconfig); err != nil {
		return fmt.Errorf("install Ingot: %w", err)
	}
	return nil
}

// Manager is one manager process to be started.
type Manager struct {
	// Name tells managers apart; it names the log file.
	Name string
	// Path of the binary, and what comes before the flags.
	Path string
	Args []string
	// Kubeconfig; empty means the installation's.
	Kubeconfig string
	// NoWebhooks leaves the webhook port to another manager.
	NoWebhooks bool
}

// Log is the path of a manager's log.
func (i *Ingot) Log(name string) string { return filepath.Join(i.dir, name+".log") }

// StartManager starts a manager and waits until it is ready.
func (i *Ingot) StartManager(ctx context.Context, m Manager) (*process.Process, error) {
	launched, err := i.LaunchManager(m)
	if err != nil {
		return nil, err
	}
	if err := launched.Await(ctx); err != nil {
		launched.Process.Kill()
		return nil, err
	}
	return launched.Process, nil
}

// Launched is a manager that has been started and may not be ready yet.
type Launched struct {
	Process *process.Process
	// Metrics is the URL of its metrics.
	Metrics string
	health  string
}

// Await waits until the manager is ready, or has ended.
func (l *Launched) Await(ctx context.Context) error {
	return awaitReady(ctx, l.Process, "http://"+l.health+"/readyz")
}

// LaunchManager starts a manager and does not wait.
func (i *Ingot) LaunchManager(m Manager) (*Launched, error) {
	ports, err := controlplane.FreePorts(2)
	if err != nil {
		return nil, err
	}
	health := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[0]))
	diagnostics := net.JoinHostPort("127.0.0.1", strconv.Itoa(ports[1]))
	kubeconfig := m.Kubeconfig
	if kubeconfig == "" {
		kubeconfig = i.kubeconfig
	}
	webhooks := i.webhookPort
	if m.NoWebhooks {
		webhooks = 0
	}
	args := append(append([]string{}, m.Args...),
		"--kubeconfig="+kubeconfig,
		"--manager-username="+Username,
		"--webhook-host=127.0.0.1",
		"--webhook-port="+strconv.Itoa(webhooks),
		"--webhook-cert-dir="+i.plane.WebhookCertificates(),
		"--health-addr="+health,
		"--diagnostics-address="+diagnostics,
		"--insecure-diagnostics",
	)
	p, err := process.Start(process.Command{
		Path: m.Path, Args: args, Dir: i.dir, Log: i.Log(m.Name), Env: []string{"POD_NAMESPACE=" + Namespace},
	})
	if err != nil {
		return nil, err
	}
	return &Launched{Process: p, Metrics: "http://" + diagnostics + "/metrics", health: health}, nil
}

// awaitReady waits until the manager says that it is ready, or has ended.
func awaitReady(ctx context.Context, p *process.Process, url string) error {
	client := &http.Client{Timeout: 5 * time.Second}
	err := wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, readyTimeout, true, func(ctx context.Context) (bool, error) {
		if err := p.Err(); err != nil {
			return false, err
		}
		request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
		if err != nil {
			return false, err
		}
		response, err := client.Do(request)
		if err != nil {
			return false, nil
		}
		_ = response.Body.Close()
		return response.StatusCode == http.StatusOK, nil
	})
	if err != nil {
		return fmt.Errorf("manager is not ready: %w", err)
	}
	return nil
}
