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

// ErrStale: an object has changed since it was read; the rotation goes on by the next
// reconcile.
var ErrStale = errors.New("the Secret has changed meanwhile")

// Memory is what is remembered of a rotation between reconciles. It may be lost: logins
// then tell again. The zero value is ready.
type Memory struct {
	Rotation
	// of is a digest of the password that the answers are about.
	of string
	// failure is the BMC's answer to the last sending, without passwords.
	failure string
}

// BMC is the host's, as the reconcile knows it.
type BMC interface {
	// Do makes calls with a target, at the server that was seen and no other: what is sent
	// to another fails with bmc.ErrBusy.
	Do(ctx context.Context, target bmc.Target, calls func(context.Context, bmc.Conn) error) error
	// Read asks it anew by View.Target and fills in View.Seen. false: it failed, which is
	// noted.
	Read(ctx context.Context) bool
	// Failed notes what it answered to the last call. tell makes of its own words what
	// people may read.
	Failed(err error, tell func(own string) string)
}

// View is a host as this package sees it. All fields are needed.
type View struct {
	Host *infrav1.IngotHost
	// Secret holds the credentials; it is not changed.
	Secret *corev1.Secret
	// Target is how the BMC is reached. Its password is set to the one that holds.
	Target *bmc.Target
	Seen   *lifecycle.Observation
	Memory *Memory
}

// Rotator changes passwords. All fields are needed.
type Rotator struct {
	Client client.Client
	Clock  clock.Clock
	BMC    BMC
	// Turn bounds what one reconcile asks of the BMC.
	Turn time.Duration
	// Current looks whether the host is still what was decided on, and not paused.
	Current func(ctx context.Context, host *infrav1.IngotHost) error
	// Save writes the host by optimistic lock on the version in before.
	Save func(ctx context.Context, next, before *infrav1.IngotHost) error
	// Note tells people of what went as it should, Warn of what did not.
	Note, Warn func(host *infrav1.IngotHost, reason, message string)
}

// Outcome is how far a rotation has come.
type Outcome struct {
	// Settled: View.Target has the password that holds, and the BMC is well.
	Settled bool
	// Condition is what there is to tell; nil: nothing.
	Condition *metav1.Condition
}

// rotating is one try of a rotation.
type rotating struct {
	*Rotator
	host   *infrav1.IngotHost
	view   View
	secret *corev1.Secret
	memory Memory
	// calls bounds what is asked of the BMC.
	calls context.Context // ends with the function that made it
	// unsettled: a failure was noted.
	unsettled bool
	told      *metav1.Condition
}

// IsAsked reports whether an operator wants a new password of the host's BMC. begun: a
// rotation is under way, and ends however long it takes; another one begins only while the
// command has not expired (I24).
func IsAsked(host *infrav1.IngotHost, seen *lifecycle.Observation, begun bool) bool {
	c, pending := inventory.PendingCommand(host, infrav1.RotateCredentialsAnnotation)
	return pending && host.DeletionTimestamp.IsZero() && (begun || c.Refused(seen.Now, seen.ListeningSince) == "")
}

// IsPending says whether the host's BMC may have another password than the Secret's own. A
// next password that was not written down for that BMC is another's, or a person's proposal,
// of which no BMC has heard: by the name a host is known whose BMC's address was changed, by
// the address one that was registered anew.
func IsPending(host *infrav1.IngotHost, secret *corev1.Secret) bool {
	if len(secret.Data[infrav1.SecretKeyNextPassword]) == 0 || host.Spec.BMC == nil {
		return false
	}
	name, address, _ := strings.Cut(secret.Annotations[infrav1.RotatingAnnotation], " ")
	return name != "" && (name == host.Name || address == host.Spec.BMC.Address)
}

// Rotate goes as far with a change of the BMC's password as it can without waiting,
// and sends at most one wrong password. It is called when the BMC may be asked: the
// host is not paused (I10), no backoff runs, and, where no rotation is pending, the BMC has
// just been read. The server itself is not touched. An error is the API server's, ErrStale,
// or that of Current or Save; what is known of the BMC holds even then.
func (r *Rotator) Rotate(ctx context.Context, v View) (Outcome, error) {
	calls, cancel := context.WithTimeout(ctx, r.Turn)
	defer cancel()
	run := &rotating{Rotator: r, host: v.Host, view: v, secret: v.Secret.DeepCopy(), calls: calls, memory: *v.Memory}
	err := run.begin(ctx)
	for more := true; more && err == nil; {
		step := NextRotation(run.memory.Rotation)
		ctrl.LoggerFrom(ctx).Info("Rotating the password of the BMC", "step", step)
		more, err = run.take(ctx, step)
	}
	*v.Memory = run.memory
	return Outcome{Settled: err == nil && !run.unsettled, Condition: run.told}, err
}

// begin fills in what the API server keeps.
func (r *rotating) begin(ctx context.Context) (err error) {
	if of := r.digest(); r.memory.of != of {
		r.memory = Memory{of: of}
	}
	r.memory.Pending = IsPending(r.host, r.secret)
	r.memory.Asked = IsAsked(r.host, r.view.Seen, r.memory.Pending)
	if !r.memory.Pending {
		r.memory.Obstacle, err = r.obstacle(ctx, r.view)
	}
	return err
}

// digest names the new password in memory.
func (r *rotating) digest() string {
	sum := sha256.Sum256(r.secret.Data[infrav1.SecretKeyNextPassword])
	return hex.EncodeToString(sum[:])
}

// take takes one step, and says whether another is to be taken at once.
func (r *rotating) take(ctx context.Context, step RotationStep) (more bool, _ error) {
	switch step {
	case RotationRefuse:
		return false, r.end(ctx, infrav1.ReasonRotationRefused, "the password of the BMC was not changed: "+r.memory.Obstacle)
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

// prepare writes the new password down before the BMC hears of it.
func (r *rotating) prepare(ctx context.Context) error {
	if err := r.Current(ctx, r.host); err != nil {
		return err
	}
	password := bmc.Password(r.secret.Data[infrav1.SecretKeyNextPassword]) // somebody's proposal
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
	r.Note(r.host, infrav1.ReasonCredentialsRotating, fmt.Sprintf("a new password for the BMC is in Secret %s under %s; the BMC is told now",
		r.secret.Name, infrav1.SecretKeyNextPassword))
	r.progress("the BMC is being told its new password")
	// The BMC has just answered to the old one, and nobody has told it another.
	r.memory = Memory{of: r.digest(), Rotation: Rotation{Asked: true, Pending: true, Old: Accepted}}
	return nil
}

// try logs in afresh with the password under a key. A session that was there before
// proves nothing and is ended first.
func (r *rotating) try(key string, answer *Answer) (more bool, _ error) {
	target := *r.view.Target
	target.Password = bmc.Password(r.secret.Data[key])
	err := r.BMC.Do(r.calls, target, func(ctx context.Context, conn bmc.Conn) error {
		_ = conn.Close(ctx) // what counts is that another can be opened
		_, err := conn.PowerState(ctx)
		return err
	})
	var rests *bmc.RestError
	switch {
	case err == nil, errors.Is(err, bmc.ErrPasswordChange): // the login was accepted
		*answer, *r.view.Target = Accepted, target
		return true, nil
	case errors.Is(err, bmc.ErrUnauthorized) && !errors.As(err, &rests):
		*answer = Refused
		if NextRotation(r.memory.Rotation) == RotationStuck {
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
	if err := r.Current(ctx, r.host); err != nil {
		return false, err
	}
	r.view.Target.Password = bmc.Password(r.secret.Data[infrav1.SecretKeyPassword])
	if !r.isOurs() {
		return false, nil
	}
	err := r.BMC.Do(r.calls, *r.view.Target, func(ctx context.Context, conn bmc.Conn) error {
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
	r.memory.Old, r.memory.New = Unasked, Unasked
	return true, nil
}

// isOurs looks at whose BMC it is that the password is to be sent to: a rotation may
// have begun at another address, or in another life of the process.
func (r *rotating) isOurs() bool {
	if !r.BMC.Read(r.calls) {
		r.unsettled = true
		return false
	}
	why := elsewhere(r.host, r.view.Seen)
	if why != "" {
		r.progress("the new password is not sent: " + why + "; Ingot goes on by itself then")
	}
	return why == ""
}

// sendingOf tells a clear no from what may have happened.
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

// store puts the new password, by which a login has succeeded, in the place of the old.
func (r *rotating) store(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		forgetNext(secret)
		delete(secret.Data, infrav1.SecretKeyUnprovenPassword)
	})
	if err != nil {
		return err
	}
	r.memory = Memory{}
	return r.end(ctx, infrav1.ReasonCredentialsRotated, fmt.Sprintf(
		"the BMC has a new password since %s, a login has proven it, and Secret %s holds it; nobody else knows it, and the Secret stays when the host is deleted",
		r.secret.Annotations[infrav1.RotatedAtAnnotation], r.secret.Name))
}

// forgetNext takes the new password from its key, with the mark of whose it was.
func forgetNext(secret *corev1.Secret) {
	delete(secret.Data, infrav1.SecretKeyNextPassword)
	delete(secret.Annotations, infrav1.RotatingAnnotation)
}

// giveUp leaves the old password, by which a login has succeeded.
func (r *rotating) giveUp(ctx context.Context) error {
	err := r.write(ctx, func(secret *corev1.Secret) {
		secret.Data[infrav1.SecretKeyUnprovenPassword] = secret.Data[infrav1.SecretKeyNextPassword]
		forgetNext(secret)
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
	r.memory = Memory{}
	return r.end(ctx, infrav1.ReasonRotationFailed, fmt.Sprintf(
		"the BMC keeps its old password, which a login has proven: %s; the new one stays in Secret %s under %s, in case that the BMC takes it after all",
		why, r.secret.Name, infrav1.SecretKeyUnprovenPassword))
}

// stuck tells people, and has both passwords tried again after a rest.
func (r *rotating) stuck() {
	r.memory.Old, r.memory.New = Unasked, Unasked
	message := fmt.Sprintf("the BMC refuses both passwords of Secret %s, %s and %s; the account may be locked for a while: Ingot tries both again, one at a time; "+
		"if you know the password that the BMC has, write it under %s", r.secret.Name, infrav1.SecretKeyPassword, infrav1.SecretKeyNextPassword, infrav1.SecretKeyPassword)
	r.failed(bmc.ErrUnauthorized, message)
	r.condition(metav1.ConditionFalse, infrav1.ReasonRotationStuck, message)
}

// end saves that the command was carried out, and reports the result.
func (r *rotating) end(ctx context.Context, reason, message string) error {
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

func (r *rotating) progress(message string) {
	r.condition(metav1.ConditionFalse, infrav1.ReasonCredentialsRotating, message)
}

func (r *rotating) condition(status metav1.ConditionStatus, reason, message string) {
	r.told = &metav1.Condition{Type: infrav1.HostCredentialsRotatedCondition, Status: status, Reason: reason,
		Message: message, ObservedGeneration: r.host.Generation}
}

// failed notes what the BMC answered to the last call, in words for people; "" for its own.
func (r *rotating) failed(err error, message string) {
	r.unsettled = true
	r.BMC.Failed(err, func(own string) string { return r.clean(cmp.Or(message, own)) })
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
	if r.secret.Annotations == nil {
		r.secret.Annotations = map[string]string{}
	}
	change(r.secret)
	r.secret.Annotations[infrav1.RotatedAtAnnotation] = r.Clock.Now().UTC().Format(time.RFC3339)
	r.secret.OwnerReferences = nil // whatever owner is deleted, the only copy of the password stays (I23)
	bmccredentials.Share(r.secret)
	lock := client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{})
	err := r.Client.Patch(ctx, r.secret, lock)
	if apierrors.IsForbidden(err) && len(base.OwnerReferences) > 0 { // as package access has it
		r.secret.OwnerReferences = base.OwnerReferences
		err = r.Client.Patch(ctx, r.secret, lock)
	}
	if apierrors.IsConflict(err) || apierrors.IsNotFound(err) {
		return ErrStale
	}
	if err != nil {
		return fmt.Errorf("rotation of the password in Secret %s: %w", base.Name, err)
	}
	return nil
}
