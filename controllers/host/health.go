// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// See Waits.
const (
	healthSettle = 5 * time.Minute
	detailEvery  = 6 * time.Hour
	detailLeast  = 10 * time.Minute
	// maxAiling is how many parts are named.
	maxAiling = 8
)

// health is what is remembered of a server's health between polls. It may be lost:
// the status is then what people were told.
type health struct {
	// state that people are told; empty: none yet.
	state lifecycle.Health
	// better is since when the BMC has told of better; zero: it does not.
	better time.Time
	// detail names the parts that ail, without readings, which change each time;
	// readings names them with.
	detail, readings string
	detailAt         time.Time
	detailOf         lifecycle.Health

	// told is what people have been told of by event.
	told lifecycle.Health
}

// healthOf is what is known of the host's health, or what its status tells where the
// manager has just started.
func (c contact) healthOf(host *infrav1.IngotHost) health {
	if c.health.state == "" {
		was := lifecycle.HealthOf(host)
		return health{state: was, told: was}
	}
	return c.health
}

// felt takes over what the BMC told: worse at once, better once it has lasted.
func (h health) felt(now lifecycle.Health, at time.Time, w Waits) health {
	switch {
	case h.state == "" || now.WorseThan(h.state) || (now == h.state) || !h.state.Ails():
		h.state, h.better = now, time.Time{}
	case h.better.IsZero():
		h.better = at
	case at.Sub(h.better) >= w.HealthSettle:
		h.state, h.better = now, time.Time{}
	}
	if !h.state.Ails() {
		h.detail, h.readings = "", ""
	}
	return h
}

// detailDue says whether the parts are to be read.
func (h health) detailDue(at time.Time, w Waits) bool {
	if !h.state.Ails() {
		return false
	}
	age := at.Sub(h.detailAt)
	return h.detailAt.IsZero() || age >= w.DetailEvery || (h.detailOf != h.state && age >= w.DetailLeast)
}

// readHealth reads the parts where they are due. That they cannot be read is no
// failure of the BMC, which has just answered.
func (r *Reconciler) readHealth(ctx context.Context, conn bmc.Conn, h health, now lifecycle.Health) health {
	at := r.Clock.Now()
	h = h.felt(now, at, r.waits())
	if !h.detailDue(at, r.waits()) {
		return h
	}
	h.detailAt, h.detailOf = at, h.state
	switch report, err := conn.Health(ctx); {
	case err == nil:
		h.detail, h.readings = ailing(report.Components)
	case errors.Is(err, bmc.ErrUnfinished):
		h.detailAt = time.Time{} // the next poll goes on
	}
	return h
}

// ailing names the parts that are not well, the worst first, without and with their
// readings.
func ailing(parts []bmc.ComponentHealth) (names, readings string) {
	ill := slices.DeleteFunc(slices.Clone(parts), func(c bmc.ComponentHealth) bool { return !lifecycle.Health(c.State).Ails() })
	slices.SortFunc(ill, func(a, b bmc.ComponentHealth) int {
		worst := 0
		if a.State != b.State {
			worst = 1
			if a.State == bmc.HealthCritical {
				worst = -1
			}
		}
		return cmp.Or(worst, strings.Compare(a.Kind, b.Kind), strings.Compare(a.Name, b.Name))
	})
	var with, without []string
	for i, c := range ill {
		if i == maxAiling {
			more := fmt.Sprintf("and %d more", len(ill)-i)
			with, without = append(with, more), append(without, more)
			break
		}
		name := fmt.Sprintf("%s %q is %s", c.Kind, c.Name, c.State)
		without = append(without, name)
		if c.Reading != "" {
			name += " (" + c.Reading + ")"
		}
		with = append(with, name)
	}
	return strings.Join(without, ", "), strings.Join(with, ", ")
}

// tellHealth makes an event of a health that has changed. It follows the status, so
// that what was told once is not told again by a manager that starts.
func (r *Reconciler) tellHealth(host *infrav1.IngotHost, seen *observation) {
	h := seen.known.health
	if h.state == "" || h.state == lifecycle.HealthUnknown || h.state == h.told || seen.BMC != lifecycle.BMCOK {
		return
	}
	was := h.told
	h.told = h.state
	r.contacts.change(keyOf(host), func(c *contact) { c.health = h }) // and nothing else: orders were counted since
	switch {
	case h.state == lifecycle.HealthCritical:
		r.event(host, infrav1.ReasonHealthCritical, healthNews(h))
	case h.state == lifecycle.HealthWarning:
		r.event(host, infrav1.ReasonHealthWarning, healthNews(h))
	case was.Ails():
		r.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonHealthOK, action, "%s", "The BMC reports no fault any more")
	}
}

func healthNews(h health) string {
	news := fmt.Sprintf("The BMC reports %s", h.state)
	if h.readings != "" {
		news += ": " + h.readings
	}
	return news
}
