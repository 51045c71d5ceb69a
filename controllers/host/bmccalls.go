// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"regexp"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

func (r *Reconciler) do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error {
	ctx, cancel := context.WithTimeout(ctx, r.timing().BMCCalls)
	defer cancel()
	return r.BMC.Do(ctx, target, guarded(ctx, target, false, calls))
}

// readBMC reads power state, health and, at first contact, NICs and identity. It returns the
// updated state.
func (r *Reconciler) readBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation, known bmcState) bmcState {
	firstContact := known.address != seen.target.Address || !known.listed
	err := r.do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		vitals, err := conn.PollState(ctx)
		if err != nil {
			return err
		}
		seen.Power = infrav1.PowerState(vitals.Power)
		known.health = r.readHealth(ctx, conn, known.healthOf(host), lifecycle.Health(vitals.Health))
		if !firstContact {
			if known, err = known.withIdentityChecked(ctx, conn); err != nil {
				return err
			}
		}
		if known.listed && !firstContact {
			known = known.withMissingNICSought(ctx, conn, host.Spec.BootMACAddress, seen.Now)
			return nil
		}
		facts, err := conn.Inventory(ctx)
		if errors.Is(err, bmc.ErrNotSupported) {
			facts, err = bmc.Inventory{}, nil
		}
		known.address, known.listed, known.macs = seen.target.Address, err == nil, facts.MACs
		known.sought, known.soughtAt = host.Spec.BootMACAddress, seen.Now
		known.identity, known.session, known.unsure = identityOf(facts.Identity), sessionOf(conn), err != nil
		return err
	})
	seen.Now = r.Clock.Now()
	if err != nil {
		return r.failed(host, known, err, seen.Now)
	}
	lags := seen.Now.Before(seen.LastReset.Add(r.Policy.ResetInterval)) // Ingot sends no power action in this time
	acks, err := known.acks.seen(seen.Power, known.offProof.Missing(host), lags)
	known.acks = acks
	if err != nil {
		known = r.failed(host, known, err, seen.Now)
		known.acks = known.acks.failedAs(known)
		return known
	}
	return known.answered()
}

// failed records the failure of calls to a BMC. If the pool's circuit breaker was open and
// nothing was sent, the failure is not counted, and the cause is that of the last call.
func (r *Reconciler) failed(host *infrav1.IngotHost, known bmcState, err error, now time.Time) bmcState {
	if errors.Is(err, bmc.ErrUnreachable) || errors.Is(err, bmc.ErrTimeout) || errors.Is(err, bmc.ErrCertificate) {
		known.unsure = true // the next answer may come from another server's BMC
	}
	if errors.Is(err, bmc.ErrUnfinished) { // the BMC answers, and the next try gets further
		known.delay, known.failures = 0, 0
	}
	retryAfter := min(bmc.RetryAfter(err), r.timing().BMCBackoffMax)
	var rests *bmc.PausedError
	if errors.As(err, &rests) {
		if known.problem == lifecycle.BMCOK { // another host of this BMC failed first
			known = known.failed(problemOf(err), rests.Err.Error(), now, r.timing())
			known.failures = rests.Failures
		}
	} else {
		known = known.failed(problemOf(err), err.Error(), now, r.timing())
	}
	if known.since.IsZero() {
		known.since = now
		if shown := lifecycle.FailingSince(host); !shown.IsZero() {
			known.since = shown
		}
	}
	if due := now.Add(retryAfter); known.retryAt.Before(due) {
		known.retryAt = due
	}
	return known
}

func (o *observation) setBMC(host *infrav1.IngotHost, known bmcState) {
	o.known = known
	o.BMC, o.BMCMessage, o.RetryAt = known.problem, known.message, known.retryAt
	o.FailingSince = known.since
	o.BootAcceptedAt = known.boots.of(host.Spec.Order)
	o.Health, o.HealthDetail = known.health.state, known.health.detail
	if known.problem != lifecycle.BMCOK {
		o.Power = infrav1.PowerStateUnknown
		return
	}
	o.KnownMACs = known.macs
	o.BootMACMissing = known.lacksNIC(host.Spec.BootMACAddress)
	if o.hardware != nil {
		system := o.hardware.Spec.System
		inspected := inventory.SystemIdentity{UUID: system.UUID, SerialNumber: system.SerialNumber}
		o.WrongServer = inventory.WrongServer(host, inspected, known.identity, o.BootMACMissing)
	}
}

// problemOf classifies an error of the BMC: each class has its own condition and remedy.
func problemOf(err error) lifecycle.BMCProblem {
	var ignored ignoredError
	if errors.As(err, &ignored) {
		return lifecycle.BMCIgnoresPower
	}
	var certificate *bmc.CertificateError
	if errors.As(err, &certificate) && certificate.Problem == bmc.CertificateNotPinned {
		return lifecycle.BMCCertificateChanged
	}
	for _, class := range []struct {
		is      error
		problem lifecycle.BMCProblem
	}{
		{bmc.ErrSourceNotAllowed, lifecycle.BMCAddressNotAllowed},
		{bmc.ErrUnauthorized, lifecycle.BMCUnauthorized},
		{bmc.ErrPasswordChange, lifecycle.BMCPasswordChange},
		{bmc.ErrCertificate, lifecycle.BMCCertificateInvalid},
		{bmc.ErrUnreachable, lifecycle.BMCUnreachable},
		{bmc.ErrTimeout, lifecycle.BMCTimeout},
		{bmc.ErrUnknownOutcome, lifecycle.BMCTimeout},
		{context.DeadlineExceeded, lifecycle.BMCTimeout},
		{bmc.ErrUnfinished, lifecycle.BMCSlow},
		{bmc.ErrRateLimited, lifecycle.BMCRateLimited},
		{bmc.ErrBusy, lifecycle.BMCBusy},
		{bmc.ErrNotSupported, lifecycle.BMCUnsupported},
		{bmc.ErrAddress, lifecycle.BMCUnsupported},
		{bmccredentials.ErrNamespaceTerminating, lifecycle.BMCNamespaceTerminating},
	} {
		if errors.Is(err, class.is) {
			return class.problem
		}
	}
	return lifecycle.BMCError
}

// pin trusts the certificate that the BMC presents at its first use. refused is an error of
// the BMC.
func (r *Reconciler) pin(ctx context.Context, host *infrav1.IngotHost, seen *observation) (refused, _ error) {
	if err := r.mustNotBePaused(ctx, host); err != nil {
		return nil, err
	}
	facts, refused, err := r.finder().Pin(ctx, host, seen.hardware)
	if refused == nil && err == nil {
		seen.hardware, seen.target.Fingerprint = facts, facts.Spec.BMC.CertificateFingerprint
	}
	return refused, err
}

func (r *Reconciler) finder() *bmccredentials.Finder {
	return &bmccredentials.Finder{Client: r.Client, Live: r.Live, Fingerprint: r.Fingerprint, Note: r.recordNormal, Turn: r.timing().BMCCalls}
}

// forgive lets the pool retry a BMC at once with a password that the BMC rejected before: the
// operator may have fixed the cause at the BMC.
func (r *Reconciler) forgive(target bmc.Target) {
	if pool, can := r.BMC.(interface{ Forgive(bmc.Target) }); can {
		pool.Forgive(target)
	}
}

// poolClosed reports whether the BMC sessions were closed. This happens before the context of
// controllers ends, so a failed call is not the host's failure.
func (r *Reconciler) poolClosed() bool {
	pool, can := r.BMC.(interface{ Closed() bool })
	return can && pool.Closed()
}

// takenError rejects a connection to the BMC of another host. Nothing was sent.
type takenError struct{ by string }

func (e *takenError) Error() string {
	return "spec.bmc.address points to the BMC of " + e.by + "; correct the address or its DNS record"
}

// Is makes errors.Is(err, bmc.ErrAddress) true.
func (*takenError) Is(target error) bool { return target == bmc.ErrAddress }

// connecting returns a callback for new connections. It records the resolved BMC address and
// rejects the connection if another host has that BMC.
func (r *Reconciler) connecting(ctx context.Context, host *infrav1.IngotHost) func(string, netip.AddrPort) error {
	written, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil {
		return nil // the dialer reports the error
	}
	// A pooled session may reconnect while a later reconcile changes the host.
	host = &infrav1.IngotHost{ObjectMeta: *host.ObjectMeta.DeepCopy(), Spec: host.Spec}
	return func(_ string, to netip.AddrPort) error {
		resolved := written
		resolved.Host = to.Addr().String()
		if resolved.Host != written.Host {
			r.memory.keepResolved(host, resolved)
		}
		others, err := r.sameBMCByName(ctx, host)
		if err != nil {
			return fmt.Errorf("%w: %w", bmc.ErrBusy, err)
		}
		var taken []types.NamespacedName
		for _, other := range others {
			if other.DeletionTimestamp.IsZero() && precedes(other, host) {
				taken = append(taken, keyOf(other))
			}
		}
		if len(taken) > 0 {
			return &takenError{by: inventory.ListHosts(host.Namespace, taken)}
		}
		return nil
	}
}

// errOtherServer means that a new session found another server. Nothing was sent. It wraps
// ErrBusy because the reaction is the same: read the BMC again soon.
var errOtherServer = fmt.Errorf("%w: the BMC reports another server than before; Ingot reads it again first", bmc.ErrBusy)

func sessionOf(conn bmc.Conn) uint64 {
	if sessioned, can := conn.(bmc.SessionGuard); can {
		return sessioned.Session()
	}
	return 0
}

func identityOf(id bmc.Identity) inventory.SystemIdentity {
	return inventory.SystemIdentity{UUID: id.UUID, SerialNumber: id.Serial}
}

// isServer reports whether the BMC still reports the same identity. It returns true for a BMC
// that cannot report any, and for one that requires a new password first: that BMC accepts
// no other call either.
func isServer(ctx context.Context, conn bmc.Conn, before inventory.SystemIdentity) (bool, error) {
	now, err := conn.Identity(ctx)
	if errors.Is(err, bmc.ErrNotSupported) || errors.Is(err, bmc.ErrPasswordChange) {
		return true, nil
	}
	return identityOf(now) == before, err
}

// withIdentityChecked reads the server's identity in a new session and after the BMC was
// unreachable. It requests a new list of NICs only for another server: a slow BMC may answer
// each request in time, but not that many. A BMC without an identity is known by its NICs.
func (s bmcState) withIdentityChecked(ctx context.Context, conn bmc.Conn) (bmcState, error) {
	session := sessionOf(conn)
	if !s.unsure && session == s.session {
		return s, nil
	}
	same, err := isServer(ctx, conn, s.identity)
	if err != nil {
		return s, err
	}
	if s.unsure && s.identity == (inventory.SystemIdentity{}) {
		same = false
	}
	s.session, s.listed, s.unsure = session, same, false
	return s, nil
}

// relistAfter is the interval at which Ingot lists the NICs again while the boot MAC address
// is not among them.
const relistAfter = 10 * time.Minute

// withMissingNICSought lists the NICs again if the boot MAC address is not among them: many
// BMCs list a new card only after the server was on with it. If the list fails or is empty,
// the old one stays: an incomplete answer does not prove that this is the right server. The
// list of another server requires a full read of that server first (I8).
func (s bmcState) withMissingNICSought(ctx context.Context, conn bmc.Conn, mac string, now time.Time) bmcState {
	if !s.lacksNIC(mac) || mac == s.sought && now.Before(s.soughtAt.Add(relistAfter)) {
		return s
	}
	s.sought, s.soughtAt = mac, now
	facts, err := conn.Inventory(ctx)
	switch {
	case errors.Is(err, bmc.ErrUnfinished):
		s.soughtAt = time.Time{} // the next poll continues
	case err != nil || len(facts.MACs) == 0:
	case identityOf(facts.Identity) != s.identity:
		s.listed = false
	default:
		s.macs = facts.MACs
	}
	return s
}

// identityGuard checks the server's identity before the first call in a new session. A BMC
// may be replaced by another server's between two polls without any call failing, but the
// other BMC does not accept the old session.
type identityGuard struct {
	target  bmc.Target
	session uint64
	check   func(ctx context.Context, conn bmc.Conn) error
	// onOther is called if the identity differs. Background calls do not call it, since the
	// reconcile's view is not theirs to change.
	onOther func()
}

type identityGuardKey struct{}

// withIdentityGuard guards the calls that execute a decision, including background calls that
// inherit the values of the context.
func (r *Reconciler) withIdentityGuard(ctx context.Context, host *infrav1.IngotHost, seen *observation) context.Context {
	if host.Spec.BMC == nil {
		return ctx
	}
	key, before := keyOf(host), seen.known.identity
	return context.WithValue(ctx, identityGuardKey{}, identityGuard{
		target: seen.target, session: seen.known.session,
		check: func(ctx context.Context, conn bmc.Conn) error {
			same, err := isServer(ctx, conn, before)
			if err == nil && !same {
				r.memory.changeBMC(key, func(s *bmcState) { s.listed = false })
				err = errOtherServer
			}
			return err
		},
		onOther: func() { seen.known.listed = false },
	})
}

// guarded adds the guard of the context to calls, if it is for this target. background is set
// for calls that run in parallel to the reconcile.
func guarded(ctx context.Context, target bmc.Target, background bool, calls func(context.Context, bmc.Conn) error) func(context.Context, bmc.Conn) error {
	guard, ok := ctx.Value(identityGuardKey{}).(identityGuard)
	if !ok || guard.target.Address != target.Address {
		return calls
	}
	if background {
		guard.onOther = func() {}
	}
	return func(ctx context.Context, conn bmc.Conn) error {
		if sessioned, can := conn.(bmc.SessionGuard); can && guard.session != 0 {
			sessioned.Guard(guard.session, func(ctx context.Context) error {
				err := guard.check(ctx, conn)
				if errors.Is(err, errOtherServer) {
					guard.onOther()
				}
				return err
			})
		}
		return calls(ctx, conn)
	}
}

// accessKey is a digest of the settings that decide whether Ingot can reach a BMC: spec.bmc,
// the version of the credentials and CA, and the retry annotation. Claim, record and order
// are not part of it: a new claim does not repair a BMC.
func accessKey(host *infrav1.IngotHost, version string) string {
	text, err := json.Marshal(host.Spec.BMC)
	if err != nil { // never for an object from the API server
		text = []byte(err.Error())
	}
	retry := host.Annotations[infrav1.RetryBMCAnnotation]
	if _, err := inventory.ParseCommand(infrav1.RetryBMCAnnotation, retry); err != nil {
		retry = "" // I24
	}
	sum := sha256.Sum256(append(text, version+"\x00"+retry...))
	return hex.EncodeToString(sum[:])
}

// retryHint matches the requested wait in the text of a bmc error.
var retryHint = regexp.MustCompile(`: retry after [0-9.hmsµn]+`)

// stable removes the local port of a connection ("10.0.0.1:40312->10.0.0.9:443") and the
// requested wait from an error's text. The same failure then costs no status write.
func stable(text string) string {
	text = retryHint.ReplaceAllString(text, "")
	words := strings.Split(text, " ")
	for i, word := range words {
		if _, to, ok := strings.Cut(word, "->"); ok {
			words[i] = to
		}
	}
	return strings.Join(words, " ")
}

// ignoredError is the error of a BMC that answers but does not carry out power actions. A
// remediation treats such a BMC differently from one that does not answer.
type ignoredError struct{ error }

func (e ignoredError) Unwrap() error { return e.error }

// noAnswerError is the error of a BMC that answers reads but not power actions: the outcome of
// the actions is unknown.
type noAnswerError string

func (e noAnswerError) Error() string { return string(e) }
func (noAnswerError) Unwrap() error   { return bmc.ErrUnknownOutcome }

// powerError returns the error of a power action that the BMC rejected as an ignoredError. A
// boot of the agent is excluded: it needs more than a power action.
func powerError(step lifecycle.Step, err error) error {
	var rests *bmc.PausedError
	_, boots := step.(lifecycle.BootAgent)
	if boots || problemOf(err) != lifecycle.BMCError || errors.As(err, &rests) {
		return err
	}
	return ignoredError{err}
}
