// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/ignition"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// liveRepeats is for how long after the fetch of its data the same live system may ask
// again: a reply may have been lost with the manager that gave it, whose successor takes
// minutes to come, and cloud-init asks for one file after the other.
const liveRepeats = 10 * time.Minute

// isLive says whether a live system is what the present order comes to.
func isLive(host *infrav1.IngotHost) bool {
	claim, order := host.Spec.Claim, host.Spec.Order
	return order != nil && order.Kind == infrav1.OrderInstall && claim != nil && claim.Live != nil
}

// startLive tells the agent that has loaded a live system its command line. Nothing is
// committed by that: the address in it leads to the data only once, and soon not any more.
func (s *Server) startLive(r *http.Request, c caller, in agentapi.LiveRequest) (agentapi.LiveBoot, *agentapi.Error) {
	host, refusal := s.holder(r.Context(), c, in.OrderID)
	if refusal != nil {
		return agentapi.LiveBoot{}, refusal
	}
	if !isLive(host) {
		return agentapi.LiveBoot{}, orderGone("no live system is to be started on this host")
	}
	// Before any reply: what fails from here on is not this host's failure.
	if host.Spec.Order.LiveStartedAt.IsZero() {
		if host, refusal = s.transact(r.Context(), c, s.mayAct(c), s.noteLiveStart); refusal != nil {
			return agentapi.LiveBoot{}, refusal
		}
	}
	address, err := s.addressFor(r)
	if err != nil {
		return agentapi.LiveBoot{}, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: err.Error()}
	}
	// What is missing now would be missing when the system asks for it: the agent waits
	// for it with more patience than installers have.
	if _, refusal := s.liveFiles(r.Context(), host, address); refusal != nil {
		return agentapi.LiveBoot{}, refusal
	}
	line, err := s.commandLine(host, address)
	if err != nil {
		s.Log.Error(err, "Could not render the command line of a live system", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.LiveBoot{}, notReady("the command line cannot be rendered")
	}
	return agentapi.LiveBoot{CommandLine: agentapi.Sensitive(line)}, nil
}

// noteLiveStart writes when the host had done its part of the start of a live system.
func (s *Server) noteLiveStart(host *infrav1.IngotHost) *agentapi.Error {
	if !isLive(host) {
		return orderGone("no live system is to be started on this host")
	}
	host.Spec.Order.LiveStartedAt = metav1.NewTime(s.Clock.Now())
	return nil
}

// cameBack says whether another agent on a host means that its live system has
// rebooted, as installers do that fail, and not that two hold one token.
func cameBack(host *infrav1.IngotHost) bool {
	return isLive(host) && !host.Spec.Order.LiveStartedAt.IsZero()
}

// endLive ends the order of a live system that has rebooted. Neither key holds any more,
// as by a revocation, but nothing is suspected: whose it is that the system came to
// nothing is said by its result.
func (s *Server) endLive(ctx context.Context, host *infrav1.IngotHost, c caller) error {
	var result infrav1.OrderResult
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) {
		if result = (infrav1.OrderResult{}); order.Result == nil {
			result = lifecycle.LiveSilent("was started, and the host rebooted before anybody had asked for its bootstrap data: another agent came with the same order, and was refused", s.Clock.Now())
			order.Result = &result
		}
	})
	if ended && result.Reason != "" {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, result.Reason, action, "%s", result.Message)
	}
	return err
}

// commandLine of the live system, with the addresses of its data.
func (s *Server) commandLine(host *infrav1.IngotHost, address string) (string, error) {
	claim, order := host.Spec.Claim, host.Spec.Order
	pin, err := token.Curl(s.Pins)
	if err != nil {
		return "", err
	}
	scheme := "http://"
	if claim.Live.DataTransport == infrav1.LiveHTTPS {
		scheme = "https://"
	}
	seed := scheme + address + agentapi.PathLiveData + s.Keys.Mint(token.Claims{
		Namespace: host.Namespace, Host: host.Name, Purpose: token.Live, OrderID: order.ID,
		InstanceID: claim.InstanceID, Attempt: claim.Attempt, Expiry: s.Clock.Now().Add(token.LiveLifetime),
	}) + "/"
	return strings.NewReplacer(
		infrav1.LiveDataURL, seed+agentapi.LiveUserData,
		infrav1.LiveSeedURL, seed,
		infrav1.LivePin, pin,
	).Replace(claim.Live.CommandLine), nil
}

// giveLiveData serves one file of a live system's bootstrap data. Neither the address
// that was asked for nor the answer is ever logged (I15).
func (s *Server) giveLiveData(w http.ResponseWriter, r *http.Request) {
	text, name, _ := cutLast(strings.TrimPrefix(r.URL.Path, agentapi.PathLiveData), "/")
	claims, err := s.Keys.Verify(text)
	if err != nil || claims.Purpose != token.Live {
		s.Log.Info("Refused a fetch of bootstrap data by an address that is not ours", "remote", r.RemoteAddr)
		refuse(w, invalidToken("the address is not valid here"))
		return
	}
	if !slices.Contains(liveNames, name) {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet { // a HEAD gives nothing, and must not count as the fetch
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	c := caller{claims: claims, source: sourceOf(r)}
	if why := s.refusals.lately(askerOf(r, c), s.Clock.Now()); why != "" {
		refuse(w, orderGone(why))
		return
	}
	leave := s.small.places.take(r.Context(), c.source)
	if leave == nil {
		refuse(w, notReady("the manager has too many requests"))
		return
	}
	defer leave()
	data, refusal := s.liveData(r, c, name)
	if refusal != nil {
		refuse(w, refusal)
		return
	}
	if data == "" { // there is no network-config; nothing else is ever empty
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, data)
}

// cutLast cuts around the last separator.
func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return s, "", false
}

// liveData answers one fetch. That of the user data is the commit point (I4): the host
// is Provisioned before its system has what it makes itself last by. After it the same
// system may repeat what it asked, for as long as a reply may have been lost.
func (s *Server) liveData(r *http.Request, c caller, name string) (string, *agentapi.Error) {
	var data string
	var first bool
	host, refusal := s.transact(r.Context(), c, func(ctx context.Context, host *infrav1.IngotHost) *agentapi.Error {
		from, err := s.whereabouts(ctx, s.Live, host)
		if err != nil {
			return notReady("the API server does not answer")
		}
		if why := judgeLive(host, liveCaller{caller: c, secure: r.TLS != nil, now: s.Clock.Now()}, from); why != "" {
			if s.refusals.keep(askerOf(r, c), why, s.Clock.Now()) {
				s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonLiveDataRefused, action,
					"A request from %s for the bootstrap data of the live system was refused: %s", c.source, why)
			}
			return orderGone(why) // 410, at which some installers stop asking
		}
		address, err := s.addressFor(r)
		if err != nil {
			return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: err.Error()}
		}
		files, refusal := s.liveFiles(ctx, host, address)
		if refusal != nil {
			return refusal
		}
		data = files[name]
		return nil
	}, func(host *infrav1.IngotHost) *agentapi.Error {
		if first = name == agentapi.LiveUserData && host.Spec.Claim.LiveFetch == nil; first {
			s.conclude(host, agentapi.Report{Outcome: agentapi.Succeeded})
			host.Spec.Claim.LiveFetch = &infrav1.LiveFetch{At: metav1.NewTime(s.Clock.Now()), Address: c.source.String()}
		}
		return nil
	})
	if refusal != nil {
		return "", refusal
	}
	if first {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonProvisioned, action,
			"The live system has its bootstrap data, which is given once; it installs itself, and from now on the server boots from its disk")
		s.endBoot(r.Context(), host, agentapi.Report{Outcome: agentapi.Succeeded})
	}
	return data, nil
}

// liveCaller is who asks for a live system's data.
type liveCaller struct {
	caller
	// secure: over TLS.
	secure bool
	now    time.Time
}

// judgeLive says why the caller does not get the data; empty: it gets it. It is a pure
// function of what is known.
func judgeLive(host *infrav1.IngotHost, c liveCaller, from whereabouts) string {
	claim, order := host.Spec.Claim, host.Spec.Order
	switch {
	case claim == nil || claim.Live == nil || claim.InstanceID != c.claims.InstanceID || claim.Attempt != c.claims.Attempt:
		return "it is for a life of the host that has ended"
	case claim.Live.DataTransport == infrav1.LiveHTTPS && !c.secure:
		return "this data is given over HTTPS only"
	case claim.LiveFetch == nil && !from.allows(c.source):
		return "it did not come from the host's address"
	case claim.LiveFetch != nil: // from an address that was allowed then; the order that says which is gone
		if claim.State != infrav1.ClaimProvisioned || claim.LiveFetch.Address != c.source.String() || c.now.After(claim.LiveFetch.At.Add(liveRepeats)) {
			return "the data was fetched already, and is given once"
		}
		return ""
	case c.now.After(c.claims.Expiry):
		return "its address has expired; Ingot powers the host off after its deadline and tries again"
	case order == nil || order.ID != c.claims.OrderID || order.Kind != infrav1.OrderInstall || order.Result != nil || order.AgentKey == "":
		return "its order has ended or was replaced"
	case ptr.Deref(order.Revoked, false):
		return "its order is revoked"
	case lifecycle.OrderIsForeign(host) || !stands(host, c.claims.InstanceID):
		return "the ledger no longer asks for its order"
	}
	return ""
}

// liveNames are the files that a live system may ask for.
var liveNames = []string{agentapi.LiveUserData, agentapi.LiveMetaData, agentapi.LiveVendorData, agentapi.LiveNetworkConfig}

// liveFiles are the bootstrap data and what goes with it, read live and kept nowhere.
func (s *Server) liveFiles(ctx context.Context, host *infrav1.IngotHost, address string) (map[string]string, *agentapi.Error) {
	machine, err := s.claimant(ctx, host)
	if err != nil {
		s.Log.Error(err, "Could not find the machine of a claim", "host", client.ObjectKeyFromObject(host).String())
		return nil, notReady("the machine of the claim cannot be read")
	}
	data, format, err := s.userData(ctx, machine)
	if err != nil {
		s.Log.Error(err, "Could not read bootstrap data", "machine", client.ObjectKeyFromObject(machine).String())
		return nil, notReady("the bootstrap data is not there yet")
	}
	if len(data) == 0 { // it would be given once, for nothing
		return nil, notReady("the bootstrap data is empty")
	}
	if format == agentapi.FormatIgnition {
		// Nothing is added: the system that asks may be one that only installs another.
		if data, err = ignition.Config(data, ignition.Additions{}); err != nil {
			return nil, s.unusable(host, machine, err)
		}
	}
	seed, err := s.seedOf(host, address)
	if err != nil {
		s.Log.Error(err, "Could not render the seed", "host", client.ObjectKeyFromObject(host).String())
		return nil, notReady("the seed cannot be rendered")
	}
	files := map[string]string{
		agentapi.LiveUserData: string(data), agentapi.LiveMetaData: seed.MetaData, agentapi.LiveVendorData: seed.VendorData,
	}
	if network := host.Spec.Claim.Network; network != nil {
		files[agentapi.LiveNetworkConfig] = network.Config
	}
	return files, nil
}
