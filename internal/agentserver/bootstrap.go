// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/netip"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/cluster-api/util"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/bootstrap"
	"github.com/ingot-metal/ingot/internal/ignition"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory"
)

// getBootstrap gives the bootstrap data to the agent that works on the install order, and to no
// other client (I15). The data is read live and is not stored.
func (s *Server) getBootstrap(r *http.Request, c caller, in agentapi.BootstrapRequest) (agentapi.Bootstrap, *agentapi.Error) {
	ctx := r.Context()
	host, refusal := s.sessionHost(ctx, c, in.OrderID)
	if refusal != nil {
		return agentapi.Bootstrap{}, refusal
	}
	if host.Spec.Order.Kind != infrav1.OrderInstall {
		return agentapi.Bootstrap{}, orderGone("the host is not being provisioned")
	}
	if isLive(host) {
		return agentapi.Bootstrap{}, orderGone("the host starts a live system, which fetches its data itself")
	}
	if refusal := s.checkVerified(host, in); refusal != nil {
		return agentapi.Bootstrap{}, refusal
	}
	machine, data, format, refusal := s.bootstrapData(ctx, host)
	if refusal != nil {
		return agentapi.Bootstrap{}, refusal
	}
	userData, err := bootstrap.Text(data)
	if err != nil {
		return agentapi.Bootstrap{}, s.rejectBootstrapData(host, machine, err)
	}
	address, err := s.agentAPIAddress(r)
	if err != nil {
		return agentapi.Bootstrap{}, badRequest(err.Error())
	}
	input := s.seedInput(host, address)
	if format == agentapi.FormatIgnition {
		config, err := RenderIgnition([]byte(userData), input)
		if err != nil {
			return agentapi.Bootstrap{}, s.rejectBootstrapData(host, machine, err)
		}
		userData = string(config)
	}
	seed, err := RenderSeed(input)
	if err != nil {
		return agentapi.Bootstrap{}, s.unavailable(err, "render the seed", client.ObjectKeyFromObject(host))
	}
	out := agentapi.Bootstrap{
		Format: format, UserData: agentapi.Sensitive(userData), MetaData: seed.MetaData, VendorData: agentapi.Sensitive(seed.VendorData),
	}
	if network := host.Spec.Claim.Network; network != nil {
		out.NetworkConfig = network.Config
	}
	return out, nil
}

// bootstrapData reads the claiming machine and its bootstrap Secret.
func (s *Server) bootstrapData(ctx context.Context, host *infrav1.IngotHost) (_ *infrav1.IngotMachine, data []byte, format string, _ *agentapi.Error) {
	machine, err := s.claimingMachine(ctx, host)
	if err != nil {
		return nil, nil, "", s.unavailable(err, "read the machine that claims the host", client.ObjectKeyFromObject(host))
	}
	data, format, err = s.readBootstrapSecret(ctx, machine)
	if err != nil {
		return nil, nil, "", s.unavailable(err, "read the bootstrap data", client.ObjectKeyFromObject(host))
	}
	return machine, data, format, nil
}

// checkVerified rejects an agent that has not written and verified the claim's image in this
// session: bootstrap data is given at the end of an install (I15).
func (s *Server) checkVerified(host *infrav1.IngotHost, in agentapi.BootstrapRequest) *agentapi.Error {
	switch in.VerifiedChecksum {
	case host.Spec.Claim.Image.Checksum:
		return nil
	case "":
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRejected, eventAction,
			"An agent asked for bootstrap data before it verified the image; Ingot sent none. If the host boots signed or custom media, rebuild them with the agent of this Ingot version.")
		return badRequest("bootstrap data is given after the image was verified, and the request names no verified image; " + checkAgentVersion)
	}
	s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRejected, eventAction,
		"An agent asked for bootstrap data after it verified another image than the claim's; Ingot sent none.")
	return badRequest("the verified image is not the claim's")
}

// checkAgentVersion ends messages about agents that may be older than the manager.
const checkAgentVersion = "check that the boot server, or signed or custom boot media, has the agent of the manager's version"

// rejectBootstrapData reports bootstrap data that no system can use. The machine checked it before
// it chose the host, so that the Secret has changed since. The host is not at fault: its agent or
// live system retries, as it does while the Secret is missing.
func (s *Server) rejectBootstrapData(host *infrav1.IngotHost, machine *infrav1.IngotMachine, err error) *agentapi.Error {
	if errors.Is(err, ignition.ErrConfig) || errors.Is(err, bootstrap.ErrNotText) {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonBootstrapDataInvalid, eventAction,
			"The bootstrap data of IngotMachine %s became invalid: %s. The server waits. Correct the bootstrap configuration, or delete the Machine to replace it.",
			machine.Name, inventory.Truncate(err.Error(), maxMessage/2))
	}
	return s.unavailable(err, "use the bootstrap data", client.ObjectKeyFromObject(host))
}

// claimingMachine reads the IngotMachine that the claim names. It fails unless the machine names
// this host and instance.
func (s *Server) claimingMachine(ctx context.Context, host *infrav1.IngotHost) (*infrav1.IngotMachine, error) {
	machine := &infrav1.IngotMachine{}
	key := client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.MachineRef.Name}
	if err := s.Live.Get(ctx, key, machine); err != nil {
		return nil, err
	}
	want := infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: host.Spec.Claim.InstanceID}.String()
	if machine.Spec.ProviderID != want {
		return nil, fmt.Errorf("machine %s names %q, not %q", key, machine.Spec.ProviderID, want)
	}
	if !machine.DeletionTimestamp.IsZero() {
		return nil, fmt.Errorf("machine %s is being deleted", key)
	}
	return machine, nil
}

// readBootstrapSecret reads the bootstrap Secret of the Cluster API Machine that owns the
// IngotMachine and refers to it (I15).
func (s *Server) readBootstrapSecret(ctx context.Context, machine *infrav1.IngotMachine) (data []byte, format string, err error) {
	owner, err := util.GetOwnerMachine(ctx, readOnly{s.Live, s.Client}, machine.ObjectMeta)
	if err != nil {
		return nil, "", err
	}
	if owner != nil && !inventory.RefersToMachine(owner, machine) {
		return nil, "", fmt.Errorf("machine %s refers to %s %q, not to this IngotMachine", owner.Name, owner.Spec.InfrastructureRef.Kind, owner.Spec.InfrastructureRef.Name)
	}
	if owner == nil || owner.Spec.Bootstrap.DataSecretName == nil {
		return nil, "", fmt.Errorf("the Machine has no bootstrap data yet")
	}
	secret := &corev1.Secret{}
	key := client.ObjectKey{Namespace: machine.Namespace, Name: ptr.Deref(owner.Spec.Bootstrap.DataSecretName, "")}
	if err := s.Live.Get(ctx, key, secret); err != nil {
		return nil, "", err
	}
	value, ok := secret.Data[bootstrap.ValueKey]
	if !ok {
		return nil, "", fmt.Errorf("secret %s has no key %q", key, bootstrap.ValueKey)
	}
	if len(value) > agentapi.MaxBootstrapBytes {
		return nil, "", fmt.Errorf("secret %s holds %d bytes: the maximum is %d", key, len(value), agentapi.MaxBootstrapBytes)
	}
	return value, string(secret.Data[bootstrap.FormatKey]), nil
}

// readOnly makes the helpers of Cluster API, which take a client, read live.
type readOnly struct {
	client.Reader
	client.Client
}

func (r readOnly) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return r.Reader.Get(ctx, key, obj, opts...)
}

func (r readOnly) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.Reader.List(ctx, list, opts...)
}

// agentAPIAddress returns host:port of the agent API for the installed system: Address or, if it is
// empty, the one that the agent used. An agent that came by IPv6 overrides an IPv4 Address.
func (s *Server) agentAPIAddress(r *http.Request) (string, error) {
	reached, err := netip.ParseAddrPort(r.Host)
	configured, _ := netip.ParseAddrPort(s.Address)
	if s.Address != "" && (err != nil || !reached.Addr().Is6() || configured.Addr().Is6()) {
		return s.Address, nil
	}
	if err != nil {
		return "", fmt.Errorf("the request's host %q is not address:port", r.Host)
	}
	return r.Host, nil
}

func (s *Server) seedInput(host *infrav1.IngotHost, address string) SeedInput {
	claim := host.Spec.Claim
	return SeedInput{
		ProviderID:    infrav1.ProviderID{Namespace: host.Namespace, Host: host.Name, InstanceID: claim.InstanceID}.String(),
		InstanceID:    claim.InstanceID,
		Attempt:       claim.Attempt,
		Hostname:      claim.Hostname,
		FailureDomain: claim.FailureDomain,
		Address:       address,
		Pins:          s.Pins,
		Token: s.Keys.Mint(token.Claims{
			Namespace: host.Namespace, Host: host.Name, Purpose: token.Booted,
			InstanceID: claim.InstanceID, Attempt: claim.Attempt,
			Expiry: s.Clock.Now().Add(token.BootedLifetime),
		}),
	}
}
