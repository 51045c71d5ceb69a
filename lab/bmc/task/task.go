// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package task

import (
	"cmp"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// Service is the path of the task service.
const Service = resource.Root + "/TaskService"

const (
	pathTasks    = Service + "/Tasks"
	pathMonitors = Service + "/TaskMonitors"
	// maxTasks bounds the tasks; the oldest are dropped.
	maxTasks = 64
)

// Wait is the condition of a task after its work is done.
type Wait string

// The waits.
const (
	Nothing      Wait = ""
	Boot         Wait = "Boot"
	ManagerReset Wait = "ManagerReset"
)

// Config describes a task service.
type Config struct {
	// Steps of each task; 0: 3.
	Steps int
	// Jobs is the path of a job queue that shows the tasks too; empty: none. Its tasks have IDs like
	// JID_000000000001.
	Jobs string
	// DropDone forgets successful tasks, but not their jobs.
	DropDone bool
}

// Options describes a task.
type Options struct {
	Name string
	// Until is the condition after the work is done.
	Until Wait
	// Idle tasks have no work: they wait at once (a BIOS settings job).
	Idle bool
	// Held tasks make no progress until Release: their image is being transferred.
	Held bool
	// Done is called once after success, without locks; nil: not called.
	Done func()
}

// Task is one task. Its methods are safe for concurrent use.
type Task struct {
	list    *List
	opts    Options
	id      string
	state   string
	percent int
	message string
	held    bool
	// gone reports that the monitor has returned the result.
	gone bool
}

// List is a task service. It is safe for concurrent use.
type List struct {
	cfg Config

	mu    sync.Mutex
	tasks []*Task
	last  int
}

// New returns a task service without tasks.
func New(cfg Config) *List {
	cfg.Steps = cmp.Or(cfg.Steps, 3)
	return &List{cfg: cfg}
}

// Start starts a task.
func (l *List) Start(opts Options) *Task {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.last++
	t := &Task{list: l, opts: opts, id: strconv.Itoa(l.last), state: "Running", message: "The task is running.", held: opts.Held}
	if l.cfg.Jobs != "" {
		t.id = fmt.Sprintf("JID_%012d", l.last)
	}
	if opts.Idle {
		t.wait()
	}
	if l.tasks = append(l.tasks, t); len(l.tasks) > maxTasks {
		l.tasks = l.tasks[1:]
	}
	return t
}

// wait must be called with the lock held.
func (t *Task) wait() {
	t.state, t.message = "Pending", "The task waits for a restart of the system."
	if t.opts.Until == ManagerReset {
		t.message = "The task waits for a restart of the manager."
	}
}

// Path returns the @odata.id of the task.
func (t *Task) Path() string { return pathTasks + "/" + t.id }

// Monitor returns the URI of the task monitor.
func (t *Task) Monitor() string { return pathMonitors + "/" + t.id }

// JobPath returns the path of the task in the job queue, or Path if there is none.
func (t *Task) JobPath() string {
	if t.list.cfg.Jobs == "" {
		return t.Path()
	}
	return t.list.cfg.Jobs + "/" + t.id
}

// oldJobPath returns the path of the job in older firmware, which newer firmware has too.
func (t *Task) oldJobPath() string {
	return strings.TrimSuffix(t.list.cfg.Jobs, "/Jobs") + "/Oem/Dell/Jobs/" + t.id
}

// Release lets a held task continue and sets its condition.
func (t *Task) Release(until Wait) {
	t.list.mu.Lock()
	defer t.list.mu.Unlock()
	t.held, t.opts.Until = false, until
}

// Fail ends the task with a failure.
func (t *Task) Fail(why string) {
	t.list.mu.Lock()
	defer t.list.mu.Unlock()
	t.state, t.message = "Exception", why
}

// Object returns the task as a resource.
func (t *Task) Object() resource.Object {
	t.list.mu.Lock()
	defer t.list.mu.Unlock()
	return t.object()
}

func (t *Task) object() resource.Object {
	o := resource.New(t.Path(), "Task.v1_7_3", t.opts.Name)
	o["TaskState"], o["PercentComplete"], o["TaskMonitor"] = t.state, t.percent, t.Monitor()
	o["TaskStatus"] = "OK"
	if t.state == "Exception" {
		o["TaskStatus"] = "Critical"
	}
	o["Messages"] = []resource.Object{{"MessageId": "TaskEvent.1.0.TaskProgressChanged", "Message": t.message}}
	if t.scheduled() {
		o["TaskState"], o["PercentComplete"] = "Starting", 0
		o["Messages"] = []resource.Object{{"MessageId": "IDRAC.2.8.JCP001", "Message": dellScheduled}}
	}
	return o
}

// dellScheduled is all that Dell shows of a task that waits for a boot.
const dellScheduled = "Task successfully scheduled."

func (t *Task) scheduled() bool {
	return t.list.cfg.Jobs != "" && t.state == "Pending" && t.opts.Until == Boot
}

// Step advances all tasks and finishes those without work or condition.
func (l *List) Step() {
	l.finish(func(t *Task) bool {
		if t.state != "Running" || t.held {
			return false
		}
		if t.percent += (99 + l.cfg.Steps) / l.cfg.Steps; t.percent < 100 {
			return false
		}
		if t.percent = 100; t.opts.Until == Nothing {
			return true
		}
		t.wait()
		return false
	})
}

// Signal finishes the tasks with this condition.
func (l *List) Signal(what Wait) {
	l.finish(func(t *Task) bool { return t.state == "Pending" && t.opts.Until == what })
}

func (l *List) finish(ended func(*Task) bool) {
	var done []func()
	l.mu.Lock()
	for _, t := range l.tasks {
		if ended(t) {
			t.state, t.percent, t.message = "Completed", 100, "The task completed successfully."
			if t.opts.Done != nil {
				done = append(done, t.opts.Done)
			}
		}
	}
	l.mu.Unlock()
	for _, f := range done {
		f()
	}
}

// Read returns the service, a task or a job.
func (l *List) Read(path string) (resource.Object, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch path {
	case Service:
		o := resource.New(path, "TaskService.v1_2_1", "Task Service")
		o["ServiceEnabled"], o["Tasks"] = true, resource.Ref(pathTasks)
		return o, true
	case pathTasks:
		return resource.Collection(path, "Task", l.paths(l.shown(), (*Task).Path)), true
	case l.cfg.Jobs:
		return resource.Collection(path, "DellJob", l.paths(l.tasks, (*Task).JobPath)), path != ""
	}
	for _, t := range l.tasks {
		switch {
		case path == t.Path() && !l.dropped(t):
			return t.object(), true
		case l.cfg.Jobs != "" && (path == t.JobPath() || path == t.oldJobPath()):
			return t.job(), true
		}
	}
	return nil, false
}

// dropped reports whether a task is forgotten.
func (l *List) dropped(t *Task) bool { return l.cfg.DropDone && t.state == "Completed" }

// shown returns the other tasks.
func (l *List) shown() []*Task { return slices.DeleteFunc(slices.Clone(l.tasks), l.dropped) }

func (l *List) paths(tasks []*Task, path func(*Task) string) []string {
	paths := make([]string, len(tasks))
	for i, t := range tasks {
		paths[i] = path(t)
	}
	return paths
}

// job returns the task as Dell's job queue shows it.
func (t *Task) job() resource.Object {
	o := resource.New(t.JobPath(), "DellJob.v1_5_0", t.opts.Name)
	state := map[string]string{"Pending": "Scheduled", "Exception": "Failed"}[t.state]
	if state == "" {
		state = t.state
	}
	o["JobState"], o["PercentComplete"], o["Message"] = state, t.percent, t.message
	if t.state == "Pending" {
		o["PercentComplete"] = 0
	}
	if t.scheduled() {
		o["Message"], o["MessageId"] = dellScheduled, "JCP001"
	}
	return o
}

// Monitor answers GET of a task monitor: 202 while the task runs, then once the result, then 404
// (DSP0266, task monitors).
func (l *List) Monitor(path string) (resource.Answer, bool) {
	id, ok := strings.CutPrefix(path, pathMonitors+"/")
	if !ok {
		return resource.Answer{}, false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, t := range l.tasks {
		if t.id != id || t.gone {
			continue
		}
		switch t.state {
		case "Completed":
			t.gone = true
			return resource.Answer{Status: http.StatusOK, Body: t.object()}, true
		case "Exception":
			t.gone = true
			return resource.Fail(http.StatusInternalServerError, "InternalError", t.message), true
		}
		return resource.Answer{Status: http.StatusAccepted, Location: t.Monitor(), Body: t.object()}, true
	}
	return resource.Answer{}, false
}
