// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/events"
	"github.com/ingot-metal/ingot/lab/bmc/hardware"
	"github.com/ingot-metal/ingot/lab/bmc/journal"
	"github.com/ingot-metal/ingot/lab/bmc/media"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/settings"
	"github.com/ingot-metal/ingot/lab/bmc/task"
	"github.com/ingot-metal/ingot/lab/bmc/update"
	"github.com/ingot-metal/ingot/lab/bmc/web"
)

// services are the services of a BMC with a personality, in addition to power and boot override.
type services struct {
	p        Personality
	tasks    *task.List
	settings *settings.Service
	update   *update.Service
	media    *media.Service
	hardware *hardware.Service
	journal  *journal.Service
	events   *events.Service
	watch    events.Watch
	web      *web.Service // nil: none
}

// service is the interface of each service.
type service interface {
	Read(path string) (resource.Object, bool)
}

type writer interface {
	Write(r resource.Request) (resource.Answer, bool)
}

func newServices(b *BMC) *services {
	client := b.cfg.Client
	if client == nil {
		client = http.DefaultClient
	}
	s := &services{p: b.p, tasks: task.New(task.Config{Steps: b.cfg.TaskSteps, Jobs: b.p.Jobs, DropDone: b.p.Quirks.DropDoneTasks})}
	s.settings = settings.New(settings.Config{Personality: b.p, Tasks: s.tasks, SetUEFI: func(uefi bool) {
		boot := b.cfg.Machine.Boot()
		if boot.Mode = Legacy; uefi {
			boot.Mode = UEFI
		}
		b.cfg.Machine.SetBoot(boot)
	}})
	s.update = update.New(update.Config{Personality: b.p, Tasks: s.tasks, Client: client})
	if b.p.WebBoard != "" {
		s.web = web.New(web.Config{
			Username: b.cfg.Username, Password: b.sessions.Password, Board: b.p.WebBoard, Serial: b.cfg.System.Serial, Flash: b.p.WebFlash, Update: s.update,
		})
	}
	s.media = media.New(b.p)
	s.hardware = hardware.New(hardware.Config{
		Personality: b.p, Cores: b.cfg.System.Cores, MemoryBytes: b.cfg.System.MemoryBytes, Drives: b.cfg.System.Drives,
	})
	s.journal = journal.New(b.p, b.cfg.Now)
	s.watch = events.Watch{Poll: b.catchUp, Powered: b.cfg.Machine.Powered, Changed: s.sendPower}
	s.events = events.New(events.Config{Personality: b.p, Client: client, OnUse: s.watch.Begin, OnIdle: s.watch.End})
	return s
}

func (s *services) close() {
	s.events.Close()
	s.watch.Close()
	s.update.Close()
}

func (s *services) read(path string) (resource.Object, bool) {
	if path != task.Service && strings.HasPrefix(path, task.Service+"/") || s.p.Jobs != "" && strings.HasPrefix(path, s.p.Jobs+"/") {
		s.tasks.Step()
	}
	for _, r := range []service{s.tasks, s.settings, s.update, s.media, s.hardware, s.journal, s.events} {
		if res, ok := r.Read(path); ok {
			return res, true
		}
	}
	return nil, false
}

func (s *services) write(r resource.Request) (resource.Answer, bool) {
	for _, w := range []writer{s.settings, s.update, s.media, s.journal, s.events} {
		if a, ok := w.Write(r); ok {
			return a, true
		}
	}
	return resource.Answer{}, false
}

func (s *services) linkRoot(root object) {
	for _, name := range []string{"Registries", "AccountService", "UpdateService"} {
		root[name] = resource.Ref(resource.Root + "/" + name)
	}
	root["Tasks"] = resource.Ref(task.Service)
	if s.p.Subscriptions > 0 {
		root["EventService"] = resource.Ref(resource.Root + "/EventService")
	}
}

func (s *services) linkSystem(system object) {
	system["BiosVersion"] = s.update.Version(update.BIOS)
	s.settings.Link(system)
	s.media.Link(personality.OnSystem, system)
	s.journal.Link(personality.OnSystem, system)
	s.hardware.Link(system)
}

func (s *services) linkManager(manager object) {
	manager["FirmwareVersion"] = s.update.Version(update.BMC)
	s.media.Link(personality.OnManager, manager)
	s.journal.Link(personality.OnManager, manager)
}

// booted informs the services of a boot of the machine.
func (s *services) booted() {
	s.settings.Booted()
	s.tasks.Signal(task.Boot)
	s.journal.Append("OK", "The system has started.")
}

func (s *services) sendHealth(part, health string) {
	s.events.Send(events.Event{
		MessageID: "ResourceEvent.1.3.ResourceStatusChanged" + health, Message: part + " is " + health + ".", Severity: health, Origin: s.p.System(),
	})
}

func (s *services) sendPower(on bool) {
	id, message := s.p.PowerEvents[1], "The system is powered off."
	if on {
		id, message = s.p.PowerEvents[0], "The system is powered on."
	}
	s.events.Send(events.Event{MessageID: id, Message: message, Origin: s.p.System()})
}
