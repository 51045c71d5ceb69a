// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/clock"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/bmccredentials"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// +kubebuilder:rbac:groups="",resources=secrets,verbs=get;patch

// ErrStale means that an object has changed since it was read: the next reconcile continues.
var ErrStale = errors.New("the Secret has changed since it was read")

// Memory is what is remembered of a rotation between reconciles. If it is lost, logins find it out
// again. The zero value is ready.
type Memory struct {
	Rotation
	// digest identifies the password that the answers are about.
	digest string
	// failure is the BMC's answer to the last sending, without passwords.
	failure string
}

// BMC calls the host's BMC.
type BMC interface {
	// Do runs calls with a target. It fails with bmc.ErrBusy, before it sends anything, if the
	// target is another server than the one that was read.
	Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error
	// Read reads the BMC by View.Target and updates View.Seen. It reports false after a failure,
	// which it has recorded.
	Read(ctx context.Context) bool
	// Failed records the error of the last call. tell turns the error's own text into a text for
	// people.
	Failed(err error, tell func(own string) string)
}

// View is a host in one reconcile. All fields are required.
type View struct {
	Host *infrav1.IngotHost
	// Secret holds the credentials; it is not changed.
	Secret *corev1.Secret
	// Target is the BMC. Its password is set to the valid one.
	Target *bmc.Target
	Seen   *lifecycle.Observation
	Memory *Memory
}

// Rotator changes passwords. All fields are required.
type Rotator struct {
	Client client.Client
	Clock  clock.Clock
	BMC    BMC
	// Turn bounds the calls to the BMC in one reconcile.
	Turn time.Duration
	// Current returns an error if the host has changed since the decision, or is paused.
	Current func(ctx context.Context, host *infrav1.IngotHost) error
	// Save writes the host with optimistic locking on before.
	Save func(ctx context.Context, next, before *infrav1.IngotHost) error
	// Note records a normal event, Warn a warning.
	Note, Warn func(host *infrav1.IngotHost, reason, message string)
}

// Outcome is the result of Rotate.
type Outcome struct {
	// Settled: View.Target has the valid password, and the BMC works.
	Settled bool
	// Condition is the condition to show; nil for none.
	Condition *metav1.Condition
}

// run is one call of Rotate.
type run struct {
	*Rotator
	host   *infrav1.IngotHost
	view   View
	secret *corev1.Secret
	memory Memory
	// calls is the context of calls to the BMC.
	calls context.Context
	// unsettled: a failure was recorded.
	unsettled bool
	shown     *metav1.Condition
}

// IsAsked reports whether an operator wants a new password for the host's BMC. begun means that a
// rotation runs: it continues after the command has expired (I24).
func IsAsked(host *infrav1.IngotHost, seen *lifecycle.Observation, begun bool) bool {
	c, pending := inventory.PendingCommand(host, infrav1.RotateCredentialsAnnotation)
	return pending && host.DeletionTimestamp.IsZero() && (begun || c.RefusedBecause(seen.Now, seen.ListeningSince) == "")
}

// IsPending reports whether the BMC may have another password than the Secret's own. A next password
// counts only if it was stored for this BMC: by the name of a host whose BMC address was changed, or
// by the address of a host that was registered again. Others are an operator's proposal.
func IsPending(host *infrav1.IngotHost, secret *corev1.Secret) bool {
	if len(secret.Data[infrav1.SecretKeyNextPassword]) == 0 || host.Spec.BMC == nil {
		return false
	}
	name, address, _ := strings.Cut(secret.Annotations[infrav1.RotatingAnnotation], " ")
	return name != "" && (name == host.Name || address == host.Spec.BMC.Address)
}

// Rotate changes the BMC's password as far as it can without waiting, and sends at most one wrong
// password. Call it only if the host is not paused (I10), no backoff runs and, if no rotation is
// pending, the BMC was just read. It does not touch the server. It returns ErrStale, or an error of
// the API server, Current or Save; View stays valid even then.
func (r *Rotator) Rotate(ctx context.Context, v View) (Outcome, error) {
	calls, cancel := context.WithTimeout(ctx, r.Turn)
	defer cancel()
	run := &run{Rotator: r, host: v.Host, view: v, secret: v.Secret.DeepCopy(), calls: calls, memory: *v.Memory}
	err := run.begin(ctx)
	for more := true; more && err == nil; {
		step := NextRotation(run.memory.Rotation)
		ctrl.LoggerFrom(ctx).Info("Rotating the password of the BMC", "step", step)
		more, err = run.execute(ctx, step)
	}
	*v.Memory = run.memory
	return Outcome{Settled: err == nil && !run.unsettled, Condition: run.shown}, err
}

// begin reads the state that the API server stores.
func (r *run) begin(ctx context.Context) (err error) {
	if digest := r.digest(); r.memory.digest != digest {
		r.memory = Memory{digest: digest}
	}
	r.memory.Pending = IsPending(r.host, r.secret)
	r.memory.Asked = IsAsked(r.host, r.view.Seen, r.memory.Pending)
	if !r.memory.Pending {
		r.memory.Obstacle, err = r.checkPreconditions(ctx, r.view)
	}
	return err
}

// digest identifies the new password in memory.
func (r *run) digest() string {
	sum := sha256.Sum256(r.secret.Data[infrav1.SecretKeyNextPassword])
	return hex.EncodeToString(sum[:])
}

// execute executes one step, and reports whether the next one may follow at once.
func (r *run) execute(ctx context.Context, step RotationStep) (more bool, _ error) {
	switch step {
	case RotationRefuse:
		return false, r.end(ctx, infrav1.ReasonRotationRejected, "Ingot did not change the BMC password: "+r.memory.Obstacle+".")
	case RotationPrepare:
		return true, r.prepare(ctx)
	case RotationTryOld:
		return r.try(infrav1.SecretKeyPassword, &r.memory.Old)
	case RotationTryNew:
		return r.try(infrav1.SecretKeyNextPassword, &r.memory.New)
	case RotationSend:
		return r.send(ctx)
	case RotationStore:
		return false, r.store(ctx)
	case RotationGiveUp:
		return false, r.giveUp(ctx)
	case RotationStuck:
		r.stuck()
	}
	return false, nil
}

// prepare stores the new password.
func (r *run) prepare(ctx context.Context) error {
	if err := r.Current(ctx, r.host); err != nil {
		return err
	}
	password := bmc.Password(r.secret.Data[infrav1.SecretKeyNextPassword]) // an operator's proposal
	if password == "" {
		var err error
		if password, err = newPassword(rand.Reader, passwordLength(r.host.Spec.BMC.Address)); err != nil {
			return err
		}
	}
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyNextPassword] = []byte(password.Reveal())
		secret.Annotations[infrav1.RotatingAnnotation] = r.host.Name + " " + r.host.Spec.BMC.Address
	})
	if err != nil {
		return err
	}
	r.Note(r.host, infrav1.ReasonCredentialsRotating, fmt.Sprintf("Secret %s holds a new BMC password under key %s. Ingot now sends it to the BMC.",
		r.secret.Name, infrav1.SecretKeyNextPassword))
	r.progress("Ingot sends the new password to the BMC.")
	// The BMC has just accepted the old password, and was sent no other.
	r.memory = Memory{digest: r.digest(), Rotation: Rotation{Asked: true, Pending: true, Old: Accepted}}
	return nil
}

// try logs in with the password under a key. It closes an existing session first, which would prove
// nothing.
func (r *run) try(key string, answer *Answer) (more bool, _ error) {
	target := *r.view.Target
	target.Password = bmc.Password(r.secret.Data[key])
	err := r.BMC.Do(r.calls, target, func(ctx context.Context, conn bmc.Conn) error {
		_ = conn.Close(ctx) // only the new session counts
		_, err := conn.PowerState(ctx)
		return err
	})
	var rests *bmc.PausedError
	switch {
	case err == nil, errors.Is(err, bmc.ErrPasswordChange): // the login was accepted
		*answer, *r.view.Target = Accepted, target
		return true, nil
	case errors.Is(err, bmc.ErrUnauthorized) && !errors.As(err, &rests):
		*answer = Refused
		if NextRotation(r.memory.Rotation) == RotationStuck {
			return true, nil
		}
		r.failed(err, fmt.Sprintf("During a password rotation the BMC refused %s of Secret %s. Ingot tries the other password next.", key, r.secret.Name))
		r.progress("Ingot checks which of the two passwords in the Secret the BMC accepts.")
		return false, nil
	}
	r.failed(err, "")
	r.progress("Ingot checks which of the two passwords in the Secret the BMC accepts, as soon as the BMC answers.")
	return false, nil
}

// send sends the new password to the BMC. A login must confirm its answer.
func (r *run) send(ctx context.Context) (more bool, _ error) {
	if err := r.Current(ctx, r.host); err != nil {
		return false, err
	}
	r.view.Target.Password = bmc.Password(r.secret.Data[infrav1.SecretKeyPassword])
	if !r.isRightServer() {
		return false, nil
	}
	err := r.BMC.Do(r.calls, *r.view.Target, func(ctx context.Context, conn bmc.Conn) error {
		return conn.SetPassword(ctx, bmc.Password(r.secret.Data[infrav1.SecretKeyNextPassword]))
	})
	if errors.Is(err, bmc.ErrBusy) { // nothing was sent
		r.failed(err, "")
		return false, nil
	}
	r.memory.Sent, r.memory.failure = sendingOf(err), ""
	if err != nil {
		r.memory.failure = r.clean(err.Error())
	}
	r.memory.Times++
	r.memory.Old, r.memory.New = Unasked, Unasked
	return true, nil
}

// isRightServer reads the BMC and checks that it is this host's: the rotation may have begun at another
// address, or in an earlier process.
func (r *run) isRightServer() bool {
	if !r.BMC.Read(r.calls) {
		r.unsettled = true
		return false
	}
	reason := wrongServer(r.host, r.view.Seen)
	if reason != "" {
		r.progress("Ingot does not send the new password: " + reason + ". Ingot continues afterwards.")
	}
	return reason == ""
}

// sendingOf returns Declined only for a clear refusal.
func sendingOf(err error) Sending {
	if err == nil {
		return Taken
	}
	for _, no := range []error{bmc.ErrNotSupported, bmc.ErrUnauthorized, bmc.ErrNotApplied} {
		if errors.Is(err, no) && !errors.Is(err, bmc.ErrUnknownOutcome) {
			return Declined
		}
	}
	return Unanswered
}

// store replaces the old password by the new one, which a login has confirmed.
func (r *run) store(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		removeNext(secret)
		delete(secret.Data, infrav1.SecretKeyUnprovenPassword)
	})
	if err != nil {
		return err
	}
	r.memory = Memory{}
	return r.end(ctx, infrav1.ReasonCredentialsRotated, fmt.Sprintf(
		"The BMC has a new password since %s, confirmed by a login. Only Secret %s holds it; the Secret stays when the host is deleted.",
		r.secret.Annotations[infrav1.RotatedAtAnnotation], r.secret.Name))
}

// removeNext removes the next password and its annotation.
func removeNext(secret *corev1.Secret) {
	delete(secret.Data, infrav1.SecretKeyNextPassword)
	delete(secret.Annotations, infrav1.RotatingAnnotation)
}

// giveUp keeps the old password, which a login has confirmed.
func (r *run) giveUp(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyUnprovenPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		removeNext(secret)
	})
	if err != nil {
		return err
	}
	cause := r.memory.failure
	switch {
	case !r.memory.Asked:
		cause = "the annotation was removed"
	case cause == "":
		cause = "it reported success, but a login with the new password failed"
	}
	r.memory = Memory{}
	return r.end(ctx, infrav1.ReasonRotationFailed, fmt.Sprintf(
		"The BMC keeps its old password, confirmed by a login: %s. Secret %s keeps the new one under %s, in case the BMC still applies it.",
		cause, r.secret.Name, infrav1.SecretKeyUnprovenPassword))
}

// stuck reports that the BMC refuses both passwords. Both are tried again after a backoff.
func (r *run) stuck() {
	r.memory.Old, r.memory.New = Unasked, Unasked
	message := fmt.Sprintf("The BMC refuses both passwords (%s, %s) of Secret %s; the account may be locked. Ingot retries one at a time. "+
		"If you know the BMC's password, store it under %s.", infrav1.SecretKeyPassword, infrav1.SecretKeyNextPassword, r.secret.Name, infrav1.SecretKeyPassword)
	r.failed(bmc.ErrUnauthorized, message)
	r.condition(metav1.ConditionFalse, infrav1.ReasonRotationStuck, message)
}

// end records that the command was carried out, and reports the result.
func (r *run) end(ctx context.Context, reason, message string) error {
	if _, pending := inventory.PendingCommand(r.host, infrav1.RotateCredentialsAnnotation); pending {
		base := r.host.DeepCopy()
		inventory.TakeCommand(r.host, infrav1.RotateCredentialsAnnotation)
		if err := r.Save(ctx, r.host, base); err != nil {
			return err
		}
	}
	if reason == infrav1.ReasonCredentialsRotated {
		r.condition(metav1.ConditionTrue, reason, message)
		r.Note(r.host, reason, message)
		return nil
	}
	r.condition(metav1.ConditionFalse, reason, message)
	r.Warn(r.host, reason, message)
	return nil
}

func (r *run) progress(message string) {
	r.condition(metav1.ConditionFalse, infrav1.ReasonCredentialsRotating, message)
}

func (r *run) condition(status metav1.ConditionStatus, reason, message string) {
	r.shown = &metav1.Condition{Type: infrav1.HostCredentialsRotatedCondition, Status: status, Reason: reason,
		Message: message, ObservedGeneration: r.host.Generation}
}

// failed records the error of the last call with a message, or with the error's own text if it is "".
func (r *run) failed(err error, message string) {
	r.unsettled = true
	r.BMC.Failed(err, func(own string) string { return r.clean(cmp.Or(message, own)) })
}

// clean removes the passwords from the text of a BMC or library. Drivers do so as well.
func (r *run) clean(text string) string {
	for _, key := range []string{infrav1.SecretKeyNextPassword, infrav1.SecretKeyPassword} {
		if password := string(r.secret.Data[key]); password != "" {
			text = strings.ReplaceAll(text, password, "***")
		}
	}
	return text
}

// write changes the Secret with optimistic locking, in one write. It also records the time since which
// only Ingot may know the password.
func (r *run) write(ctx context.Context, change func(*corev1.Secret)) error {
	base := r.secret.DeepCopy()
	if r.secret.Annotations == nil {
		r.secret.Annotations = map[string]string{}
	}
	change(r.secret)
	r.secret.Annotations[infrav1.RotatedAtAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
	r.secret.OwnerReferences = nil // the only copy of the password must survive any owner (I23)
	bmccredentials.LabelShared(r.secret)
	lock := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, r.secret, lock)
	if apierrors.IsForbidden(err) && len(base.OwnerReferences) > 0 { // see bmccredentials.patchShared
		r.secret.OwnerReferences = base.OwnerReferences
		err = r.Client.Patch(ctx, r.secret, lock)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("write password of Secret %s: %w", base.Name, err)
	}
	return nil
}
