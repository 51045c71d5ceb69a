// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/cluster-api/controllers/crdmigrator"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Has reports whether the process has a role.
func (o *Options) Has(role string) bool { return slices.Contains(o.Roles, role) }

// servesWebhooks reports whether the process serves webhooks, which only the role controllers does.
func (o *Options) servesWebhooks() bool { return o.Has(RoleControllers) && o.WebhookPort != 0 }

// forwardsAgents reports whether the process forwards agents to another process.
func (o *Options) forwardsAgents() bool { return o.Has(RoleBoot) && !o.Has(RoleControllers) }

// problems collects the errors about invalid options.
type problems []error

// require adds an error unless ok.
func (p *problems) require(ok bool, format string, args ...any) {
	if !ok {
		*p = append(*p, fmt.Errorf(format, args...))
	}
}

// Validate returns an error with each invalid option, its value and the remedy.
func (o *Options) Validate() error {
	return errors.Join(o.validateRoles(), o.validateKeys(), o.validateBootKeys(), o.validateAgent(), o.validateBoot(), o.validatePolicy(), o.validateRates(), o.validateMigration(), o.Hooks.validate())
}

func (o *Options) validateRoles() error {
	var errs problems
	known := []string{RoleControllers, RoleBoot, RoleHooks}
	for _, role := range o.Roles {
		errs.require(slices.Contains(known, role), "--roles: unknown role %q; use %s", role, strings.Join(known, ", "))
	}
	errs.require(len(o.Roles) > 0, "--roles: is empty; set at least one role")
	return errors.Join(errs...)
}

func (o *Options) validateKeys() error {
	switch {
	case !o.hasAgents():
		return nil
	case (o.AgentKeyDir == "") == (o.AgentKeySecret == ""):
		return fmt.Errorf("--agent-key-dir: %q and --agent-key-secret: %q; set exactly one of them", o.AgentKeyDir, o.AgentKeySecret)
	case o.AgentKeySecret == "":
		return nil
	case !o.Has(RoleControllers):
		return errors.New("--agent-key-secret: a boot server cannot read Secrets; mount the Secret, and set --agent-key-dir")
	}
	_, err := secretKey("--agent-key-secret", o.AgentKeySecret)
	return err
}

func (o *Options) validateBootKeys() error {
	if o.BootKeySecret == "" {
		return nil
	}
	if !o.Has(RoleControllers) {
		return fmt.Errorf("--boot-key-secret: %q requires the role controllers; remove it", o.BootKeySecret)
	}
	_, err := secretKey("--boot-key-secret", o.BootKeySecret)
	if err == nil && o.BootKeySecret == o.AgentKeySecret {
		err = fmt.Errorf("--boot-key-secret: %q is also --agent-key-secret; use a Secret in the boot servers' namespace", o.BootKeySecret)
	}
	return err
}

// secretKey parses the value of a flag that names a Secret.
func secretKey(flag, value string) (client.ObjectKey, error) {
	namespace, name, ok := strings.Cut(value, "/")
	if !ok || namespace == "" || name == "" || strings.Contains(name, "/") {
		return client.ObjectKey{}, fmt.Errorf("%s: %q is not <namespace>/<name>", flag, value)
	}
	return client.ObjectKey{Namespace: namespace, Name: name}, nil
}

func (o *Options) validateAgent() error {
	var errs problems
	if _, err := listenPort(o.AgentListen); err != nil {
		errs = append(errs, fmt.Errorf("--agent-listen: %w", err))
	}
	_, err := netip.ParseAddrPort(o.AgentAddress)
	errs.require(o.AgentAddress == "" || err == nil, "--agent-address: %q is not address:port; set the address at which servers reach the agent API", o.AgentAddress)
	if o.forwardsAgents() {
		errs.require(isHostPort(o.AgentUpstream), "--agent-upstream: %q is not host:port; set the address of the manager's agent API", o.AgentUpstream)
	} else {
		errs.require(o.AgentUpstream == "", "--agent-upstream: %q requires the role boot without controllers; this process serves the agent API itself", o.AgentUpstream)
	}
	errs.require(!o.AgentProxyProtocol || !o.Has(RoleBoot), "--agent-proxy-protocol: requires the role controllers without boot; agents of this process's boot server connect directly")
	return errors.Join(errs...)
}

// isHostPort reports whether an address is a valid host:port. $(NAME) is not: the kubelet does not
// expand it if the Pod was started before the Service.
func isHostPort(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false
	}
	_, err = netip.ParseAddr(host)
	return err == nil || len(validation.IsDNS1123Subdomain(host)) == 0
}

// listenPort returns the port of a listen address, whose host may be empty.
func listenPort(address string) (uint16, error) {
	_, text, err := net.SplitHostPort(address)
	if err != nil {
		return 0, fmt.Errorf("%q is not host:port", address)
	}
	port, err := net.LookupPort("tcp", text) //nolint:noctx // reads /etc/services
	if err != nil {
		return 0, fmt.Errorf("%q has no port", address)
	}
	return uint16(port), nil
}

// agentAddress returns the address:port at which servers reach the agent API, or "" if only boot
// servers know it.
func (o *Options) agentAddress() string {
	if o.AgentAddress != "" || !o.Has(RoleBoot) {
		return o.AgentAddress
	}
	address, addressErr := netip.ParseAddr(o.BootAddress)
	port, portErr := listenPort(o.AgentListen)
	if addressErr != nil || portErr != nil { // rejected by Validate
		return ""
	}
	return netip.AddrPortFrom(address, port).String()
}

// bootURL returns the URL at which BMCs and firmware reach a boot server, or "" if it is unknown.
func (o *Options) bootURL() string {
	if o.BootURL != "" || !o.Has(RoleBoot) {
		return strings.TrimSuffix(o.BootURL, "/")
	}
	return "http://" + net.JoinHostPort(o.BootAddress, strconv.Itoa(int(o.BootHTTPPort)))
}

// validateBootURL requires a plain http://host:port, because some BMCs accept no query.
func (o *Options) validateBootURL() error {
	u, err := url.Parse(o.bootURL())
	if o.BootURL == "" || err == nil && u.Scheme == "http" && u.Host != "" && u.User == nil && u.Path == "" && u.RawQuery == "" && u.Fragment == "" {
		return nil
	}
	return fmt.Errorf("--boot-url: %q is not http://host:port; set the HTTP address of a boot server", o.BootURL)
}

func (o *Options) validateBoot() error {
	if err := o.validateBootURL(); err != nil || !o.Has(RoleBoot) {
		return err
	}
	var errs problems
	a, err := netip.ParseAddr(o.BootAddress)
	errs.require(err == nil && a.Is4(), "--boot-address: %q is not an IPv4 address; set the address at which servers reach the boot server", o.BootAddress)
	if o.BootIPv6 != "" && o.BootIPv6 != bootIPv6Auto {
		a, err := netip.ParseAddr(o.BootIPv6)
		errs.require(err == nil && a.Is6() && !a.Is4In6() && a.IsGlobalUnicast(),
			"--boot-ipv6-address: %q is not a global IPv6 address; set the address at which servers reach the boot server, auto, or an empty value", o.BootIPv6)
	}
	port, err := listenPort(o.AgentListen)
	errs.require(err != nil || port != 0 || o.AgentAddress != "", "--agent-listen: %q has no fixed port; set one, such as 8843", o.AgentListen)
	errs.require(o.BootHTTPPort != 0, "--boot-http-port: must not be 0; set a port, such as 8880")
	errs.require(o.ImageCacheGiB >= 1, "--image-cache-gib: %d must be at least 1", o.ImageCacheGiB)
	errs.require(o.BootClientConnections >= 1, "--boot-client-connections: %d must be at least 1", o.BootClientConnections)
	_, err = o.Images.client()
	return errors.Join(append(errs, err)...)
}

func (o *Options) validatePolicy() error {
	var errs problems
	for _, option := range []struct {
		name  string
		value time.Duration
	}{
		{"power-poll", o.PowerPoll}, {"soft-power-off", o.Policy.SoftPowerOff},
		{"agent-deadline", o.Policy.AgentDeadline}, {"reset-interval", o.Policy.ResetInterval}, {"sync-period", o.SyncPeriod},
	} {
		errs.require(option.value > 0, "--%s: %s must be more than 0", option.name, option.value)
	}
	errs.require(o.MoveRest >= 0, "--move-rest: %s must be at least 0", o.MoveRest)
	errs.require(o.Policy.MaxAttempts >= 1, "--max-attempts: %d must be at least 1", o.Policy.MaxAttempts)
	_, err := o.parseBMCSources()
	return errors.Join(append(errs, err)...)
}

// validateRates rejects zero values, which client-go and controller-runtime replace by their own
// defaults. A negative rate means no limit.
func (o *Options) validateRates() error {
	var errs problems
	for _, option := range []struct {
		name  string
		value int
	}{
		{"kube-api-burst", o.KubeAPIBurst},
		{"ingothost-concurrency", o.HostConcurrency}, {"ingotmachine-concurrency", o.MachineConcurrency},
		{"ingotcluster-concurrency", o.ClusterConcurrency}, {"ingotmachinetemplate-concurrency", o.MachineTemplateConcurrency},
		{"ingotremediation-concurrency", o.RemediationConcurrency},
		{"clustercache-concurrency", o.Workloads.Concurrency}, {"clustercache-client-burst", o.Workloads.Burst},
	} {
		errs.require(option.value >= 1, "--%s: %d must be at least 1", option.name, option.value)
	}
	errs.require(o.KubeAPIQPS != 0, "--kube-api-qps: must not be 0; set a rate, or -1 for no limit")
	errs.require(o.Workloads.QPS != 0, "--clustercache-client-qps: must not be 0; set a rate, or -1 for no limit")
	return errors.Join(errs...)
}

func (o *Options) validateMigration() error {
	var errs problems
	known := []string{string(crdmigrator.StorageVersionMigrationPhase), string(crdmigrator.CleanupManagedFieldsPhase)}
	for _, phase := range o.SkipCRDMigrationPhases {
		errs.require(slices.Contains(known, phase), "--skip-crd-migration-phases: unknown phase %q; use %s", phase, strings.Join(known, ", "))
	}
	return errors.Join(errs...)
}
