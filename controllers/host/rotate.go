// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

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
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// rotationMemory is what is remembered of a rotation between reconciles. It may be
// lost: logins then tell again.
type rotationMemory struct {
	inventory.Rotation
	// of is a digest of the password that the answers are about.
	of string
	// failure is the BMC's answer to the last sending, without passwords.
	failure string
}

// rotating is one try of a rotation.
type rotating struct {
	*Reconciler
	host   *infrav1.IngotHost
	seen   *observation
	secret *corev1.Secret
	memory rotationMemory
	// calls bounds what is asked of the BMC.
	calls context.Context //nolint:containedctx // ends with the function that made it
	// known is what is known of the BMC; unsettled: a failure was noted in it.
	known     contact
	unsettled bool
}

// asksRotation says whether somebody wants a new password of the host's BMC.
func asksRotation(host *infrav1.IngotHost) bool {
	_, asked := host.Annotations[infrav1.RotateCredentialsAnnotation]
	return asked && host.DeletionTimestamp.IsZero()
}

// isRotating says whether the BMC may have another password than the Secret's own.
func isRotating(secret *corev1.Secret) bool {
	return len(secret.Data[infrav1.SecretKeyNextPassword]) > 0
}

// rotate goes as far with a change of the BMC's password as it can without waiting,
// and sends at most one wrong password. It is called when the BMC may be asked: the
// host is not paused (I10), and no backoff runs. The server itself is not touched.
// settled: seen.target has the password that holds, and the BMC is well. An error is
// the API server's, or errStale; what is known of the BMC holds even then.
func (r *Reconciler) rotate(ctx context.Context, host *infrav1.IngotHost, seen *observation, secret *corev1.Secret, known contact) (_ contact, settled bool, _ error) {
	calls, cancel := context.WithTimeout(ctx, r.waits().Turn)
	defer cancel()
	run := &rotating{Reconciler: r, host: host, seen: seen, secret: secret.DeepCopy(), calls: calls, known: known, memory: known.rotation}
	r.unwatch(keyOf(host)) // a stream that breaks would log in with a password that no longer holds
	err := run.begin(ctx)
	for more := true; more && err == nil; {
		step := inventory.NextRotation(run.memory.Rotation)
		ctrl.LoggerFrom(ctx).Info("Rotating the password of the BMC", "step", step)
		more, err = run.take(ctx, step)
	}
	run.known.rotation = run.memory
	return run.known, err == nil && !run.unsettled, err
}

// begin fills in what the API server keeps.
func (r *rotating) begin(ctx context.Context) (err error) {
	if of := r.digest(); r.memory.of != of {
		r.memory = rotationMemory{of: of}
	}
	r.memory.Asked, r.memory.Pending = asksRotation(r.host), isRotating(r.secret)
	if !r.memory.Pending { // the BMC has just been read
		r.seen.contact(r.host, r.known)
		r.memory.Obstacle, err = r.obstacle(ctx, r.host, r.secret, r.seen)
	}
	return err
}

// digest names the new password in memory.
func (r *rotating) digest() string {
	sum := sha256.Sum256(r.secret.Data[infrav1.SecretKeyNextPassword])
	return hex.EncodeToString(sum[:])
}

// take takes one step, and says whether another is to be taken at once.
func (r *rotating) take(ctx context.Context, step inventory.RotationStep) (more bool, _ error) {
	switch step {
	case inventory.RotationRefuse:
		return false, r.end(ctx, infrav1.ReasonRotationRefused, "the password of the BMC was not changed: "+r.memory.Obstacle)
	case inventory.RotationPrepare:
		return true, r.prepare(ctx)
	case inventory.RotationTryOld:
		return r.try(infrav1.SecretKeyPassword, &r.memory.Old)
	case inventory.RotationTryNew:
		return r.try(infrav1.SecretKeyNextPassword, &r.memory.New)
	case inventory.RotationSend:
		return r.send(ctx)
	case inventory.RotationStore:
		return false, r.store(ctx)
	case inventory.RotationGiveUp:
		return false, r.giveUp(ctx)
	case inventory.RotationStuck:
		r.stuck()
	}
	return false, nil
}

// prepare writes the new password down before the BMC hears of it.
func (r *rotating) prepare(ctx context.Context) error {
	if err := r.mustBeCurrent(ctx, r.host); err != nil {
		return err
	}
	password, err := newPassword(rand.Reader, passwordLength(r.host.Spec.BMC.Address))
	if err != nil {
		return err
	}
	err = r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyNextPassword] = []byte(password.Reveal())
	})
	if err != nil {
		return err
	}
	r.note(r.host, infrav1.ReasonCredentialsRotating, fmt.Sprintf("a new password for the BMC is in Secret %s under %s; the BMC is told now",
		r.secret.Name, infrav1.SecretKeyNextPassword))
	r.progress("the BMC is being told its new password")
	// The BMC has just answered to the old one, and nobody has told it another.
	r.memory = rotationMemory{of: r.digest(), Rotation: inventory.Rotation{Asked: true, Pending: true, Old: inventory.Accepted}}
	return nil
}

// try logs in afresh with the password under a key. A session that was there before
// proves nothing and is ended first.
func (r *rotating) try(key string, answer *inventory.Answer) (more bool, _ error) {
	target := r.seen.target
	target.Password = bmc.Password(r.secret.Data[key])
	calls := r.onServer(r.calls, r.host, r.seen)
	err := r.do(calls, target, func(ctx context.Context, conn bmc.Conn) error {
		_ = conn.Close(ctx) // what counts is that another can be opened
		_, err := conn.PowerState(ctx)
		return err
	})
	var rests *bmc.RestError
	switch {
	case err == nil:
		*answer, r.seen.target = inventory.Accepted, target
		return true, nil
	case errors.Is(err, bmc.ErrUnauthorized) && !errors.As(err, &rests):
		*answer = inventory.Refused
		if inventory.NextRotation(r.memory.Rotation) == inventory.RotationStuck {
			return true, nil
		}
		r.failed(err, fmt.Sprintf("during a rotation of its password the BMC refused %s of Secret %s; the other is tried next", key, r.secret.Name))
		r.progress("which of the two passwords in the Secret the BMC has is being found out")
		return false, nil
	}
	r.failed(err, "")
	r.progress("which of the two passwords in the Secret the BMC has is to be found out as soon as it answers")
	return false, nil
}

// send has the BMC take the new password. What it answers is believed when a login
// has proven it.
func (r *rotating) send(ctx context.Context) (more bool, _ error) {
	if err := r.mustBeCurrent(ctx, r.host); err != nil {
		return false, err
	}
	target := r.seen.target
	target.Password = bmc.Password(r.secret.Data[infrav1.SecretKeyPassword])
	if r.seen.target = target; !r.isOurs() {
		return false, nil
	}
	err := r.do(r.calls, target, func(ctx context.Context, conn bmc.Conn) error {
		return conn.SetPassword(ctx, bmc.Password(r.secret.Data[infrav1.SecretKeyNextPassword]))
	})
	if errors.Is(err, bmc.ErrBusy) { // it did nothing
		r.failed(err, "")
		return false, nil
	}
	r.memory.Sent, r.memory.failure = sendingOf(err), ""
	if err != nil {
		r.memory.failure = r.clean(err.Error())
	}
	r.memory.Times++
	r.memory.Old, r.memory.New = inventory.Unasked, inventory.Unasked
	return true, nil
}

// isOurs looks at whose BMC it is that the password is to be sent to: a rotation may
// have begun at another address, or in another life of the process.
func (r *rotating) isOurs() bool {
	r.known = r.readBMC(r.calls, r.host, r.seen, r.known)
	r.seen.contact(r.host, r.known)
	if r.known.problem != inventory.BMCOK {
		r.unsettled = true
		return false
	}
	why := elsewhere(r.host, r.seen)
	if why != "" {
		r.progress("the new password is not sent: " + why + "; Ingot goes on by itself then")
	}
	return why == ""
}

// sendingOf tells a clear no from what may have happened.
func sendingOf(err error) inventory.Sending {
	if err == nil {
		return inventory.Taken
	}
	for _, no := range []error{bmc.ErrNotSupported, bmc.ErrUnauthorized, bmc.ErrNotApplied} {
		if errors.Is(err, no) && !errors.Is(err, bmc.ErrUnknownOutcome) {
			return inventory.Declined
		}
	}
	return inventory.Unanswered
}

// store puts the new password, by which a login has succeeded, in the place of the old.
func (r *rotating) store(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		delete(secret.Data, infrav1.SecretKeyNextPassword)
		delete(secret.Data, infrav1.SecretKeyUnprovenPassword)
	})
	if err != nil {
		return err
	}
	r.memory = rotationMemory{}
	return r.end(ctx, infrav1.ReasonCredentialsRotated, fmt.Sprintf(
		"the BMC has a new password since %s, a login has proven it, and Secret %s holds it; nobody else knows it, and the Secret stays when the host is deleted",
		r.secret.Annotations[infrav1.RotatedAtAnnotation], r.secret.Name))
}

// giveUp leaves the old password, by which a login has succeeded.
func (r *rotating) giveUp(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyUnprovenPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		delete(secret.Data, infrav1.SecretKeyNextPassword)
	})
	if err != nil {
		return err
	}
	why := r.memory.failure
	switch {
	case !r.memory.Asked:
		why = "the annotation was taken away"
	case why == "":
		why = "it says that it took the new one, and a login shows that it did not"
	}
	r.memory = rotationMemory{}
	return r.end(ctx, infrav1.ReasonRotationFailed, fmt.Sprintf(
		"the BMC keeps its old password, which a login has proven: %s; the new one stays in Secret %s under %s, in case that the BMC takes it after all",
		why, r.secret.Name, infrav1.SecretKeyUnprovenPassword))
}

// stuck tells people, and has both passwords tried again after a rest.
func (r *rotating) stuck() {
	r.memory.Old, r.memory.New = inventory.Unasked, inventory.Unasked
	message := fmt.Sprintf("the BMC refuses both passwords of Secret %s, %s and %s; the account may be locked for a while: Ingot tries both again, one at a time; "+
		"if you know the password that the BMC has, write it under %s", r.secret.Name, infrav1.SecretKeyPassword, infrav1.SecretKeyNextPassword, infrav1.SecretKeyPassword)
	r.failed(bmc.ErrUnauthorized, message)
	r.condition(metav1.ConditionFalse, infrav1.ReasonRotationStuck, message)
}

// end takes the annotation away, which has done its work, and tells how it went.
func (r *rotating) end(ctx context.Context, reason, message string) error {
	if _, there := r.host.Annotations[infrav1.RotateCredentialsAnnotation]; there {
		base := r.host.DeepCopy()
		delete(r.host.Annotations, infrav1.RotateCredentialsAnnotation)
		if err := r.patchLocked(ctx, r.host, base); err != nil {
			return err
		}
	}
	if reason == infrav1.ReasonCredentialsRotated {
		r.condition(metav1.ConditionTrue, reason, message)
		r.note(r.host, reason, message)
		return nil
	}
	r.condition(metav1.ConditionFalse, reason, message)
	r.event(r.host, reason, message)
	return nil
}

func (r *rotating) progress(message string) {
	r.condition(metav1.ConditionFalse, infrav1.ReasonCredentialsRotating, message)
}

func (r *rotating) condition(status metav1.ConditionStatus, reason, message string) {
	r.seen.rotated = &metav1.Condition{Type: infrav1.HostCredentialsRotatedCondition, Status: status, Reason: reason,
		Message: message, ObservedGeneration: r.host.Generation}
}

// failed notes what the BMC answered to the last call, in words for people; "" for its own.
func (r *rotating) failed(err error, message string) {
	r.unsettled, r.seen.Now = true, r.Clock.Now()
	r.known = r.Reconciler.failed(r.host, r.known, err, r.seen.Now)
	r.known.message = stable(r.clean(cmp.Or(message, r.known.message)))
}

// clean removes the passwords from what a BMC, or a library, has said. Drivers do so
// as well.
func (r *rotating) clean(text string) string {
	for _, key := range []string{infrav1.SecretKeyNextPassword, infrav1.SecretKeyPassword} {
		if password := string(r.secret.Data[key]); password != "" {
			text = strings.ReplaceAll(text, password, "***")
		}
	}
	return text
}

// write changes the Secret by optimistic lock, in one write, and notes on it since
// when nobody but Ingot may know the password.
func (r *rotating) write(ctx context.Context, change func(*corev1.Secret)) error {
	base := r.secret.DeepCopy()
	change(r.secret)
	if r.secret.Annotations == nil {
		r.secret.Annotations = map[string]string{}
	}
	r.secret.Annotations[infrav1.RotatedAtAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
	err := r.Client.Patch(ctx, r.secret, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return errStale
	}
	if err != nil {
		return fmt.Errorf("rotation of the password in Secret %s: %w", base.Name, err)
	}
	return nil
}
