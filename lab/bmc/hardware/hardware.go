// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package hardware

import (
	"fmt"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// Config describes the parts.
type Config struct {
	Personality personality.Personality
	// Cores of the one processor; MemoryBytes in two modules.
	Cores       int
	MemoryBytes int64
	// Drives; nil: one of 480 GB.
	Drives []Drive
}

// Drive is a drive as the BMC shows it.
type Drive struct {
	Model, Serial string
	Bytes         int64
	// Kind is Redfish's MediaType: "SSD" or "HDD".
	Kind string
}

// Service has the parts. It is safe for concurrent use.
type Service struct {
	cfg             Config
	system, chassis string

	mu sync.Mutex
	// health of the parts that are not OK, by name.
	health map[string]string
}

// New returns the parts of a healthy server.
func New(cfg Config) *Service {
	if cfg.Drives == nil {
		cfg.Drives = []Drive{{Model: "Lab Drive", Serial: "D1", Bytes: 480e9, Kind: "SSD"}}
	}
	return &Service{cfg: cfg, system: cfg.Personality.System(), chassis: cfg.Personality.Chassis()}
}

// SetHealth sets the health of a part ("Fan 1", "PSU 2", "Inlet", "CPU 1", "DIMM 2", "Drive 1") to
// "OK", "Warning" or "Critical".
func (s *Service) SetHealth(part, health string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.health == nil {
		s.health = map[string]string{}
	}
	s.health[part] = health
	if health == "OK" {
		delete(s.health, part)
	}
}

// healthOf returns the health of a part.
func (s *Service) healthOf(part string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.health[part]; h != "" {
		return h
	}
	return "OK"
}

// Rollup returns the worst health of all parts.
func (s *Service) Rollup() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	worst := "OK"
	for _, h := range s.health {
		if h == "Critical" {
			return h
		}
		worst = h
	}
	return worst
}

// Link adds the links and summaries to the system.
func (s *Service) Link(system resource.Object) {
	for _, name := range []string{"Processors", "Memory", "Storage"} {
		system[name] = resource.Ref(s.system + "/" + name)
	}
	health := s.Rollup()
	system["Status"] = resource.Object{"State": "Enabled", "Health": health, "HealthRollup": health}
}

// LinkChassis adds the links to the chassis.
func (s *Service) LinkChassis(chassis resource.Object) {
	kind := s.cfg.Personality.Sensors
	if kind != personality.NewSensors {
		chassis["Thermal"], chassis["Power"] = resource.Ref(s.chassis+"/Thermal"), resource.Ref(s.chassis+"/Power")
	}
	if kind != personality.OldSensors {
		for _, name := range []string{"ThermalSubsystem", "PowerSubsystem", "Sensors"} {
			chassis[name] = resource.Ref(s.chassis + "/" + name)
		}
	}
	chassis["Status"] = resource.Health(s.Rollup())
}

// Broken reports whether path is the first drive.
func (s *Service) Broken(path string) bool {
	return path == s.system+"/Storage/1/Drives/1"
}

// Read returns a part.
func (s *Service) Read(path string) (resource.Object, bool) {
	if tail, ok := strings.CutPrefix(path, s.system+"/"); ok {
		return s.readSystem(path, tail)
	}
	if tail, ok := strings.CutPrefix(path, s.chassis+"/"); ok {
		return s.readChassis(path, tail)
	}
	return nil, false
}

func numbered(path string, n int) []string {
	paths := make([]string, n)
	for i := range paths {
		paths[i] = fmt.Sprintf("%s/%d", path, i+1)
	}
	return paths
}

// number returns the index, from 0, in the last segment after prefix.
func number(tail, prefix string, n int) (int, bool) {
	last, ok := strings.CutPrefix(tail, prefix)
	if !ok {
		return 0, false
	}
	for i := range n {
		if last == fmt.Sprint(i+1) {
			return i, true
		}
	}
	return 0, false
}

func (s *Service) readSystem(path, tail string) (resource.Object, bool) {
	drives := s.cfg.Drives
	switch tail {
	case "Processors":
		return resource.Collection(path, "Processor", numbered(path, 1)), true
	case "Processors/1":
		o := resource.New(path, "Processor.v1_18_0", "CPU 1")
		o["ProcessorType"], o["TotalCores"], o["TotalThreads"], o["Manufacturer"] = "CPU", s.cfg.Cores, 2*s.cfg.Cores, "Lab"
		o["Status"] = resource.Health(s.healthOf("CPU 1"))
		return o, true
	case "Memory":
		return resource.Collection(path, "Memory", numbered(path, 2)), true
	case "Storage":
		return resource.Collection(path, "Storage", numbered(path, 1)), true
	case "Storage/1":
		o := resource.New(path, "Storage.v1_15_1", "Storage")
		o["Drives"], o["Drives@odata.count"] = resource.Refs(numbered(path+"/Drives", len(drives))), len(drives)
		o["Status"] = resource.Health("OK")
		return o, true
	}
	if i, ok := number(tail, "Memory/", 2); ok {
		name := fmt.Sprint("DIMM ", i+1)
		o := resource.New(path, "Memory.v1_18_0", name)
		o["CapacityMiB"], o["MemoryDeviceType"], o["Status"] = s.cfg.MemoryBytes>>21, "DDR5", resource.Health(s.healthOf(name))
		return o, true
	}
	if i, ok := number(tail, "Storage/1/Drives/", len(drives)); ok {
		name := fmt.Sprint("Drive ", i+1)
		o := resource.New(path, "Drive.v1_17_0", name)
		o["Model"], o["SerialNumber"], o["CapacityBytes"], o["MediaType"] = drives[i].Model, drives[i].Serial, drives[i].Bytes, drives[i].Kind
		o["Status"] = resource.Health(s.healthOf(name))
		if s.cfg.Personality.Quirks.OmitDriveState {
			o["Status"] = resource.Object{"Health": s.healthOf(name)}
		}
		return o, true
	}
	return nil, false
}
