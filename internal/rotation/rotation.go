// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

// Answer is what a BMC said to a login with one of two passwords.
type Answer string

// The answers. A login that was not answered clearly is Unasked.
const (
	Unasked  Answer = ""
	Accepted Answer = "Accepted"
	Refused  Answer = "Refused"
)

// Sending is what became of the new password on its way to the BMC.
type Sending string

// The outcomes, of the last time that it was sent.
const (
	// NotSent: not in this life of the process; an earlier one may have sent it.
	NotSent Sending = ""
	// Taken: the BMC said that it took it. It is believed when a login proves it.
	Taken Sending = "Taken"
	// Declined: the BMC said that it did not.
	Declined Sending = "Declined"
	// Unanswered: it may have been taken, or not (I17).
	Unanswered Sending = "Unanswered"
)

// maxSendings is how often a new password is sent to a BMC on which a login has shown
// that the old one still holds, before the rotation fails.
const maxSendings = 3

// Rotation is what is known of a change of a BMC's password. Asked and Pending are
// kept by the API server; the rest may be lost at any moment, and costs a login then.
type Rotation struct {
	// Asked: somebody wants a new password.
	Asked bool
	// Pending: the new password is in the Secret beside the old one, so that the BMC
	// may have either.
	Pending bool
	// Obstacle is why a rotation must not begin; empty: it may.
	Obstacle string
	// Old and New are what the BMC said to the passwords since the last sending.
	Old, New Answer
	// Sent, and how often.
	Sent  Sending
	Times int
}

// RotationStep is one thing to do.
type RotationStep string

// The steps.
const (
	// RotationIdle: nothing is to be done.
	RotationIdle RotationStep = "Idle"
	// RotationRefuse: it must not begin; nothing has happened.
	RotationRefuse RotationStep = "Refuse"
	// RotationPrepare: make a password and write it down beside the old one.
	RotationPrepare RotationStep = "Prepare"
	// RotationTryOld and RotationTryNew: log in afresh. A refused login ends the try.
	RotationTryOld RotationStep = "TryOld"
	RotationTryNew RotationStep = "TryNew"
	// RotationSend: have the BMC take the new password.
	RotationSend RotationStep = "Send"
	// RotationStore: the new one holds; write it down in place of the old one.
	RotationStore RotationStep = "Store"
	// RotationGiveUp: the old one holds, and the BMC declined the new one, does not take
	// it, or is not to take it any more. The new one is put aside, not thrown away: the
	// BMC has heard of it, and a request that was slow may take effect yet.
	RotationGiveUp RotationStep = "GiveUp"
	// RotationStuck: both are refused; after a rest both are tried again.
	RotationStuck RotationStep = "Stuck"
)

// NextRotation decides what a rotation does next. The password is never lost: the new
// one is written down before the BMC hears of it, and neither is forgotten before a
// login has shown that the other holds. So it does not matter where a process dies.
// Nothing is sent again before a login has shown that it was not taken (I17).
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
	return r.try()
}

// try picks the password that is more likely to hold: a wrong one counts towards the
// lockout of the account.
func (r Rotation) try() RotationStep {
	if r.New == Refused || (r.Sent == Declined && r.Old == Unasked) {
		return RotationTryOld
	}
	return RotationTryNew
}
