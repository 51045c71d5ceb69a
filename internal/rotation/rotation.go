// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

// Answer is the BMC's answer to a login with one of two passwords.
type Answer string

// The answers. A login without a clear answer stays Unasked.
const (
	Unasked  Answer = ""
	Accepted Answer = "Accepted"
	Refused  Answer = "Refused"
)

// Sending is the result of the last time that the new password was sent to the BMC.
type Sending string

const (
	// NotSent: this process has not sent it; an earlier one may have.
	NotSent Sending = ""
	// Taken: the BMC reported success. A login must confirm it.
	Taken Sending = "Taken"
	// Declined: the BMC reported failure.
	Declined Sending = "Declined"
	// Unanswered: the BMC may have accepted it (I17).
	Unanswered Sending = "Unanswered"
)

// maxSendings is how often a new password is sent, each time after a login has confirmed the old
// password, before the rotation fails.
const maxSendings = 3

// Rotation is the state of a password change. Asked and Pending are stored in the API server; the rest
// may be lost, at the cost of a login.
// kept by the API server; the rest may be lost at any moment, and costs a login then.
type Rotation struct {
	// Asked: an operator wants a new password.
	Asked bool
	// Pending: the Secret holds the new password next to the old one, and the BMC may have either.
	Pending bool
	// Obstacle is why a rotation must not begin; empty if it may.
	Obstacle string
	// Old and New are the BMC's answers to the passwords since the last sending.
	Old, New Answer
	// Sent is the result of the last sending, Times the number of sendings.
	Sent  Sending
	Times int
}

// RotationStep is one step of a rotation.
type RotationStep string

const (
	// RotationIdle: there is nothing to do.
	RotationIdle RotationStep = "Idle"
	// RotationRefuse: the rotation must not begin.
	RotationRefuse RotationStep = "Refuse"
	// RotationPrepare: create a password and store it next to the old one.
	RotationPrepare RotationStep = "Prepare"
	// RotationTryOld and RotationTryNew: log in with a new session. A refused login ends the run.
	RotationTryOld RotationStep = "TryOld"
	RotationTryNew RotationStep = "TryNew"
	// RotationSend: send the new password to the BMC.
	RotationSend RotationStep = "Send"
	// RotationStore: the new password is valid; store it in place of the old one.
	RotationStore RotationStep = "Store"
	// RotationGiveUp: the old password is valid, and the BMC does not accept the new one, or the
	// command was withdrawn. The new one is kept under another key: a slow request may still take
	// effect.
	RotationGiveUp RotationStep = "GiveUp"
	// RotationStuck: the BMC refuses both; both are tried again after a backoff.
	RotationStuck RotationStep = "Stuck"
)

// NextRotation returns the next step of a rotation. The new password is stored before it is sent, and
// neither password is dropped before a login has confirmed the other, so that no password is lost
// wherever a process ends. Nothing is sent again before a login has shown that it was not accepted
// (I17).
func NextRotation(r Rotation) RotationStep {
	switch {
	case !r.Pending && !r.Asked:
		return RotationIdle
	case !r.Pending && r.Obstacle != "":
		return RotationRefuse
	case !r.Pending:
		return RotationPrepare
	case r.New == Accepted:
		return RotationStore
	case r.Old == Accepted && (!r.Asked || r.Sent == Declined || r.Times >= maxSendings):
		return RotationGiveUp
	case r.Old == Accepted:
		return RotationSend
	case r.Old == Refused && r.New == Refused:
		return RotationStuck
	}
	return r.nextTry()
}

// nextTry picks the password that is more likely to be valid: wrong ones count towards the lockout of
// the account.
func (r Rotation) nextTry() RotationStep {
	if r.New == Refused || (r.Sent == Declined && r.Old == Unasked) {
		return RotationTryOld
	}
	return RotationTryNew
}
