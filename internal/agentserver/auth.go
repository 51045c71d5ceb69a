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

// eventAction is the action of this package's events.
const eventAction = "AgentSession"

// caller is the client of a request: the claims of its token, its key and its address.
type caller struct {
	claims token.Claims
	// key is the hash of the TLS client key; empty if the client sent no certificate.
	key    string
	source netip.Addr
	// hardware is the boot NIC that DHCP has shown at source (mode Proxy); nil if unknown.
	hardware net.HardwareAddr
	// markers are the markers that the agent found on disks; set only while a session is opened.
	markers []agentapi.Marker
}

// identify reads the token, key and source of a request. It reads no host, so that an unknown
// client costs no API call.
func (s *Server) identify(r *http.Request) (caller, *agentapi.Error) {
	text, ok := strings.CutPrefix(r.Header.Get(agentapi.TokenHeader), "Bearer ")
	if !ok {
		return caller{}, invalidToken("the request carries no token")
	}
	claims, err := s.Keys.Verify(text)
	if err != nil {
		s.Log.Info("Rejected a request with an invalid token", "remote", r.RemoteAddr)
		return caller{}, invalidToken("the token is not valid here")
	}
	c := caller{claims: claims, source: sourceOf(r)}
	if r.TLS != nil && len(r.TLS.PeerCertificates) > 0 {
		c.key = token.KeyHash(r.TLS.PeerCertificates[0])
	}
	if conn, ok := r.Context().Value(connKey{}).(net.Conn); ok && s.Hardware != nil {
		c.hardware = s.Hardware(conn, c.source)
	}
	return c, nil
}

// checkPurpose rejects a token that was issued for another kind of call. Whether the token's
// order is still current is decided later, on a live read: a working agent may use a token that
// has expired since.
func (s *Server) checkPurpose(c caller, path string) *agentapi.Error {
	booted := c.claims.Purpose == token.Booted
	expired := s.Clock.Now().After(c.claims.Expiry)
	switch {
	case c.claims.Purpose == token.Live, booted != (path == agentapi.PathBooted):
		s.Log.Info("Rejected a request with a token for another purpose", "remote", c.source.String(), "path", path,
			"namespace", c.claims.Namespace, "host", c.claims.Host, "purpose", string(c.claims.Purpose))
		return invalidToken("the token is not for this call")
	case c.isUnknownClient() && c.key == "":
		return invalidToken("a TLS client certificate is needed")
	case (booted || c.isUnknownClient()) && expired:
		return invalidToken("the token has expired")
	}
	return nil
}

// sourceOf returns the address of the client; the zero address if it is unknown.
func sourceOf(r *http.Request) netip.Addr {
	addr, _ := netip.ParseAddrPort(r.RemoteAddr)
	return addr.Addr().Unmap()
}

func invalidToken(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonTokenInvalid, Message: message}
}

func orderGone(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonOrderGone, Message: message}
}

func badRequest(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonBadRequest, Message: message}
}

// liveHost reads the host that the token names from the API server. It rejects a paused host.
func (s *Server) liveHost(ctx context.Context, c caller) (*infrav1.IngotHost, *agentapi.Error) {
	if c.isUnknownClient() {
		return nil, invalidToken("the token is for no host")
	}
	key := client.ObjectKey{Namespace: c.claims.Namespace, Name: c.claims.Host}
	host := &infrav1.IngotHost{}
	err := s.Live.Get(ctx, key, host)
	if apierrors.IsNotFound(err) {
		return nil, orderGone("the host does not exist any more")
	}
	if err != nil {
		return nil, s.unavailable(err, "read the host", key)
	}
	// The pause of a Cluster is read from the cache, as the controllers do. clusterctl move waits
	// for the annotation on the host, which was just read live (I10).
	paused, err := isPaused(ctx, s.Client, host)
	if err != nil {
		return nil, s.unavailable(err, "read the Cluster of the host", key)
	}
	if paused {
		return nil, &agentapi.Error{Reason: agentapi.ReasonPaused, Message: "the host is paused: change nothing on it",
			RetryAfter: agentapi.Duration(pausedInterval)}
	}
	return host, nil
}

// isPaused reports whether the host or its Cluster is paused, or clusterctl moves the host (I10).
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

// decision is the answer to a caller that wants to work on a host's order.
type decision struct {
	// refusal is nil if the caller may work.
	refusal *agentapi.Error
	// revoke: the order must be revoked before the refusal is sent (I14).
	revoke bool
	// rebooted: the order's live system has rebooted; the order must end before the refusal is sent.
	rebooted bool
	// inUse is the instance whose system may be in use on the server (I21), or empty. The order
	// must end before the refusal is sent.
	inUse string
	// note is the text of an event about the refusal; empty for no event.
	note string
}

// decide decides whether the caller may work on the host's present order. It reads nothing else.
func decide(host *infrav1.IngotHost, c caller, from allowedSources, expired bool) decision {
	order := host.Spec.Order
	switch {
	case order == nil || order.ID != c.claims.OrderID || order.Attempt != c.claims.Attempt ||
		string(order.Kind) != string(c.claims.Purpose):
		return decision{refusal: refuseEndedOrder(host, c),
			note: "Rejected an agent: the work that it was booted for has ended or was replaced. The agent changes nothing on the host."}
	case ptr.Deref(order.Revoked, false):
		return decision{refusal: keyConflict("the order is revoked: two agents used its token")}
	case lifecycle.OrderIsForeign(host):
		return decision{refusal: orderGone("the order was given before the host was moved here; the work starts again from power-off")}
	case !isOrderCurrent(host, c.claims.InstanceID):
		return decision{refusal: orderGone("the host no longer needs this order")}
	case c.key == "":
		return decision{refusal: invalidToken("a TLS client certificate is needed"),
			note: "Rejected a request with this host's token: it came without a TLS client certificate."}
	case !from.allows(c.source):
		return decision{refusal: invalidToken("the token belongs to another host"),
			note: "Rejected a request with this host's token from " + c.source.String() + ": that is not an address of the host."}
	case needsMediaToken(host, c):
		return decision{refusal: invalidToken("the host boots by virtual media, and this token is not from its media"),
			note: "Rejected a token that was sent over the network: the host boots by virtual media, and its cluster requires a verified boot."}
	case order.AgentKey != c.key && c.claims.Delivery != token.ByVirtualMedia && from.evidenceOf(c) != sameHost:
		return refuseUnprovenKey(c, from)
	case order.AgentKey != "" && order.AgentKey != c.key && isLiveStarted(host):
		return decision{rebooted: true, refusal: orderGone("the live system of this order was started already, and has rebooted")}
	case order.AgentKey != "" && order.AgentKey != c.key:
		return decision{revoke: true, refusal: keyConflict("another agent works on this order; both are revoked")}
	case order.AgentKey == "" && expired:
		return decision{refusal: invalidToken("the token has expired"), note: fmt.Sprintf(
			"Rejected an agent: its token expired at %s (valid for %s). Ingot boots the host again after the deadline. Check the network speed, and the clocks of boot server and manager.",
			c.claims.Expiry.UTC().Format(time.RFC3339), token.Lifetime)}
	case order.Result != nil:
		return decision{refusal: orderGone("the order has ended")}
	}
	return decision{}
}

func keyConflict(message string) *agentapi.Error {
	return &agentapi.Error{Reason: agentapi.ReasonKeyConflict, Message: message}
}

// refuseUnprovenKey refuses a key that nothing ties to the host. If no DHCP exchange was seen,
// for example because the boot server has restarted, the agent tries again.
func refuseUnprovenKey(c caller, from allowedSources) decision {
	if from.evidenceOf(c) == otherHost {
		return decision{refusal: invalidToken("the token belongs to another host"),
			note: "Rejected a request with this host's token from " + c.source.String() + ": DHCP did not give that address to the host's boot NIC. Look for an unknown client on the boot network."}
	}
	return decision{refusal: notReady("no DHCP exchange has shown whose address this is"),
		note: "Rejected a request with this host's token from " + c.source.String() + ": the boot server saw no DHCP exchange for that address. If this repeats, let the DHCP relay send to the boot server as well."}
}

// needsMediaToken reports whether the token may have been read by others: the cluster requires a
// verified boot, the host boots by virtual media, and this token is not the one of its media.
func needsMediaToken(host *infrav1.IngotHost, c caller) bool {
	claim := host.Spec.Claim
	return claim != nil && claim.BootTrust == infrav1.BootTrustVerified &&
		host.Spec.BootMethod == infrav1.BootMethodVirtualMedia && c.claims.Delivery != token.ByVirtualMedia
}

// refuseEndedOrder refuses the token of an order that is gone. If the order's install was
// committed, a boot server with an old cache has booted the provisioned server again. Ingot does
// not switch a provisioned host (I2), so that the agent must boot the disk instead of powering off.
func refuseEndedOrder(host *infrav1.IngotHost, c caller) *agentapi.Error {
	refusal := orderGone("the order has ended or was replaced")
	if c.claims.Purpose == token.Install && isReported(host, c) {
		refusal.Action = agentapi.BootDisk
	}
	return refusal
}

// isOrderCurrent reports whether the host still needs its order. It does not between the release
// of a claim and the end of its install order, for example: a report must never bring the claim
// back (I6).
func isOrderCurrent(host *infrav1.IngotHost, instanceID string) bool {
	claim := host.Spec.Claim
	switch host.Spec.Order.Kind {
	case infrav1.OrderInstall:
		return claim != nil && claim.State == infrav1.ClaimProvisioning && claim.InstanceID == instanceID
	case infrav1.OrderClean:
		return claim == nil || (claim.State == infrav1.ClaimReleasing && claim.InstanceID == instanceID)
	default:
		return claim == nil
	}
}

// authorize decides, and carries out the decision. If it returns nil, the host is unchanged.
func (s *Server) authorize(ctx context.Context, host *infrav1.IngotHost, c caller) *agentapi.Error {
	from, err := s.allowedSources(ctx, s.Live, host)
	if err != nil {
		return s.unavailable(err, "read the addresses of the host", client.ObjectKeyFromObject(host))
	}
	inUse, err := s.systemInUse(ctx, host, c)
	if err != nil {
		return s.unavailable(err, "read since when the state of hosts can be trusted", client.ObjectKeyFromObject(host))
	}
	d := protectSystemInUse(decide(host, c, from, s.Clock.Now().After(c.claims.Expiry)), inUse)
	if d.note != "" {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentRequestRejected, eventAction, "%s", d.note)
	}
	switch {
	case d.revoke:
		err = s.revoke(ctx, host, c)
	case d.rebooted:
		err = s.endLive(ctx, host, c)
	case d.inUse != "":
		err = s.endInUse(ctx, host, c, d.inUse)
	}
	if err != nil {
		return s.unavailable(err, "end the order", client.ObjectKeyFromObject(host))
	}
	return d.refusal
}

// revoke ends an order that two keys came for (I14).
func (s *Server) revoke(ctx context.Context, host *infrav1.IngotHost, c caller) error {
	ended, err := s.endOrder(ctx, host, c, func(order *infrav1.HostOrder) { order.Revoked = ptr.To(true) })
	if ended {
		s.Log.Info("Revoked an order that two agents used", "host", client.ObjectKeyFromObject(host).String(), "order", c.claims.OrderID)
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonAgentKeyConflict, eventAction,
			"Two agents used the same token, and Ingot revoked both. Ingot powers the host off and retries with a new token. If this repeats, look for an unknown client on the provisioning network.")
	}
	return err
}

// endOrder applies end to the caller's order as the API server has it, and reports whether the
// order has ended so or was gone. It retries conflicts: the second agent may never return, and
// the first must not continue.
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

// save writes the changes of the host's spec, on the version that was read.
func (s *Server) save(ctx context.Context, host, base *infrav1.IngotHost) error {
	if equality.Semantic.DeepEqual(host.Spec, base.Spec) {
		return nil
	}
	return s.Client.Patch(ctx, host, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}

// maxConflicts is the number of tries of one request while others change the host.
const maxConflicts = 5

// transact reads the host live, checks it, changes it and saves it. It starts over after a
// conflict. A refusal by check or change ends it without a write.
func (s *Server) transact(ctx context.Context, c caller, check func(context.Context, *infrav1.IngotHost, caller) *agentapi.Error,
	change func(*infrav1.IngotHost) *agentapi.Error) (*infrav1.IngotHost, *agentapi.Error) {
	for range maxConflicts {
		host, refusal := s.liveHost(ctx, c)
		if refusal != nil {
			return nil, refusal
		}
		if refusal := check(ctx, host, c); refusal != nil {
			return nil, refusal
		}
		base := host.DeepCopy()
		if refusal := change(host); refusal != nil {
			return nil, refusal
		}
		err := s.save(ctx, host, base)
		if err == nil {
			return host, nil
		}
		if !apierrors.IsConflict(err) {
			return nil, s.unavailable(err, "save the host", client.ObjectKeyFromObject(host))
		}
	}
	return nil, notReady("the host changes too fast")
}

// sessionHost reads the host of a caller that has opened a session, and authorizes the caller.
// orderID is the order that the request names; empty if it names none.
func (s *Server) sessionHost(ctx context.Context, c caller, orderID string) (*infrav1.IngotHost, *agentapi.Error) {
	if orderID != "" && orderID != c.claims.OrderID {
		return nil, badRequest("the request names another order than its token")
	}
	host, refusal := s.liveHost(ctx, c)
	if refusal == nil {
		refusal = s.authorize(ctx, host, c)
	}
	if refusal == nil && host.Spec.Order.AgentKey == "" {
		refusal = noSession()
	}
	return host, refusal
}

func noSession() *agentapi.Error {
	return badRequest("no session is open: call " + agentapi.PathSession + " first")
}
