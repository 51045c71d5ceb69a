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
	// ownTask begins the IDs of tasks that only the library can follow; the
	// component follows.
	ownTask = "bmclib:"
	// verifyEvery is how often a BMC is asked whether it has verified an image.
	verifyEvery = 2 * time.Second
)

// overRedfish is a connection by our Redfish driver, whose session gives way to the
// library's while that pushes firmware: a BMC has one session of ours at any time.
type overRedfish struct {
	bmc.Conn
	maker  maker
	target bmc.Target
	// verifyEvery is the constant, but for tests.
	verifyEvery time.Duration
	// old is a connection of the library whose end nobody has waited for yet.
	old *link
	// left are our earlier connections whose sessions the BMC may have kept.
	left []bmc.Conn
}

// maxLeft bounds those that are kept: a BMC has few places for more.
const maxLeft = 4

func (m maker) dialOverRedfish(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	c := &overRedfish{maker: m, target: target, verifyEvery: verifyEvery}
	if _, err := parseAddress(m.name, target.Address); err != nil {
		return nil, err
	}
	if err := c.redial(ctx); err != nil {
		return nil, err
	}
	return c, nil
}

// redial opens a Redfish session.
func (c *overRedfish) redial(ctx context.Context) error {
	ep, err := parseAddress(c.maker.name, c.target.Address)
	if err != nil {
		return err
	}
	target := c.target
	target.Address = redfish.Scheme + "://" + ep.host
	conn, err := redfish.Dial(ctx, target)
	if err != nil {
		return err
	}
	if c.Conn != nil && lingers(c.Conn) {
		if c.left = append(c.left, c.Conn); len(c.left) > maxLeft {
			c.left = c.left[1:]
		}
	}
	c.Conn = conn
	return nil
}

func lingers(conn bmc.Conn) bool {
	lingerer, can := conn.(bmc.Lingerer)
	return can && lingerer.Lingers()
}

// byLibrary ends the Redfish session, makes the library's calls, and opens another.
// Where that fails, the ended one stays: the BMC answers it with 401, and the pool
// takes a new connection. An error before the calls is an ErrUnsent.
func (c *overRedfish) byLibrary(ctx context.Context, calls func(l *link) error) error {
	if err := c.Close(ctx); err != nil {
		return fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	}
	l, err := dialLink(ctx, c.maker, c.target)
	if err != nil {
		err = fmt.Errorf("%w: %w", bmc.ErrUnsent, err)
	} else {
		err = calls(l)
		if ctx.Err() != nil {
			l.abandon(ctx)
			c.old = l
			return err
		}
		_ = l.close(ctx) // the BMC's own timeout ends what could not be
	}
	if ctx.Err() == nil {
		_ = c.redial(ctx) // the next call finds out
	}
	return err
}

// SweepSessions implements bmc.Sweeper, as far as our Redfish driver can.
func (c *overRedfish) SweepSessions(ctx context.Context) (int, error) {
	if sweeper, can := c.Conn.(bmc.Sweeper); can {
		return sweeper.SweepSessions(ctx)
	}
	return 0, nil
}

// Lingers implements bmc.Lingerer.
func (c *overRedfish) Lingers() bool { return lingers(c.Conn) || len(c.left) > 0 }

// Close implements bmc.Conn. It also reaches the BMC when ctx has ended.
func (c *overRedfish) Close(ctx context.Context) error {
	err := c.Conn.Close(ctx)
	if c.old != nil {
		err = errors.Join(err, c.old.close(ctx))
		c.old = nil
	}
	left := c.left
	c.left = nil
	for i, conn := range left {
		if err != nil { // the BMC has no time for the others either
			c.left = append(c.left, left[i:]...)
			break
		}
		if err = conn.Close(ctx); err != nil || lingers(conn) {
			c.left = append(c.left, conn)
		}
	}
	return err
}

// The library's ways to install firmware.
type (
	// starter uploads and installs.
	starter interface {
		FirmwareInstallUploadAndInitiate(ctx context.Context, component string, file *os.File) (taskID string, err error)
	}
	// stager uploads, lets the BMC verify, and installs.
	stager interface {
		FirmwareUpload(ctx context.Context, component string, file *os.File) (taskID string, err error)
		FirmwareInstallUploaded(ctx context.Context, component, uploadTaskID string) (taskID string, err error)
		follower
	}
	follower interface {
		FirmwareTaskStatus(ctx context.Context, kind constants.FirmwareInstallStep, component, taskID, installVersion string) (constants.TaskState, string, error)
	}
)

// UpdateWays implements bmc.Firmware: the library pushes to all of them.
func (c *overRedfish) UpdateWays(ctx context.Context) (bmc.UpdateWays, error) {
	ways, err := c.Conn.UpdateWays(ctx)
	ways.Push = true
	return ways, err
}

// UpdateFirmware implements bmc.Firmware. What the BMC fetches itself, it is told by
// Redfish.
func (c *overRedfish) UpdateFirmware(ctx context.Context, update bmc.Update) (bmc.Task, error) {
	const what = "update firmware"
	if update.Image == nil || update.URL != "" {
		return c.Conn.UpdateFirmware(ctx, update)
	}
	component := componentOf(update)
	if component == "" && c.maker.name == nameSupermicro {
		return bmc.Task{}, fmt.Errorf("%s: %w", what, refused("neither target nor file name says whether the image is of the BIOS or of the BMC"))
	}
	file, err := spool(ctx, update)
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w: %w", what, bmc.ErrUnsent, err)
	}
	defer func() { _ = file.Close() }()
	var task bmc.Task
	err = c.byLibrary(ctx, func(l *link) (err error) {
		task, err = c.install(ctx, l, component, file)
		return err
	})
	if err != nil {
		return bmc.Task{}, fmt.Errorf("%s: %w", what, err)
	}
	return task, nil
}

// install pushes an image and has it installed.
func (c *overRedfish) install(ctx context.Context, l *link, component string, file *os.File) (bmc.Task, error) {
	id := make(chan string, 1) // calls may outlive this one
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
	return bmc.Task{}, refused("the driver %s installs no firmware", c.maker.name)
}

// verify waits until the BMC has verified an uploaded image, where that is a task.
func (c *overRedfish) verify(ctx context.Context, l *link, lib follower, component, task string) error {
	if task == "" {
		return nil // verified before the upload returned
	}
	for {
		t, err := follow(ctx, l, lib, constants.FirmwareInstallStepUploadStatus, component, task)
		switch {
		case err != nil:
			return err
		case t.State == bmc.TaskSucceeded:
			return nil
		case t.State != bmc.TaskRunning:
			return fmt.Errorf("%w: the BMC did not accept the image: %s", bmc.ErrNotApplied, t.Message)
		}
		wait := time.NewTimer(c.verifyEvery)
		select {
		case <-wait.C:
		case <-ctx.Done():
			wait.Stop()
			return l.failure(ctx, read, "wait for the image's verification", ctx.Err())
		}
	}
}

// taskOf names a task so that it can be followed: by Redfish where it is one of its
// tasks.
func taskOf(id, component string) bmc.Task {
	t := bmc.Task{ID: tasks + id, State: bmc.TaskRunning, Percent: -1}
	if id == "" {
		t.ID = ownTask + component
	}
	return t
}

// Task implements bmc.Firmware. iDRACs drop a task when it has ended well, and keep
// the job behind it, which only the library knows to find.
func (c *overRedfish) Task(ctx context.Context, id string) (bmc.Task, error) {
	if component, ok := strings.CutPrefix(id, ownTask); ok && isComponent(component) {
		return c.taskByLibrary(ctx, id, component, "")
	}
	t, err := c.Conn.Task(ctx, id)
	if job, ok := strings.CutPrefix(id, tasks); ok && c.maker.name == nameDell && errors.Is(err, bmc.ErrNotSupported) && isJob.MatchString(job) {
		return c.taskByLibrary(ctx, id, "", job)
	}
	return t, err
}

var isJob = regexp.MustCompile(`^JID_\d{1,20}$`)

func (c *overRedfish) taskByLibrary(ctx context.Context, id, component, task string) (t bmc.Task, err error) {
	err = c.byLibrary(ctx, func(l *link) error {
		lib, ok := l.lib.(follower)
		if !ok {
			return refused("the driver %s follows no tasks", c.maker.name)
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
	answer := make(chan bmc.Task, 1) // the call may outlive this one
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

// maxMessage bounds a task's message, in bytes, with room for the ellipsis.
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

// percentOf finds the progress in the library's words; -1: not told.
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
