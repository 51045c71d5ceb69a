// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// maxMessage bounds the message of a task, in bytes.
const maxMessage = 256

// taskResource is Task (DSP2046). The task monitor may show it too while the task runs (DSP0266,
// asynchronous operations).
type taskResource struct {
	ID       string        `json:"@odata.id"`
	Monitor  string        `json:"TaskMonitor"`
	State    string        `json:"TaskState"`
	Status   string        `json:"TaskStatus"`
	Percent  number        `json:"PercentComplete"`
	Messages []taskMessage `json:"Messages"`
}

type taskMessage struct {
	ID   string `json:"MessageId"`
	Text string `json:"Message"`
}

// taskOf returns the task in the answer to a write. It prefers the task's own path to the
// monitor's, which disappears at the end. Without either there is no way to follow the task.
func taskOf(a answer) bmc.Task {
	var r taskResource
	if err := decode(a.body, &r); err != nil {
		r = taskResource{}
	}
	t := r.task(true)
	switch {
	case r.State != "" && isLink(r.ID):
		t.ID = r.ID
	case isLink(a.location):
		t.ID = a.location
	default:
		t.ID = ""
	}
	return t
}

// task returns the state; without TaskState, the task is running or has succeeded.
func (r taskResource) task(running bool) bmc.Task {
	t := bmc.Task{ID: r.ID, Percent: -1, State: bmc.TaskSucceeded}
	if running {
		t.State = bmc.TaskRunning
	}
	if percent, err := strconv.ParseFloat(string(r.Percent), 64); err == nil {
		t.Percent = int(min(max(percent, 0), 100))
	}
	if n := len(r.Messages); n > 0 {
		t.Message = r.Messages[n-1].Text
	}
	switch r.State {
	case "":
	case "Completed":
		t.State, t.Percent = bmc.TaskSucceeded, 100
		if r.Status == "Critical" {
			t.State = bmc.TaskFailed
		}
	case "Exception", "Killed", "Cancelled":
		t.State = bmc.TaskFailed
	case "Suspended", "Interrupted", "UserIntervention":
		t.State = bmc.TaskWaitsForReset
	default:
		t.State = bmc.TaskRunning
		// Pending waits for a condition (DSP2046): for a restart if the work is done or the
		// message says so.
		if r.State == "Pending" && (t.Percent == 100 || saysRestart(t.Message)) {
			t.State = bmc.TaskWaitsForReset
		}
		if slices.ContainsFunc(r.Messages, taskMessage.asksForReset) || r.isScheduled() {
			t.State = bmc.TaskWaitsForReset
		}
	}
	return t
}

// isScheduled reports whether a task starts with the next boot. Dell says that only by a message, at
// 0 % (JCP001, "Task successfully scheduled.": github.com/dell/iDRAC-Redfish-Scripting issue 32).
func (r taskResource) isScheduled() bool {
	if !slices.Contains([]string{"Scheduled", "Pending", "New", "Starting"}, r.State) || len(r.Messages) == 0 {
		return false
	}
	m := r.Messages[len(r.Messages)-1]
	return m.ID == "JCP001" || strings.HasSuffix(m.ID, ".JCP001") || strings.Contains(strings.ToLower(m.Text), "successfully scheduled")
}

// asksForReset reports a message of the registries Base and Update that the task waits for a reset.
func (m taskMessage) asksForReset() bool {
	_, name, _ := cutLast(m.ID, ".")
	return slices.Contains([]string{"ResetRequired", "ResourceResetRequired", "AwaitToActivate"}, name)
}

func saysRestart(message string) bool {
	lower := strings.ToLower(message)
	return strings.Contains(lower, "restart") || strings.Contains(lower, "reset") || strings.Contains(lower, "reboot")
}

func cutLast(s, sep string) (before, after string, found bool) {
	if i := strings.LastIndex(s, sep); i >= 0 {
		return s[:i], s[i+len(sep):], true
	}
	return "", s, false
}

// Task implements bmc.Firmware.
func (c *conn) Task(ctx context.Context, id string) (bmc.Task, error) {
	c.begin(ctx)
	var raw json.RawMessage
	err := c.getMaybeEmpty(id, &raw)
	status := c.transport.last.status
	if e, ok := refusal(err); ok && !isMissing(err) && e.status >= 400 && !errors.Is(err, bmc.ErrBusy) && !errors.Is(err, bmc.ErrUnauthorized) &&
		!strings.Contains(id, "/Tasks/") {
		// At the end, a monitor answers as the operation itself would have.
		return bmc.Task{ID: id, State: bmc.TaskFailed, Percent: -1, Message: bmc.Shorten(e.text, maxMessage-4)}, nil
	}
	if err != nil {
		return bmc.Task{}, fmt.Errorf("read task: %w", err)
	}
	var r taskResource
	if len(raw) > 0 {
		if err := decode(raw, &r); err != nil {
			return bmc.Task{}, fmt.Errorf("read task: %w", err)
		}
	}
	t := r.task(status == http.StatusAccepted)
	t.ID = id
	t.Message = c.short(t.Message, maxMessage-4)
	if t.State == bmc.TaskSucceeded {
		t.Percent = 100
	}
	return t, nil
}

// getMaybeEmpty is get for an answer without a body.
func (c *conn) getMaybeEmpty(path string, into *json.RawMessage) error {
	body, err := c.read(path)
	if err != nil {
		return err
	}
	if len(body) > 0 && !json.Valid(body) {
		return fmt.Errorf("read %s: %w: not JSON", c.short(path, 200), bmc.ErrProtocol)
	}
	*into = body
	return nil
}
