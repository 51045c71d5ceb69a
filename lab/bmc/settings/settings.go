// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package settings

import (
	"cmp"
	"maps"
	"net/http"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/task"
)

const registries = resource.Root + "/Registries"

// Config describes a service.
type Config struct {
	Personality personality.Personality
	Tasks       *task.List
	// SetUEFI is called when a boot changes the boot mode: true for UEFI.
	SetUEFI func(uefi bool)
}

// Service has Bios, its registry and SecureBoot. It is safe for concurrent use.
type Service struct {
	cfg        Config
	bios       string
	attributes []attribute

	mu      sync.Mutex
	values  map[string]any
	pending map[string]any
	// reset applies the defaults at the next boot. scheduled: a job applies the pending values at the
	// next boot; without SettingsByJob that is always true.
	reset, scheduled bool
	secure           bool  // active
	secureNext       *bool // pending
}

// New returns the service of a new server.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, bios: cfg.Personality.System() + "/Bios", attributes: attributes(cfg.Personality), pending: map[string]any{}}
	s.values = s.factory()
	return s
}

func (s *Service) factory() map[string]any {
	values := map[string]any{}
	for _, a := range s.attributes {
		values[a.name] = a.factory
	}
	return values
}

// Booted applies pending values.
func (s *Service) Booted() {
	s.mu.Lock()
	if s.cfg.Personality.Quirks.SettingsByJob && !s.scheduled {
		s.mu.Unlock()
		return
	}
	before := s.values[bootMode]
	if s.reset {
		s.values = s.factory()
	}
	maps.Copy(s.values, s.pending)
	if v, ok := s.pending[secureBoot].(string); ok {
		s.secure = v == "Enabled"
	}
	if s.secureNext != nil {
		s.secure = *s.secureNext
	}
	if _, ok := s.values[secureBoot]; ok {
		s.values[secureBoot] = map[bool]string{true: "Enabled", false: "Disabled"}[s.secure]
	}
	if s.values["SetupPassword"] != nil {
		s.values["SetupPassword"] = nil // never shown
	}
	s.pending, s.reset, s.scheduled, s.secureNext = map[string]any{}, false, false, nil
	mode := s.values[bootMode]
	s.mu.Unlock()
	if mode != before && s.cfg.SetUEFI != nil {
		s.cfg.SetUEFI(mode == s.attributes[0].choices[0])
	}
}

// Link adds the links to the system.
func (s *Service) Link(system resource.Object) {
	if s.cfg.Personality.BIOSSettings != "" {
		system["Bios"] = resource.Ref(s.bios)
	}
	if s.cfg.Personality.SecureBoot {
		system["SecureBoot"] = resource.Ref(s.secureBootPath())
	}
}

func (s *Service) secureBootPath() string { return s.cfg.Personality.System() + "/SecureBoot" }
func (s *Service) settingsPath() string   { return s.bios + "/" + s.cfg.Personality.BIOSSettings }

// Read returns a resource.
func (s *Service) Read(path string) (resource.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p := s.cfg.Personality
	if path == s.secureBootPath() && p.SecureBoot {
		return s.readSecureBoot(path), true
	}
	if o, ok := s.readRegistry(path); ok {
		return o, true
	}
	if p.BIOSSettings == "" {
		return nil, false
	}
	switch path {
	case s.bios:
		o := resource.New(path, "Bios.v1_2_1", "BIOS Configuration Current Settings")
		o["Attributes"] = maps.Clone(s.values)
		if !p.Quirks.NoSettingsObject {
			o["@Redfish.Settings"] = resource.Object{
				"@odata.type": "#Settings.v1_3_5.Settings", "SettingsObject": resource.Ref(s.settingsPath()), "SupportedApplyTimes": []string{"OnReset"},
			}
		}
		o["Actions"] = resource.Object{"#Bios.ResetBios": resource.Object{"target": path + "/Actions/Bios.ResetBios"}}
		if name := cmp.Or(p.Quirks.RegistryNames.Bios, p.BIOSRegistry); name != "" && name != "-" {
			o["AttributeRegistry"] = name
		}
		return o, true
	case s.settingsPath():
		if p.Quirks.NoSettingsObject && len(s.pending) == 0 {
			return nil, false
		}
		o := resource.New(path, "Bios.v1_2_1", "BIOS Configuration Pending Settings")
		values := maps.Clone(s.pending)
		if p.Quirks.WholePending {
			values = maps.Clone(s.values)
			maps.Copy(values, s.pending)
		}
		o["Attributes"] = values
		return o, true
	}
	return nil, false
}

func (s *Service) readRegistry(path string) (resource.Object, bool) {
	id, names := s.cfg.Personality.BIOSRegistry, s.cfg.Personality.Quirks.RegistryNames
	member := registries + "/" + cmp.Or(names.Member, id)
	if path == registries {
		members := []string{}
		if id != "" {
			members = append(members, member)
		}
		for _, other := range names.Others {
			members = append(members, registries+"/"+other)
		}
		return resource.Collection(path, "MessageRegistryFile", members), true
	}
	if id == "" {
		return nil, false
	}
	switch path {
	case member:
		return registryFile(path, cmp.Or(names.File, id), id), true
	case RegistryPath(id):
		entries := make([]resource.Object, len(s.attributes))
		for i, a := range s.attributes {
			entries[i] = a.object()
		}
		return registry(cmp.Or(names.ID, id), s.cfg.Personality.Vendor, entries), true
	}
	for _, other := range names.Others {
		switch path {
		case registries + "/" + other:
			return registryFile(path, other, other), true
		case RegistryPath(other):
			return registry(other, s.cfg.Personality.Vendor, []resource.Object{{"AttributeName": "Other", "Type": "String", "ReadOnly": true}}), true
		}
	}
	return nil, false
}

func registryFile(path, name, id string) resource.Object {
	o := resource.New(path, "MessageRegistryFile.v1_1_3", "Attribute Registry File")
	o["Registry"], o["Languages"] = name, []string{"en"}
	o["Location"] = []resource.Object{{"Language": "en", "Uri": RegistryPath(id)}}
	return o
}

func registry(id, owner string, entries []resource.Object) resource.Object {
	return resource.Object{
		"@odata.type": "#AttributeRegistry.v1_3_6.AttributeRegistry", "Id": id, "Name": "Attribute Registry", "Language": "en",
		"OwningEntity": owner, "RegistryVersion": "1.0.0", "RegistryEntries": resource.Object{"Attributes": entries},
	}
}

// RegistryPath returns the path of a registry.
func RegistryPath(id string) string { return resource.Root + "/RegistryStore/" + id + ".json" }

func (s *Service) readSecureBoot(path string) resource.Object {
	next := s.secure
	if s.secureNext != nil {
		next = *s.secureNext
	}
	o := resource.New(path, "SecureBoot.v1_1_0", "UEFI Secure Boot")
	o["SecureBootEnable"], o["SecureBootMode"] = next, "UserMode"
	o["SecureBootCurrentBoot"] = map[bool]string{true: "Enabled", false: "Disabled"}[s.secure]
	return o
}

// Write changes pending values.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	p := s.cfg.Personality
	switch {
	case p.SecureBoot && r.Is(http.MethodPatch, s.secureBootPath()):
		return s.patchSecureBoot(r), true
	case p.Jobs != "" && r.Is(http.MethodPost, p.Jobs):
		return s.postJob(r), true
	case p.BIOSSettings == "":
	case r.Is(http.MethodPatch, s.settingsPath()):
		return s.patch(r), true
	case r.Is(http.MethodPost, s.bios+"/Actions/Bios.ResetBios"):
		s.mu.Lock()
		defer s.mu.Unlock()
		s.reset, s.scheduled, s.pending = true, true, map[string]any{}
		return resource.Done("ResetBios"), true
	}
	return resource.Answer{}, false
}

const committed = "Pending configuration values are already committed, unable to perform another set operation."

func (s *Service) patch(r resource.Request) resource.Answer {
	var body struct {
		Attributes map[string]any
		Apply      *struct{ ApplyTime string } `json:"@Redfish.SettingsApplyTime"`
	}
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	if a, ok := s.check(body.Attributes); !ok {
		return a.Named("Bios")
	}
	if len(body.Attributes) == 0 {
		return resource.Fail(http.StatusBadRequest, "PropertyMissing", "Attributes is missing").Named("Bios")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Personality.Quirks.SettingsByJob && s.scheduled {
		return resource.Fail(http.StatusBadRequest, "IDRAC.2.8.SYS011", committed).Named("Bios")
	}
	maps.Copy(s.pending, body.Attributes)
	switch {
	case body.Apply != nil && s.cfg.Personality.Quirks.SettingsByJob:
		return resource.Answer{Status: http.StatusAccepted, Location: s.schedule().Path(), Action: "Bios"}
	case s.cfg.Personality.Quirks.SettingsByJob:
		return resource.Answer{Status: http.StatusOK, Action: "Bios", Body: success("Base.1.12.Success", "The request completed successfully.")}
	case s.cfg.Personality.Vendor == "HPE":
		return resource.Answer{Status: http.StatusOK, Action: "Bios", Body: success("iLO.2.14.SystemResetRequired", "The system properties were changed, but will not take effect until the system is reset.")}
	}
	return resource.Done("Bios")
}

func success(id, message string) resource.Object {
	return resource.Object{"@Message.ExtendedInfo": []resource.Object{{"MessageId": id, "Message": message, "Severity": "OK"}}}
}

// schedule creates the job. The lock is held.
func (s *Service) schedule() *task.Task {
	s.scheduled = true
	return s.cfg.Tasks.Start(task.Options{Name: "Configure: BIOS.Setup.1-1", Until: task.Boot, Idle: true})
}

// postJob schedules pending values (Dell).
func (s *Service) postJob(r resource.Request) resource.Answer {
	var body struct{ TargetSettingsURI string }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case body.TargetSettingsURI != s.settingsPath():
		return resource.Fail(http.StatusBadRequest, "PropertyValueNotInList", "TargetSettingsURI names no settings").Named("Job")
	case s.scheduled:
		return resource.Fail(http.StatusBadRequest, "IDRAC.2.8.SYS011", committed).Named("Job")
	case len(s.pending) == 0 && s.secureNext == nil:
		return resource.Fail(http.StatusBadRequest, "IDRAC.2.8.RAC051", "There is no pending data to create a configuration job.").Named("Job")
	}
	return resource.Answer{Status: http.StatusOK, Location: s.schedule().JobPath(), Action: "Job"}
}

func (s *Service) patchSecureBoot(r resource.Request) resource.Answer {
	var body struct{ SecureBootEnable *bool }
	if a, ok := r.Decode(&body); !ok {
		return a
	}
	if body.SecureBootEnable == nil {
		return resource.Fail(http.StatusBadRequest, "PropertyMissing", "SecureBootEnable is missing").Named("SecureBoot")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.cfg.Personality.Quirks.SettingsByJob && s.scheduled {
		return resource.Fail(http.StatusBadRequest, "IDRAC.2.8.SYS011", committed).Named("SecureBoot")
	}
	s.secureNext = body.SecureBootEnable
	return resource.Done("SecureBoot")
}
