// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/client-go/util/retry"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/token"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// action of the events of this package: what the controller was doing.
const action = "AgentSession"

// caller is who speaks: what its token says, its key and where it speaks from.
type caller struct {
	claims token.Claims
	// key is the hash of the TLS client key; empty when there is none.
	key    string
	source netip.Addr
	// hardware is the boot NIC that DHCP has shown at source (mode Proxy); nil: none.
	hardware net.HardwareAddr
	// markers that the agent found on disks; known only in the call that opens a session.
	markers []agentapi.Marker
}

// identify reads token, key and source of a request. It does not look at the
// ledger, so that a stranger costs no API call.
func (s *Server) identify(r *http.Request) (caller, *agentapi.Error) {
	text, ok := strings.CutPrefix(r.Header.Get(agentapi.TokenHeader), "Bearer ")
	if !ok {
		return caller{}, invalidToken("the request carries no token")
	}
	claims, err := s.Keys.Verify(text)
	if err != nil {
		s.Log.Info("Refused a request with a token that is not ours", "remote", r.RemoteAddr)
		return caller{}, invalidToken("the token is not valid here")
	}
	c := caller{claims: claims}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		c.key = token.KeyHash(r.TLS.PeerCertificates[0])
	}
	c.source = sourceOf(r)
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && s.Hardware != nil {
		c.hardware = s.Hardware(conn, c.source)
	}
	return c, nil
}

// mayCall refuses what a token says by itself that it is not for. Whether its order is still
// the host's comes later, from the ledger: an agent that is at work goes on with a token that
// has expired.
func (s *Server) mayCall(c caller, path string) *agentapi.Error {
	booted := c.claims.Purpose == token.Booted
	switch {
	case c.claims.Purpose == token.Live, booted != (path == agentapi.PathBooted):
		s.Log.Info("Refused a request with a token for something else", "remote", c.source.String(), "path", path,
			"namespace", c.claims.Namespace, "host", c.claims.Host, "purpose", string(c.claims.Purpose))
		return invalidToken("the token is not for this call")
	case booted && s.Clock.Now().After(c.claims.Expiry):
		return invalidToken("the token has expired")
	case c.isStranger():
		return s.admitStranger(c)
	}
	return nil
}

// sourceOf is where a request came from; the zero address: nobody knows.
func sourceOf(r *http.Request) netip.Addr {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	addr, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return addr.Unmap()
}

func invalidToken(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonTokenInvalid, Message: message}
}

func orderGone(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonOrderGone, Message: message}
}

// liveHost reads the host that the token names from the API server.
func (s *Server) liveHost(ctx context.Context, c caller) (*infrav1.IngotHost, *agentapi.Error) {
	if c.isStranger() {
		return nil, invalidToken("the token is for no host")
	}
	host := &infrav1.IngotHost{}
	err := s.Live.Get(ctx, client.ObjectKey{Namespace: c.claims.Namespace, Name: c.claims.Host}, host)
	switch {
	case apierrors.IsNotFound(err):
		return nil, orderGone("the host does not exist any more")
	case err != nil:
		s.Log.Error(err, "Could not read the host of an agent", "host", c.claims.Host)
		return nil, notReady("the API server does not answer")
	}
	paused, err := isPaused(ctx, s.Live, host)
	if err != nil {
		return nil, notReady("the API server does not answer")
	}
	if paused {
		return nil, pausedHost()
	}
	return host, nil
}

// isPaused says whether nobody may act on the host (I10): a person or its Cluster
// paused it, or clusterctl moves it, to which it belongs until it is gone here.
func isPaused(ctx context.Context, reader client.Reader, host *infrav1.IngotHost) (bool, error) {
	for _, name := range []string{clusterv1.PausedAnnotation, infrav1.MovePausedAnnotation, clusterctlv1.DeleteForMoveAnnotation} {
		if _, found := host.Annotations[name]; found {
			return true, nil
		}
	}
	if host.Spec.Claim == nil {
		return false, nil
	}
	cluster := &clusterv1.Cluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: host.Namespace, Name: host.Spec.Claim.ClusterName}, cluster)
	if err != nil {
		return false, client.IgnoreNotFound(err)
	}
	return ptr.Deref(cluster.Spec.Paused, false), nil
}

// verdict is what becomes of a request for an order.
type verdict struct {
	refusal *agentapi.Error
	// revoke: the order is to be revoked before the refusal is sent (I14).
	revoke bool
	// rebooted: its live system has, and the order is to be ended before the refusal is sent.
	rebooted bool
	// inUse is the instance whose system may be in use on the server (I21): the order is to be
	// ended before the refusal is sent. Empty: there is none.
	inUse string
	// note is for the event about the refusal; empty: no event.
	note string
}

// judge decides whether the caller may act on the host's present order: a pure
// function of what is known.
func judge(host *infrav1.IngotHost, c caller, from whereabouts, expired bool) verdict {
	order := host.Spec.Order
	switch {
	case order == nil || order.ID != c.claims.OrderID || order.Attempt != c.claims.Attempt ||
		string(order.Kind) != string(c.claims.Purpose):
		return verdict{refusal: ended(host, c),
			note: "An agent came with the token of an order that has ended; it was refused and does nothing"}
	case ptr.Deref(order.Revoked, false):
		return verdict{refusal: &agentapi.Error{Reason: agentapi.ReasonKeyConflict, Message: "the order is revoked: two agents used its token"}}
	case lifecycle.OrderIsForeign(host):
		return verdict{refusal: orderGone("the order was given before the host was moved here; the work starts again from power-off")}
	case !stands(host, c.claims.InstanceID):
		return verdict{refusal: orderGone("the ledger no longer asks for this order")}
	case c.key == "":
		return verdict{refusal: invalidToken("a TLS client certificate is needed"),
			note: "A request with a valid token but without a client key was refused"}
	case !from.allows(c.source):
		return verdict{refusal: invalidToken("the token belongs to another host"),
			note: "A request with this host's token came from " + c.source.String() + ", which is not its address; it was refused"}
	case overheard(host, c):
		return verdict{refusal: invalidToken("the host boots by virtual media, and this token was not on its disc"),
			note: "A request came with a token that went over the network, and the host boots by virtual media; it was refused"}
	case order.AgentKey != c.key && c.claims.Way != token.ByDisc && from.evidenceOf(c) != sameHost:
		return unproven(c, from)
	case order.AgentKey != "" && order.AgentKey != c.key && cameBack(host):
		return verdict{rebooted: true, refusal: orderGone("the live system of this order was started already, and has rebooted")}
	case order.AgentKey != "" && order.AgentKey != c.key:
		return verdict{revoke: true,
			refusal: &agentapi.Error{Reason: agentapi.ReasonKeyConflict, Message: "another agent holds this order; both are revoked"}}
	case order.AgentKey == "" && expired:
		return verdict{refusal: invalidToken("the token has expired"), note: fmt.Sprintf(
			"An agent came with a token that had expired at %s; it was refused, and the boot is begun anew when its time is over. A token is good for %s, from the script to the agent's first request: is the network slow, or does a clock differ, of the boot server's node or the manager's?",
			c.claims.Expiry.UTC().Format(time.RFC3339), token.Lifetime)}
	case order.Result != nil:
		return verdict{refusal: orderGone("the order has ended")}
	}
	return verdict{}
}

// unproven refuses a key that no evidence ties to the host. Where DHCP has shown nothing, as
// when the boot server was restarted since, the agent tries again.
func unproven(c caller, from whereabouts) verdict {
	if from.evidenceOf(c) == otherHost {
		return verdict{refusal: invalidToken("the token belongs to another host"),
			note: "Refused a request with this host's token from " + c.source.String() + ": DHCP did not give that address to the host's boot NIC. Look for an unknown client on the boot network"}
	}
	return verdict{refusal: notReady("no DHCP exchange has shown whose address this is"),
		note: "Refused a request with this host's token from " + c.source.String() + ", which the boot server has not seen DHCP give to the host. If it repeats, let the relay send DHCP to the boot server as well"}
}

// overheard says whether others may have read a token that is only worth something if
// they have not: the cluster demands a verified boot, and the host's disc had another.
func overheard(host *infrav1.IngotHost, c caller) bool {
	claim := host.Spec.Claim
	return claim != nil && claim.BootTrust == infrav1.BootTrustVerified &&
		host.Spec.BootMethod == infrav1.BootMethodVirtualMedia && c.claims.Way != token.ByDisc
}

// ended refuses the token of an order that is not there any more. Where it is gone
// because its install was committed, the caller is a server that a boot server with
// an old cache booted once more: off it would stay off for ever, since a provisioned
// host is not switched (I2), so it is sent to its disk.
func ended(host *infrav1.IngotHost, c caller) *agentapi.Error {
	refusal := orderGone("the order has ended or was replaced")
	if c.claims.Purpose == token.Install && reported(host, c) {
		refusal.Action = agentapi.BootDisk
	}
	return refusal
}

// stands says whether the ledger still asks for the order that is written: between
// the release of a claim and the end of its install order, for example, it does
// not, and a report must never bring the claim back (I6).
func stands(host *infrav1.IngotHost, instanceID string) bool {
	claim := host.Spec.Claim
	switch host.Spec.Order.Kind {
	case infrav1.OrderInstall:
		return claim != nil && claim.State == infrav1.ClaimProvisioning && claim.InstanceID == instanceID
	case infrav1.OrderWipe:
		return claim == nil || (claim.State == infrav1.ClaimReleasing && claim.InstanceID == instanceID)
	default:
		return claim == nil
	}
}

// authorize judges, and carries out what the verdict asks for. On success the
// host is as it was read.
func (s *Server) authorize(ctx context.Context, host *infrav1.IngotHost, c caller) *agentapi.Error {
	from, err := s.whereabouts(ctx, s.Live, host)
	if err != nil {
		return notReady("the API server does not answer")
	}
	inUse, err := s.systemInUse(ctx, host, c)
	if err != nil {
		return notReady("the API server does not answer")
	}
	v := leaveInUse(judge(host, c, from, s.Clock.Now().After(c.claims.Expiry)), inUse)
	if v.note != "" {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRefused, action, "%s", v.note)
	}
	if v.revoke {
		if err := s.revoke(ctx, host, c); err != nil {
			s.Log.Error(err, "Could not revoke an order", "host", client.ObjectKeyFromObject(host).String())
			return notReady("the order could not be revoked yet")
		}
	}
	if v.rebooted {
		if err := s.endLive(ctx, host, c); err != nil {
			s.Log.Error(err, "Could not end the order of a live system", "host", client.ObjectKeyFromObject(host).String())
			return notReady("the order could not be ended yet")
		}
	}
	if v.inUse != "" {
		if err := s.endInUse(ctx, host, c, v.inUse); err != nil {
			s.Log.Error(err, "Could not end the order of a server that may be in use", "host", client.ObjectKeyFromObject(host).String())
			return notReady("the order could not be ended yet")
		}
	}
	return v.refusal
}

// revoke ends an order that two keys came for (I14).
func (s *Server) revoke(ctx context.Context, host *infrav1.IngotHost, c caller) error {
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) { order.Revoked = ptr.To(true) })
	if ended {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentKeyConflict, action,
			"Two agents used the token of order %s: both are revoked. Ingot powers the host off and tries again with a new token. If this repeats, look for a stranger on the provisioning network", c.claims.OrderID)
	}
	return err
}

// endOrder changes the caller's order as it stands now, if it does; ended: it is so now,
// or the order was gone. It insists: the second agent may never come again, and the first
// must not work on.
func (s *Server) endOrder(ctx context.Context, host *infrav1.IngotHost, c caller, end func(*infrav1.HostOrder)) (ended bool, _ error) {
	err := retry.RetryOnConflict(retry.DefaultBackoff, func() error {
		live := &infrav1.IngotHost{}
		if err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), live); err != nil {
			return err
		}
		if live.Spec.Order == nil || live.Spec.Order.ID != c.claims.OrderID {
			return nil
		}
		base := live.DeepCopy()
		end(live.Spec.Order)
		return s.save(ctx, live, base)
	})
	return err == nil, client.IgnoreNotFound(err)
}

// save writes what changed in the host's spec, on the version that was read.
func (s *Server) save(ctx context.Context, host, base *infrav1.IngotHost) error {
	if equality.Semantic.DeepEqual(host.Spec, base.Spec) {
		return nil
	}
	return s.Client.Patch(ctx, host, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// maxConflicts is how often one request starts over when the host changes under it.
const maxConflicts = 5

// transact reads the host live, lets authorized change it, and saves; it starts
// over when somebody else wrote meanwhile. change returns a refusal to end
// without writing; a host left as it was is not written.
func (s *Server) transact(ctx context.Context, c caller, check func(context.Context, *infrav1.IngotHost) *agentapi.Error,
	change func(*infrav1.IngotHost) *agentapi.Error) (*infrav1.IngotHost, *agentapi.Error) {
	for range maxConflicts {
		host, refusal := s.liveHost(ctx, c)
		if refusal != nil {
			return nil, refusal
		}
		if refusal := check(ctx, host); refusal != nil {
			return nil, refusal
		}
		base := host.DeepCopy()
		if refusal := change(host); refusal != nil {
			return nil, refusal
		}
		err := s.save(ctx, host, base)
		switch {
		case err == nil:
			return host, nil
		case apierrors.IsConflict(err):
			continue
		default:
			s.Log.Error(err, "Could not save the host of an agent", "host", client.ObjectKeyFromObject(host).String())
			return nil, notReady("the API server refused the write")
		}
	}
	return nil, notReady("the host changes too fast")
}

// mayAct is the check of a caller that works on the present order.
func (s *Server) mayAct(c caller) func(context.Context, *infrav1.IngotHost) *agentapi.Error {
	return func(ctx context.Context, host *infrav1.IngotHost) *agentapi.Error {
		return s.authorize(ctx, host, c)
	}
}

// holder reads the host of a caller that already holds the order by its key.
func (s *Server) holder(ctx context.Context, c caller, orderID string) (*infrav1.IngotHost, *agentapi.Error) {
	if orderID != "" && orderID != c.claims.OrderID {
		return nil, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "the request names another order than its token"}
	}
	host, refusal := s.liveHost(ctx, c)
	if refusal != nil {
		return nil, refusal
	}
	if refusal := s.mayAct(c)(ctx, host); refusal != nil {
		return nil, refusal
	}
	if host.Spec.Order.AgentKey == "" {
		return nil, &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: "no session is open: call " + agentapi.PathSession + " first"}
	}
	return host, nil
}
