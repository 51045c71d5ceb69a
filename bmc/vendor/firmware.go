// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/bmc-toolbox/bmclib/v2/constants"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/bmc/redfish"
)

const (
	tasks = "/redfish/v1/TaskService/Tasks/"
	// ownTask starts the ID of a task that only bmclib can follow; the component follows.
	ownTask = "bmclib:"
	// verifyEvery is the pause between questions whether the BMC has verified an image.
	verifyEvery = 2 * time.Second
)

// redfishConn is a connection of package redfish. Its session ends while bmclib pushes firmware, so
// that Ingot has at most one session with a BMC.
type redfishConn struct {
	bmc.Conn
	spec   driverSpec
	target bmc.Target
	// verifyEvery is the constant; tests shorten it.
	verifyEvery time.Duration
	// old is a connection of bmclib that may still be ending its session.
	old *link
	// lingering are earlier Redfish connections whose sessions the BMC may have kept.
	lingering []bmc.Conn
}

// maxLingering bounds these connections, since a BMC has few sessions.
const maxLingering = 4

func (d driverSpec) dialRedfish(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	c := &redfishConn{spec: d, target: target, verifyEvery: verifyEvery}
	if err := c.redial(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// redial opens a Redfish session.
func (c *redfishConn) redial(ctx context.Context) error {
	ep, err := parseAddress(c.spec.name, c.target.Address)
	if err != nil {
		return err
	}
	target := c.target
	target.Address = redfish.Scheme + "://" + ep.host
	conn, err := redfish.Dial(ctx, target)
	if err != nil {
		return err
	}
	if c.Conn != nil && hasOpenSession(c.Conn) {
		if c.lingering = append(c.lingering, c.Conn); len(c.lingering) > maxLingering {
			c.lingering = c.lingering[1:]
		}
	}
	c.Conn = conn
	return nil
}

func hasOpenSession(conn bmc.Conn) bool {
	lingerer, can := conn.(bmc.MaybeOpen)
	return can && lingerer.MayBeOpen()
}

// withLibrary ends the Redfish session, runs calls with bmclib, and opens a new Redfish session. If
// that fails, the ended session stays: the BMC answers it with 401, and the pool opens a new
// connection. An error before calls is an ErrUnsent.
func (c *redfishConn) withLibrary(ctx context.Context, calls func(l *link) error) error {
	if err := c.Close(ctx); err != nil {
		return fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	}
	l, err := dialLink(ctx, c.spec, c.target)
	if err != nil {
		err = fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	} else {
		err = calls(l)
		if ctx.Err() != nil {
			l.abandon(ctx)
			c.old = l
			return err
		}
		_ = l.close(ctx) // on an error, the BMC's timeout ends the session
	}
	if ctx.Err() == nil {
		_ = c.redial(ctx) // on an error, the next call fails
	}
	return err
}

// SweepSessions implements bmc.Sweeper, as far as our Redfish driver can.
func (c *redfishConn) SweepSessions(ctx context.Context) (int, error) {
	if sweeper, can := c.Conn.(bmc.Sweeper); can {
		return sweeper.SweepSessions(ctx)
	}
	return 0, nil
}

// MayBeOpen implements bmc.MaybeOpen.
func (c *redfishConn) MayBeOpen() bool { return hasOpenSession(c.Conn) || len(c.lingering) > 0 }

// Close implements bmc.Conn. It reaches the BMC even if ctx has ended.
func (c *redfishConn) Close(ctx context.Context) error {
	err := c.Conn.Close(ctx)
	if c.old != nil {
		err = errors.Join(err, c.old.close(ctx))
		c.old = nil
	}
	left := c.lingering
	c.lingering = nil
	for i, conn := range left {
		if err != nil { // the BMC would fail the others too
			c.lingering = append(c.lingering, left[i:]...)
			break
		}
		if err = conn.Close(ctx); err != nil || hasOpenSession(conn) {
			c.lingering = append(c.lingering, conn)
		}
	}
	return err
}

// The interfaces by which bmclib's drivers install firmware.
type (
	// starter uploads and installs in one call.
	starter interface {
		FirmwareInstallUploadAndInitiate(ctx context.Context, component string, file *os.File) (taskID string, err error)
	}
	// stager uploads, lets the BMC verify the image, and then installs it.
	stager interface {
		FirmwareUpload(ctx context.Context, component string, file *os.File) (taskID string, err error)
		FirmwareInstallUploaded(ctx context.Context, component, uploadTaskID string) (taskID string, err error)
		follower
	}
	follower interface {
		FirmwareTaskStatus(ctx context.Context, kind constants.FirmwareInstallStep, component, taskID, installVersion string) (constants.TaskState, string, error)
	}
)

// UpdateMethods implements bmc.Firmware. bmclib can push to all of these BMCs.
func (c *redfishConn) UpdateMethods(ctx context.Context) (bmc.UpdateMethods, error) {
	ways, err := c.Conn.UpdateMethods(ctx)
	ways.Push = true
	return ways, err
}

// UpdateFirmware implements bmc.Firmware. Images that the BMC fetches go through Redfish.
func (c *redfishConn) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	const what = "update firmware"
	if update.Image == nil || update.URL != "" {
		return c.Conn.UpdateFirmware(ctx, update)
	}
	component := componentOf(update)
	if component == "" && c.spec.name == nameSupermicro {
		return bmc.Task{}, fmt.Errorf("%s: %w", what, unsupported("neither target nor file name shows whether the image is for the BIOS or the BMC"))
	}
	file, err := spool(ctx, update)
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w: %w", what, bmc.ErrUnsent, err)
	}
	defer func() { _ = file.Close() }()
	var task bmc.Task
	err = c.withLibrary(ctx, func(l *link) (err error) {
		task, err = c.install(ctx, l, component, file)
		return err
	})
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w", what, err)
	}
	return task, nil
}

// install pushes an image and installs it.
func (c *redfishConn) install(ctx context.Context, l *link, component string, file *os.File) (bmc.Task, error) {
	id := make(chan string, 1) // the goroutine of a call may outlive the call
	push := func(f func(ctx context.Context) (string, error)) (string, error) {
		err := l.call(ctx, write, "push image", func(ctx context.Context) error {
			task, err := f(ctx)
			id <- task
			return err
		})
		if err != nil {
			return "", err
		}
		return <-id, nil
	}
	switch lib := l.lib.(type) {
	case starter:
		task, err := push(func(ctx context.Context) (string, error) {
			return lib.FirmwareInstallUploadAndInitiate(ctx, component, file)
		})
		return taskOf(task, component), err
	case stager:
		uploaded, err := push(func(ctx context.Context) (string, error) { return lib.FirmwareUpload(ctx, component, file) })
		if err != nil {
			return bmc.Task{}, err
		}
		if err := c.verify(ctx, l, lib, component, uploaded); err != nil {
			return bmc.Task{}, err
		}
		task, err := push(func(ctx context.Context) (string, error) {
			return lib.FirmwareInstallUploaded(ctx, component, uploaded)
		})
		return taskOf(task, component), err
	}
	return bmc.Task{}, unsupported("driver %s cannot install firmware", c.spec.name)
}

// verify waits until the BMC has verified an uploaded image; task is empty if the upload did that.
func (c *redfishConn) verify(ctx context.Context, l *link, lib follower, component, task string) error {
	if task == "" {
		return nil
	}
	for {
		t, err := follow(ctx, l, lib, constants.FirmwareInstallStepUploadStatus, component, task)
		switch {
		case err != nil:
			return err
		case t.State == bmc.TaskSucceeded:
			return nil
		case t.State != bmc.TaskRunning:
			return fmt.Errorf("%w: the BMC rejected the image: %s", bmc.ErrNotApplied, t.Message)
		}
		wait := time.NewTimer(c.verifyEvery)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return l.failure(ctx, read, "wait for verification of the image", ctx.Err())
		}
	}
}

// taskOf returns a task with an ID for Redfish or, without a task ID, for bmclib.
func taskOf(id, component string) bmc.Task {
	t := bmc.Task{ID: tasks + id, State: bmc.TaskRunning, Percent: -1}
	if id == "" {
		t.ID = ownTask + component
	}
	return t
}

// Task implements bmc.Firmware. iDRAC drops a successful task but keeps its job, which only bmclib
// can find.
func (c *redfishConn) Task(ctx context.Context, id string) (bmc.Task, error) {
	if component, ok := strings.CutPrefix(id, ownTask); ok && isComponent(component) {
		return c.readLibraryTask(ctx, id, component, "")
	}
	t, err := c.Conn.Task(ctx, id)
	if job, ok := strings.CutPrefix(id, tasks); ok && c.spec.name == nameDell && errors.Is(err, bmc.ErrNotSupported) && isJob.MatchString(job) {
		return c.readLibraryTask(ctx, id, "", job)
	}
	return t, err
}

var isJob = regexp.MustCompile(`^JID_\d{1,20}$`)

func (c *redfishConn) readLibraryTask(ctx context.Context, id, component, task string) (t bmc.Task, err error) {
	err = c.withLibrary(ctx, func(l *link) error {
		lib, ok := l.lib.(follower)
		if !ok {
			return unsupported("driver %s cannot follow tasks", c.spec.name)
		}
		t, err = follow(ctx, l, lib, constants.FirmwareInstallStepInstallStatus, component, task)
		return err
	})
	if err != nil {
		return bmc.Task{}, fmt.Errorf("read task: %w", err)
	}
	t.ID = id
	return t, nil
}

// follow reads a task.
func follow(ctx context.Context, l *link, lib follower, kind constants.FirmwareInstallStep, component, task string) (bmc.Task, error) {
	answer := make(chan bmc.Task, 1) // the goroutine of a call may outlive the call
	err := l.call(ctx, read, "read task", func(ctx context.Context) error {
		state, status, err := lib.FirmwareTaskStatus(ctx, kind, component, task, "")
		answer <- bmc.Task{State: stateOf(state), Percent: percentOf(status), Message: bmc.Shorten(l.clean(status), maxMessage)}
		return err
	})
	if err != nil {
		return bmc.Task{}, err
	}
	t := <-answer
	if t.State == bmc.TaskSucceeded {
		t.Percent = 100
	}
	return t, nil
}

// maxMessage bounds the message of a task, in bytes without the ellipsis.
const maxMessage = 252

func stateOf(s constants.TaskState) bmc.TaskState {
	switch s {
	case constants.Complete:
		return bmc.TaskSucceeded
	case constants.Failed:
		return bmc.TaskFailed
	case constants.PowerCycleHost:
		return bmc.TaskWaitsForReset
	}
	return bmc.TaskRunning
}

var percentage = regexp.MustCompile(`\b(\d{1,3})%`)

// percentOf returns the progress in bmclib's status text, or -1.
func percentOf(status string) int {
	m := percentage.FindStringSubmatch(status)
	if m == nil {
		return -1
	}
	n, err := strconv.Atoi(m[1])
	if err != nil {
		return -1
	}
	return min(n, 100)
}
