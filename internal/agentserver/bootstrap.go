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

// giveBootstrap hands the bootstrap data to the agent that holds the install
// order, and to nobody else (I15). It is read live and kept nowhere.
func (s *Server) giveBootstrap(r *http.Request, c caller, in agentapi.BootstrapRequest) (agentapi.Bootstrap, *agentapi.Error) {
	ctx := r.Context()
	host, refusal := s.holder(ctx, c, in.OrderID)
	if refusal != nil {
		return agentapi.Bootstrap{}, refusal
	}
	if host.Spec.Order.Kind != infrav1.OrderInstall {
		return agentapi.Bootstrap{}, orderGone("the host is not being provisioned")
	}
	if isLive(host) {
		return agentapi.Bootstrap{}, orderGone("the data of a live system is given to that alone")
	}
	if refusal := s.verified(host, in); refusal != nil {
		return agentapi.Bootstrap{}, refusal
	}
	machine, err := s.claimant(ctx, host)
	if err != nil {
		s.Log.Error(err, "Could not find the machine of a claim", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.Bootstrap{}, notReady("the machine of the claim cannot be read")
	}
	data, format, err := s.userData(ctx, machine)
	if err != nil {
		s.Log.Error(err, "Could not read bootstrap data", "machine", client.ObjectKeyFromObject(machine).String())
		return agentapi.Bootstrap{}, notReady("the bootstrap data is not there yet")
	}
	userData, err := bootstrap.Text(data)
	if err != nil {
		return agentapi.Bootstrap{}, s.unusable(host, machine, err)
	}
	address, err := s.addressFor(r)
	if err != nil {
		return agentapi.Bootstrap{}, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: err.Error()}
	}
	if format == agentapi.FormatIgnition {
		config, err := RenderIgnition([]byte(userData), s.seedInput(host, address))
		if err != nil {
			return agentapi.Bootstrap{}, s.unusable(host, machine, err)
		}
		userData = string(config)
	}
	seed, err := s.seedOf(host, address)
	if err != nil {
		s.Log.Error(err, "Could not render the seed", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.Bootstrap{}, notReady("the seed cannot be rendered")
	}
	out := agentapi.Bootstrap{
		Format: format, UserData: agentapi.Sensitive(userData), MetaData: seed.MetaData, VendorData: agentapi.Sensitive(seed.VendorData),
	}
	if network := host.Spec.Claim.Network; network != nil {
		out.NetworkConfig = network.Config
	}
	return out, nil
}

// verified refuses an agent that has not written and verified the claim's image in this
// session: the data is given at the end of an install, not at its beginning (I15).
func (s *Server) verified(host *infrav1.IngotHost, in agentapi.BootstrapRequest) *agentapi.Error {
	switch in.VerifiedChecksum {
	case host.Spec.Claim.Image.Checksum:
		return nil
	case "":
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRefused, action,
			"An agent asked for the bootstrap data without having verified the image. Ingot gave it nothing. If the host boots signed or own media, make them again with the agent of this version")
		return &agentapi.Error{Reason: agentapi.ReasonBadRequest,
			Message: "bootstrap data is given after the image was verified, and the request names no verified image; is the agent as new as the manager, as on signed or own boot media it may not be?"}
	}
	s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRefused, action,
		"An agent asked for the bootstrap data with another image than the claim's. Ingot gave it nothing")
	return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "the image that was verified is not the claim's"}
}

// unusable tells of bootstrap data that no system reads, although the machine looked
// before it chose the host: the Secret was made anew since. The host is not to blame, so
// that its agent, or live system, waits, as it does where the Secret is gone.
func (s *Server) unusable(host *infrav1.IngotHost, machine *infrav1.IngotMachine, err error) *agentapi.Error {
	s.Log.Error(err, "Could not use bootstrap data", "machine", client.ObjectKeyFromObject(machine).String())
	if errors.Is(err, ignition.ErrConfig) || errors.Is(err, bootstrap.ErrNotText) {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonBootstrapDataInvalid, action,
			"The bootstrap data of IngotMachine %s was changed since it chose this host: %s. The server waits for it; mend it in the bootstrap configuration, or delete the Machine to replace it",
			machine.Name, inventory.Truncate(err.Error(), maxMessage/2))
	}
	return notReady("the bootstrap data cannot be used")
}

// claimant reads the IngotMachine that the claim names, and makes sure that it
// means this host and this instance.
func (s *Server) claimant(ctx context.Context, host *infrav1.IngotHost) (*infrav1.IngotMachine, error) {
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

// userData reads the bootstrap Secret of the Cluster API Machine that owns machine, and
// refers to it (I15).
func (s *Server) userData(ctx context.Context, machine *infrav1.IngotMachine) (data []byte, format string, err error) {
	owner, err := util.GetOwnerMachine(ctx, readOnly{s.Live, s.Client}, machine.ObjectMeta)
	if err != nil {
		return nil, "", err
	}
	if owner != nil && !inventory.RefersTo(owner, machine) {
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
		return nil, "", fmt.Errorf("secret %s holds %d bytes: at most %d can be handed out", key, len(value), agentapi.MaxBootstrapBytes)
	}
	return value, string(secret.Data[bootstrap.FormatKey]), nil
}

// readOnly reads live where a helper of Cluster API asks for a client.
type readOnly struct {
	client.Reader
	client.Client
}

// Get reads live.
func (r readOnly) Get(ctx context.Context, key client.ObjectKey, obj client.Object, opts ...client.GetOption) error {
	return r.Reader.Get(ctx, key, obj, opts...)
}

// List reads live.
func (r readOnly) List(ctx context.Context, list client.ObjectList, opts ...client.ListOption) error {
	return r.Reader.List(ctx, list, opts...)
}

// addressFor is host:port by which the installed system reaches the agent API: where
// its agent reached it. The one that is configured is left aside where the agent came by
// IPv6, and that is not.
func (s *Server) addressFor(r *http.Request) (string, error) {
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

// seedOf renders what the installed system is told of itself.
func (s *Server) seedOf(host *infrav1.IngotHost, address string) (Seed, error) {
	return RenderSeed(s.seedInput(host, address))
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
