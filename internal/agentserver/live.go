// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"io"
	"net/http"
	"path"
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

// liveRepeats is how long after the fetch of its data the same live system may fetch again. The
// reply may have been lost with a manager whose successor takes minutes to start, and cloud-init
// fetches one file after the other.
const liveRepeats = 10 * time.Minute

// isLive reports whether the present order starts a live system.
func isLive(host *infrav1.IngotHost) bool {
	claim, order := host.Spec.Claim, host.Spec.Order
	return order != nil && order.Kind == infrav1.OrderInstall && claim != nil && claim.Live != nil
}

// startLive returns the command line to an agent that has loaded a live system. This commits
// nothing: the URL in the command line is valid for one fetch and expires soon.
func (s *Server) startLive(r *http.Request, c caller, in agentapi.LiveRequest) (agentapi.LiveBoot, *agentapi.Error) {
	host, refusal := s.sessionHost(r.Context(), c, in.OrderID)
	if refusal != nil {
		return agentapi.LiveBoot{}, refusal
	}
	if !isLive(host) {
		return agentapi.LiveBoot{}, orderGone("no live system is to be started on this host")
	}
	// Recorded before any reply: later failures are not the host's.
	if host.Spec.Order.LiveStartTime.IsZero() {
		if host, refusal = s.transact(r.Context(), c, s.authorize, s.recordLiveStart); refusal != nil {
			return agentapi.LiveBoot{}, refusal
		}
	}
	address, err := s.agentAPIAddress(r)
	if err != nil {
		return agentapi.LiveBoot{}, badRequest(err.Error())
	}
	// The agent waits for missing data longer than installers do.
	if _, refusal := s.liveFiles(r.Context(), host, address); refusal != nil {
		return agentapi.LiveBoot{}, refusal
	}
	line, err := s.commandLine(host, address)
	if err != nil {
		return agentapi.LiveBoot{}, s.unavailable(err, "render the command line of the live system", client.ObjectKeyFromObject(host))
	}
	return agentapi.LiveBoot{CommandLine: agentapi.Sensitive(line)}, nil
}

// recordLiveStart records that the host has loaded its live system.
func (s *Server) recordLiveStart(host *infrav1.IngotHost) *agentapi.Error {
	if !isLive(host) {
		return orderGone("no live system is to be started on this host")
	}
	host.Spec.Order.LiveStartTime = metav1.NewTime(s.Clock.Now())
	return nil
}

// isLiveStarted reports whether another agent on the host means that the live system has rebooted,
// as failing installers do, and not that two agents use one token.
func isLiveStarted(host *infrav1.IngotHost) bool {
	return isLive(host) && !host.Spec.Order.LiveStartTime.IsZero()
}

// endLive ends the order of a live system that has rebooted. Neither key is valid any more, as
// after a revocation. The order's result is the failure of the live system.
func (s *Server) endLive(ctx context.Context, host *infrav1.IngotHost, c caller) error {
	var result infrav1.OrderResult
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) {
		if result = (infrav1.OrderResult{}); order.Result == nil {
			result = lifecycle.LiveSystemFailed("was started, but the host rebooted before the system fetched its bootstrap data", s.Clock.Now())
			order.Result = &result
		}
	})
	if ended && result.Reason != "" {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, result.Reason, eventAction, "%s", result.Message)
	}
	return err
}

// commandLine returns the command line of the live system, with the URLs of its data.
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

// getLiveData serves one file of a live system's bootstrap data. It logs neither the URL nor the
// answer (I15).
func (s *Server) getLiveData(w http.ResponseWriter, r *http.Request) {
	text, name := path.Split(strings.TrimPrefix(r.URL.Path, agentapi.PathLiveData))
	claims, err := s.Keys.Verify(strings.TrimSuffix(text, "/"))
	if err != nil || claims.Purpose != token.Live {
		s.Log.Info("Rejected a fetch of bootstrap data by an invalid URL", "remote", r.RemoteAddr)
		refuse(w, invalidToken("the URL is not valid here"))
		return
	}
	if !slices.Contains(liveNames, name) {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet { // HEAD gets no data, and must not count as the fetch
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	c := caller{claims: claims, source: sourceOf(r)}
	if reason := s.denied.recent(requesterOf(r, c), s.Clock.Now()); reason != "" {
		refuse(w, orderGone(reason))
		return
	}
	release := s.small.acquire(r.Context(), c.source)
	if release == nil {
		refuse(w, overloaded())
		return
	}
	defer release()
	data, refusal := s.liveData(r, c, name)
	if refusal != nil {
		refuse(w, refusal)
		return
	}
	if data == "" { // the claim has no network-config; other files are never empty
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	_, _ = io.WriteString(w, data)
}

// liveData answers one fetch. The fetch of the user data is the commit point (I4): the host is
// Provisioned before its system can install itself. Afterwards the same system may repeat its
// fetches for liveRepeats, since a reply may have been lost.
func (s *Server) liveData(r *http.Request, c caller, name string) (string, *agentapi.Error) {
	var data string
	var first bool
	host, refusal := s.transact(r.Context(), c, func(ctx context.Context, host *infrav1.IngotHost, c caller) *agentapi.Error {
		from, err := s.allowedSources(ctx, s.Live, host)
		if err != nil {
			return s.unavailable(err, "read the addresses of the host", client.ObjectKeyFromObject(host))
		}
		if reason := denyLiveData(host, liveCaller{caller: c, secure: r.TLS != nil, now: s.Clock.Now()}, from); reason != "" {
			if s.denied.add(requesterOf(r, c), reason, s.Clock.Now()) {
				s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonLiveDataRejected, eventAction,
					"Rejected a request from %s for the bootstrap data of the live system: %s.", c.source, reason)
			}
			return orderGone(reason) // after status 410 some installers stop asking
		}
		address, err := s.agentAPIAddress(r)
		if err != nil {
			return badRequest(err.Error())
		}
		files, refusal := s.liveFiles(ctx, host, address)
		if refusal != nil {
			return refusal
		}
		data = files[name]
		return nil
	}, func(host *infrav1.IngotHost) *agentapi.Error {
		if first = name == agentapi.LiveUserData && host.Spec.Claim.LiveFetch == nil; first {
			s.applyReport(host, agentapi.Report{Outcome: agentapi.Succeeded})
			host.Spec.Claim.LiveFetch = &infrav1.LiveFetch{FetchTime: metav1.NewTime(s.Clock.Now()), Address: c.source.String()}
		}
		return nil
	})
	if refusal != nil {
		return "", refusal
	}
	if first {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonProvisioned, eventAction,
			"The live system fetched its bootstrap data, which Ingot serves only once. It installs itself; from now on the server boots from its disk.")
		s.recordBootEnd(r.Context(), host, agentapi.Report{Outcome: agentapi.Succeeded})
	}
	return data, nil
}

// liveCaller is a client that asks for a live system's data.
type liveCaller struct {
	caller
	// secure: over TLS.
	secure bool
	now    time.Time
}

// denyLiveData returns why the caller does not get the data, or "" if it does.
func denyLiveData(host *infrav1.IngotHost, c liveCaller, from allowedSources) string {
	claim, order := host.Spec.Claim, host.Spec.Order
	switch {
	case claim == nil || claim.Live == nil || claim.InstanceID != c.claims.InstanceID || claim.Attempt != c.claims.Attempt:
		return "it is for an earlier installation of the host"
	case claim.Live.DataTransport == infrav1.LiveHTTPS && !c.secure:
		return "the data is served over HTTPS only"
	case claim.LiveFetch == nil && !from.allows(c.source):
		return "that is not an address of the host"
	case claim.LiveFetch != nil: // the order, which names the allowed addresses, is gone
		if claim.State != infrav1.ClaimProvisioned || claim.LiveFetch.Address != c.source.String() || c.now.After(claim.LiveFetch.FetchTime.Add(liveRepeats)) {
			return "the data was fetched already, and is served only once"
		}
		return ""
	case c.now.After(c.claims.Expiry):
		return "its URL has expired; Ingot powers the host off after its deadline and tries again"
	case order == nil || order.ID != c.claims.OrderID || order.Kind != infrav1.OrderInstall || order.Result != nil || order.AgentKey == "":
		return "its install has ended or was replaced"
	case ptr.Deref(order.Revoked, false):
		return "its install was revoked, because two agents used one token"
	case lifecycle.OrderIsForeign(host) || !isOrderCurrent(host, c.claims.InstanceID):
		return "the host no longer needs its install"
	}
	return ""
}

// liveNames are the files that a live system may ask for.
var liveNames = []string{agentapi.LiveUserData, agentapi.LiveMetaData, agentapi.LiveVendorData, agentapi.LiveNetworkConfig}

// liveFiles returns the bootstrap data and the other files of the seed. They are read live and are
// not stored.
func (s *Server) liveFiles(ctx context.Context, host *infrav1.IngotHost, address string) (map[string]string, *agentapi.Error) {
	machine, data, format, refusal := s.bootstrapData(ctx, host)
	if refusal != nil {
		return nil, refusal
	}
	if len(data) == 0 { // its only fetch would be wasted
		return nil, notReady("the bootstrap data is empty")
	}
	if format == agentapi.FormatIgnition {
		// Nothing is added: the live system may be one that only installs another system.
		var err error
		if data, err = ignition.Config(data, ignition.Additions{}); err != nil {
			return nil, s.rejectBootstrapData(host, machine, err)
		}
	}
	seed, err := RenderSeed(s.seedInput(host, address))
	if err != nil {
		return nil, s.unavailable(err, "render the seed", client.ObjectKeyFromObject(host))
	}
	files := map[string]string{
		agentapi.LiveUserData: string(data), agentapi.LiveMetaData: seed.MetaData, agentapi.LiveVendorData: seed.VendorData,
	}
	if network := host.Spec.Claim.Network; network != nil {
		files[agentapi.LiveNetworkConfig] = network.Config
	}
	return files, nil
}
