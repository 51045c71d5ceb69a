// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package rotation

import (
	"fmt"
	"testing"
)

func TestNextRotation(t *testing.T) {
	for _, tc := range []struct {
		name string
		in   Rotation
		want RotationStep
	}{
		{"nothing asked", Rotation{}, RotationIdle},
		{"nothing asked, whatever stands against it", Rotation{Obstacle: "shared"}, RotationIdle},
		{"asked", Rotation{Asked: true}, RotationPrepare},
		{"asked, and not possible", Rotation{Asked: true, Obstacle: "shared"}, RotationRefuse},
		{"begun, and shared since then", Rotation{Asked: true, Pending: true, Obstacle: "shared"}, RotationTryNew},
		{"just prepared", Rotation{Asked: true, Pending: true, Old: Accepted}, RotationSend},
		{"after a restart", Rotation{Asked: true, Pending: true}, RotationTryNew},
		{"after a restart, called off", Rotation{Pending: true}, RotationTryNew},
		{"taken", Rotation{Asked: true, Pending: true, Sent: Taken, Times: 1}, RotationTryNew},
		{"taken and proven", Rotation{Asked: true, Pending: true, Sent: Taken, Times: 1, New: Accepted}, RotationStore},
		{"proven, and called off too late", Rotation{Pending: true, New: Accepted}, RotationStore},
		{"unanswered", Rotation{Asked: true, Pending: true, Sent: Unanswered, Times: 1}, RotationTryNew},
		{"unanswered, new refused", Rotation{Asked: true, Pending: true, Sent: Unanswered, Times: 1, New: Refused}, RotationTryOld},
		{"unanswered, old holds", Rotation{Asked: true, Pending: true, Sent: Unanswered, Times: 1, New: Refused, Old: Accepted}, RotationSend},
		{"unanswered too often", Rotation{Asked: true, Pending: true, Sent: Unanswered, Times: maxSendings, New: Refused, Old: Accepted}, RotationGiveUp},
		{"taken, and old holds for ever", Rotation{Asked: true, Pending: true, Sent: Taken, Times: maxSendings, New: Refused, Old: Accepted}, RotationGiveUp},
		{"old holds, called off", Rotation{Pending: true, New: Refused, Old: Accepted}, RotationGiveUp},
		{"declined", Rotation{Asked: true, Pending: true, Sent: Declined, Times: 1}, RotationTryOld},
		{"declined, old holds", Rotation{Asked: true, Pending: true, Sent: Declined, Times: 1, Old: Accepted}, RotationGiveUp},
		{"declined, and old refused all the same", Rotation{Asked: true, Pending: true, Sent: Declined, Times: 1, Old: Refused}, RotationTryNew},
		{"declined, and new holds", Rotation{Asked: true, Pending: true, Sent: Declined, Times: 1, Old: Refused, New: Accepted}, RotationStore},
		{"both refused", Rotation{Asked: true, Pending: true, Old: Refused, New: Refused}, RotationStuck},
	} {
		t.Run(tc.name, func(t *testing.T) {
			if got := NextRotation(tc.in); got != tc.want {
				t.Errorf("NextRotation(%+v) = %s, want %s", tc.in, got, tc.want)
			}
		})
	}
}

// rotationWorld is a Secret, a BMC, and a process between them. Passwords are numbers; 0 is none.
type rotationWorld struct {
	memory Rotation
	// of the Secret
	password, next, unproven int
	asked                    bool
	// State of the BMC; owed is a password that it will apply later.
	holds, owed int
	late        bool // it has
	steps       int
}

// Worlds are compared without the count of steps.
func (w rotationWorld) without() rotationWorld {
	w.steps = 0
	return w
}

// known reports whether a reader of the Secret can log in.
func (w *rotationWorld) known() bool {
	return w.holds == w.password || w.holds == w.next || w.holds == w.unproven
}

// outcomes are the possible results of sending the new password.
var rotationOutcomes = []struct {
	name  string
	says  Sending
	takes bool
	later bool
}{
	{"taken", Taken, true, false}, {"declined", Declined, false, false}, {"answer lost", Unanswered, true, false},
	{"request lost", Unanswered, false, false}, {"a lie", Taken, false, false}, {"declined, and taken all the same", Declined, true, false},
	{"late", Unanswered, false, true},
}

// rotationWalk visits each world once.
type rotationWalk struct {
	*testing.T
	seen map[string]bool
}

// TestRotationWalk visits every course of a rotation: every result of every sending, an end of the process
// before and after every step, and a withdrawn command. The Secret always holds the BMC's password, a
// confirmed password is valid, and without more faults the rotation ends.
func TestRotationWalk(t *testing.T) {
	walk := rotationWalk{t, map[string]bool{}}
	walk.from(rotationWorld{password: 1, holds: 1, asked: true}, 4, "")
	if len(walk.seen) < 500 {
		t.Errorf("only %d states were met", len(walk.seen))
	}
}

// from continues from a world in which the given number of faults may still happen.
func (t rotationWalk) from(w rotationWorld, faults int, path string) {
	key := fmt.Sprintf("%+v %d", w.without(), faults)
	if t.Failed() || t.seen[key] {
		return
	}
	t.seen[key] = true
	if !w.known() {
		t.Fatalf("the password is lost: %+v after %s", w, path)
	}
	if faults > 0 {
		died := w
		died.memory = Rotation{}
		t.from(died, faults-1, path+" death")
		off := w
		off.asked = false
		t.from(off, faults-1, path+" called-off")
	}
	if faults > 0 && w.owed != 0 {
		late := w
		late.holds, late.owed, late.late = w.owed, 0, true
		t.from(late, faults-1, path+" late")
	}
	t.step(w, faults, path)
}

// step executes the decided step.
func (t rotationWalk) step(w rotationWorld, faults int, path string) {
	w.memory.Asked, w.memory.Pending = w.asked, w.next != 0
	step := NextRotation(w.memory)
	path += " " + string(step)
	if w.steps++; w.steps > 60 {
		t.Fatalf("no end: %+v after %s", w, path)
	}
	switch step {
	case RotationIdle:
		return
	case RotationPrepare:
		w.next, w.memory = 2, Rotation{Old: Accepted}
	case RotationTryOld:
		w.memory.Old = w.login(w.password)
	case RotationTryNew:
		w.memory.New = w.login(w.next)
	case RotationSend:
		t.send(w, faults, path)
		return
	case RotationStore:
		w.password, w.next, w.unproven, w.asked, w.memory = w.next, 0, 0, false, Rotation{}
	case RotationGiveUp:
		w.unproven, w.next, w.asked, w.memory = w.next, 0, false, Rotation{}
	case RotationStuck:
		w.memory.Old, w.memory.New = Unasked, Unasked
	default:
		t.Fatalf("step %s after %s", step, path)
	}
	if ended := step == RotationStore || step == RotationGiveUp; ended && w.holds != w.password && !w.late {
		t.Fatalf("the password of the Secret does not hold after %s", path)
	}
	t.from(w, faults, path)
}

// send visits the possible results of sending the new password.
func (t rotationWalk) send(w rotationWorld, faults int, path string) {
	if w.memory.Old != Accepted { // I17
		t.Fatalf("sent to a BMC that was not seen to have the old password: %s", path)
	}
	for i, o := range rotationOutcomes {
		left := faults
		if i > 0 { // all but the first are faults
			left--
		}
		if left < 0 {
			continue
		}
		after := w
		if o.takes {
			after.holds = w.next
		}
		if o.later {
			after.owed = w.next
		}
		after.memory.Sent, after.memory.Times = o.says, w.memory.Times+1
		after.memory.Old, after.memory.New = Unasked, Unasked
		t.from(after, left, path+"("+o.name+")")
	}
}

// login answers as the BMC does.
func (w rotationWorld) login(password int) Answer {
	if password == w.holds {
		return Accepted
	}
	return Refused
}
