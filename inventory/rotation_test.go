// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inventory

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

// rotationWorld is a Secret, a BMC, and a process between them. The passwords are
// numbered: 0 is nobody's.
type rotationWorld struct {
	memory Rotation
	// of the Secret
	password, next, unproven int
	asked                    bool
	// of the BMC; owed is a password that it will take by itself some day.
	holds, owed int
	late        bool // it has
	steps       int
	wrong       int // logins of the present try
}

// without the count of steps two worlds are the same.
func (w rotationWorld) without() rotationWorld {
	w.steps = 0
	return w
}

// known says whether somebody who reads the Secret can log in.
func (w *rotationWorld) known() bool {
	return w.holds == w.password || w.holds == w.next || w.holds == w.unproven
}

// outcomes are what may become of the new password on its way.
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

// TestRotationWalk goes through all that can happen in a rotation: every outcome of
// every sending, a death before and after every step, and somebody who calls it off.
// At every moment a person finds the BMC's password in the Secret; no try sends two
// wrong passwords; and where nothing more goes wrong, the rotation ends.
func TestRotationWalk(t *testing.T) {
	seen := map[string]bool{}
	var walk func(t *testing.T, w rotationWorld, faults int, path string)
	walk = func(t *testing.T, w rotationWorld, faults int, path string) {
		if t.Failed() || len(path) > 4000 {
			return
		}
		if key := fmt.Sprintf("%+v %d", w.without(), faults); seen[key] {
			return
		} else {
			seen[key] = true
		}
		if !w.known() {
			t.Fatalf("the password is lost: %+v after %s", w, path)
		}
		if faults > 0 {
			died := w
			died.memory, died.wrong = Rotation{}, 0
			walk(t, died, faults-1, path+" death")
			off := w
			off.asked = false
			walk(t, off, faults-1, path+" called-off")
			if w.owed != 0 {
				late := w
				late.holds, late.owed, late.late = w.owed, 0, true
				walk(t, late, faults-1, path+" late")
			}
		}
		w.memory.Asked, w.memory.Pending = w.asked, w.next != 0
		step := NextRotation(w.memory)
		path += " " + string(step)
		if w.steps++; w.steps > 60 {
			t.Fatalf("no end: %+v after %s", w, path)
		}
		switch step {
		case RotationIdle:
		case RotationPrepare:
			w.next, w.memory = 2, Rotation{Old: Accepted}
			walk(t, w, faults, path)
		case RotationTryOld:
			w.login(&w.memory.Old, w.password)
			walkAfterLogin(t, walk, w, faults, path)
		case RotationTryNew:
			w.login(&w.memory.New, w.next)
			walkAfterLogin(t, walk, w, faults, path)
		case RotationSend:
			for _, o := range rotationOutcomes {
				if o.name != "taken" && faults == 0 {
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
				left := faults - 1
				if o.name == "taken" {
					left = faults
				}
				walk(t, after, left, path+"("+o.name+")")
			}
		case RotationStore:
			w.password, w.next, w.unproven, w.asked, w.memory = w.next, 0, 0, false, Rotation{}
			walk(t, w, faults, path)
		case RotationGiveUp:
			if w.holds != w.password && !w.late {
				t.Fatalf("the old password is said to hold, and does not, after %s", path)
			}
			w.unproven, w.next, w.asked, w.memory = w.next, 0, false, Rotation{}
			walk(t, w, faults, path)
		case RotationStuck:
			w.memory.Old, w.memory.New, w.wrong = Unasked, Unasked, 0
			walk(t, w, faults, path)
		default:
			t.Fatalf("step %s after %s", step, path)
		}
	}
	walk(t, rotationWorld{password: 1, holds: 1, asked: true}, 4, "")
	if len(seen) < 500 {
		t.Errorf("only %d states were met", len(seen))
	}
}

// login answers as the BMC does.
func (w *rotationWorld) login(answer *Answer, password int) {
	if *answer = Refused; password == w.holds {
		*answer = Accepted
	} else {
		w.wrong++
	}
}

// walkAfterLogin ends the try at a refusal, as the executor does.
func walkAfterLogin(t *testing.T, walk func(*testing.T, rotationWorld, int, string), w rotationWorld, faults int, path string) {
	t.Helper()
	if w.wrong > 1 {
		t.Fatalf("two wrong logins in one try: %s", path)
	}
	if w.wrong == 1 {
		w.wrong = 0
	}
	walk(t, w, faults, path)
}
