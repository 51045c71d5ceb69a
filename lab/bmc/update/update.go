// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package update

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
	"github.com/ingot-metal/ingot/lab/bmc/task"
)

// The components whose firmware can be updated.
const (
	BIOS = "BIOS"
	BMC  = "BMC"
)

const (
	pathService   = resource.Root + "/UpdateService"
	pathInventory = pathService + "/FirmwareInventory"
	pathSimple    = pathService + "/Actions/UpdateService.SimpleUpdate"
	pathStart     = pathService + "/Actions/UpdateService.StartUpdate"
	// onStart is the OperationApplyTime of an image that waits for StartUpdate (DSP2046).
	onStart = "OnStartUpdateRequest"

	magic = "ingot-lab-firmware"
	// fetchTime bounds a download.
	fetchTime = 5 * time.Minute
)

// Image returns the first line of a firmware image; anything may follow.
func Image(component, version string) []byte {
	return fmt.Appendf(nil, "%s %s %s\n", magic, component, version)
}

// errImage reports a body that is not an image.
var errImage = errors.New("the image is not recognized")

// Read reads an image.
func Read(r io.Reader) (component, version string, err error) {
	component, version, _, err = read(r)
	return component, version, err
}

// read reads an image.
func read(r io.Reader) (component, version string, size int64, err error) {
	b := bufio.NewReaderSize(r, 4<<10)
	line, err := b.ReadSlice('\n')
	if err != nil {
		return "", "", 0, errImage
	}
	parts := strings.Fields(string(line))
	if len(parts) != 3 || parts[0] != magic || (parts[1] != BIOS && parts[1] != BMC) {
		return "", "", 0, errImage
	}
	component, version = parts[1], parts[2]
	n, err := io.Copy(io.Discard, b)
	if err != nil {
		return "", "", 0, fmt.Errorf("the transfer was interrupted: %w", err)
	}
	return component, version, n + int64(len(line)), nil
}

// Config describes a service.
type Config struct {
	Personality personality.Personality
	Tasks       *task.List
	// Client fetches images for SimpleUpdate. Required.
	Client *http.Client
}

// Service is the update service. It is safe for concurrent use.
type Service struct {
	cfg    Config
	ctx    context.Context // ends the downloads
	cancel context.CancelFunc
	work   sync.WaitGroup

	mu       sync.Mutex
	versions map[string]string
	previous map[string]string
	pushed   int64
	// pushedTo are the targets of the last multipart push.
	pushedTo []string
	// staged is the component and version of an image that waits for StartUpdate or for a
	// SimpleUpdate.
	staged, stagedVersion string
}

// New returns the service of a new server. Close ends its downloads.
func New(cfg Config) *Service {
	ctx, cancel := context.WithCancel(context.Background())
	p := cfg.Personality
	return &Service{
		cfg: cfg, ctx: ctx, cancel: cancel,
		versions: map[string]string{BIOS: p.BIOSFirmware, BMC: p.BMCFirmware}, previous: map[string]string{},
	}
}

// Close cancels the downloads and waits for them.
func (s *Service) Close() {
	s.cancel()
	s.work.Wait()
}

// Version returns the active version of a component.
func (s *Service) Version(component string) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.versions[component]
}

// Pushed returns the bytes of all accepted images.
func (s *Service) Pushed() int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.pushed
}

// PushedTo returns the targets of the last multipart push.
func (s *Service) PushedTo() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.pushedTo)
}

// items returns the IDs of the inventory. Dell's contain the version, and the previous version is
// listed too.
func (s *Service) items() map[string]string {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p := s.cfg.Personality; p.Vendor != "Dell" && !p.HTTPPushForm {
		return map[string]string{BIOS: BIOS, BMC: BMC}
	}
	form := map[string]string{BIOS: "159-%s__BIOS.Setup.1-1", BMC: "25227-%s__iDRAC.Embedded.1-1"}
	items := map[string]string{}
	for c, f := range form {
		items["Installed-"+fmt.Sprintf(f, s.versions[c])] = c
		if s.previous[c] != "" {
			items["Previous-"+fmt.Sprintf(f, s.previous[c])] = c
		}
		if s.cfg.Personality.HTTPPushForm && s.staged == c {
			items[available+fmt.Sprintf(f, s.stagedVersion)] = c
		}
	}
	return items
}

// Read returns a resource. Reading the inventory is a step of all tasks.
func (s *Service) Read(path string) (resource.Object, bool) {
	p := s.cfg.Personality
	switch {
	case path == pathService:
		o := resource.New(path, "UpdateService.v1_14_0", "Update Service")
		o["ServiceEnabled"], o["FirmwareInventory"] = true, resource.Ref(pathInventory)
		if p.PushPath != "" {
			o["MultipartHttpPushUri"] = p.PushPath
		}
		if p.HTTPPush != "" {
			o["HttpPushUri"] = p.HTTPPush
		}
		if p.SimpleUpdate {
			o["Actions"] = resource.Object{"#UpdateService.SimpleUpdate": resource.Object{
				"target": pathSimple, "TransferProtocol@Redfish.AllowableValues": []string{"HTTP", "HTTPS"},
			}}
		}
		return o, true
	case path == pathInventory:
		s.cfg.Tasks.Step()
		var paths []string
		for id := range s.items() {
			paths = append(paths, pathInventory+"/"+id)
		}
		list := resource.Collection(path, "SoftwareInventory", paths)
		if p.HTTPPushForm {
			slices.Sort(paths)
			list["@odata.etag"] = resource.Tag(resource.Object{"paths": paths})
		}
		return list, true
	case strings.HasPrefix(path, pathInventory+"/"):
		s.cfg.Tasks.Step()
		id := strings.TrimPrefix(path, pathInventory+"/")
		component, ok := s.items()[id]
		if !ok {
			return nil, false
		}
		s.mu.Lock()
		defer s.mu.Unlock()
		o := resource.New(path, "SoftwareInventory.v1_10_2", component)
		o["Version"], o["Updateable"], o["Status"] = s.versions[component], true, resource.Health("OK")
		if strings.HasPrefix(id, "Previous-") {
			o["Version"] = s.previous[component]
		}
		if strings.HasPrefix(id, available) {
			o["Version"] = s.stagedVersion
		}
		return o, true
	}
	return nil, false
}

// Write starts a SimpleUpdate.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	if s.cfg.Personality.StagedPush && r.Is(http.MethodPost, pathStart) {
		return s.startUpdate().Named("StartUpdate"), true
	}
	if !s.cfg.Personality.SimpleUpdate || !r.Is(http.MethodPost, pathSimple) {
		return resource.Answer{}, false
	}
	if s.cfg.Personality.Quirks.UpdateNoIfMatch && r.Header.Get("If-Match") != "" {
		return resource.Fail(http.StatusPreconditionFailed, "PreconditionFailed", "The ETag supplied did not match the ETag required to change this resource.").Named("SimpleUpdate"), true
	}
	var body struct {
		ImageURI string
		Targets  []string
	}
	if a, ok := r.Decode(&body); !ok {
		return a, true
	}
	if strings.HasPrefix(body.ImageURI, pathInventory+"/"+available) {
		return s.installStaged(body.ImageURI).Named("SimpleUpdate"), true
	}
	if !strings.HasPrefix(body.ImageURI, "http://") && !strings.HasPrefix(body.ImageURI, "https://") {
		return resource.Fail(http.StatusBadRequest, "ActionParameterValueFormatError", "ImageURI is no http or https URL").Named("SimpleUpdate"), true
	}
	if a, ok := s.checkTargets(body.Targets); !ok {
		return a.Named("SimpleUpdate"), true
	}
	t, finish := s.begin()
	s.work.Add(1)
	go func() {
		defer s.work.Done()
		finish(s.fetch(body.ImageURI))
	}()
	return s.accepted(t, "SimpleUpdate"), true
}

func (s *Service) checkTargets(targets []string) (resource.Answer, bool) {
	items := s.items()
	for _, t := range targets {
		if p := s.cfg.Personality; p.StagedPush && (t == p.System()+"/Bios" || t == p.Manager()) || p.Quirks.OneTarget && t == p.Manager() {
			continue
		}
		if _, ok := items[strings.TrimPrefix(t, pathInventory+"/")]; !ok {
			return resource.Fail(http.StatusBadRequest, "ResourceMissingAtURI", "no such target: "+t), false
		}
	}
	return resource.Answer{}, true
}

func (s *Service) fetch(url string) (component, version string, err error) {
	ctx, cancel := context.WithTimeout(s.ctx, fetchTime)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return "", "", errors.New("the URL of the image is malformed")
	}
	resp, err := s.cfg.Client.Do(req)
	if err != nil {
		return "", "", errors.New("the image cannot be fetched")
	}
	defer func() { _ = resp.Body.Close() }()
	if resp.StatusCode != http.StatusOK {
		return "", "", fmt.Errorf("the server of the image answered %d", resp.StatusCode)
	}
	return s.Take(resp.Body)
}

// Stage starts a task for an image that arrived another way: it waits for the restart that
// activates it.
func (s *Service) Stage(component, version string) {
	s.cfg.Tasks.Start(task.Options{
		Name: "Firmware update", Idle: true, Until: restartOf(component), Done: func() { s.install(component, version) },
	})
}

// restartOf returns the restart that activates the firmware of a component.
func restartOf(component string) task.Wait {
	if component == BMC {
		return task.ManagerReset
	}
	return task.Boot
}

// Take reads an image and counts it.
func (s *Service) Take(r io.Reader) (component, version string, err error) {
	component, version, size, err := read(r)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.pushed += size
	return component, version, err
}

// PushPath returns the path of Push; empty: none.
func (s *Service) PushPath() string { return s.cfg.Personality.PushPath }

// Push reads a multipart request as a stream (DSP0266, multipart HTTP push): UpdateParameters, a
// JSON object, comes before UpdateFile.
func (s *Service) Push(r *http.Request) resource.Answer {
	const action = "Push"
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || kind != "multipart/form-data" {
		return resource.Fail(http.StatusUnsupportedMediaType, "MalformedJSON", "the content is not multipart/form-data").Named(action)
	}
	parts := multipart.NewReader(r.Body, params["boundary"])
	var parameters struct {
		Targets   []string
		ApplyTime string `json:"@Redfish.OperationApplyTime"`
	}
	for seen := false; ; {
		part, err := parts.NextPart()
		if err != nil {
			return resource.Fail(http.StatusBadRequest, "ActionParameterMissing", "UpdateFile is missing").Named(action)
		}
		switch part.FormName() {
		case "UpdateParameters":
			body, err := io.ReadAll(io.LimitReader(part, 64<<10))
			if err != nil {
				return resource.Fail(http.StatusBadRequest, "MalformedJSON", "UpdateParameters breaks off").Named(action)
			}
			if a, ok := (resource.Request{Body: body}).Decode(&parameters); !ok {
				return a.Named(action)
			}
			if s.cfg.Personality.Quirks.OneTarget && len(parameters.Targets) != 1 {
				return resource.Fail(http.StatusBadRequest, "PropertyValueFormatError", fmt.Sprintf("The value '%q' for the property Targets is not a format that the property can accept.", parameters.Targets)).Named(action)
			}
			if a, ok := s.checkTargets(parameters.Targets); !ok {
				return a.Named(action)
			}
			s.mu.Lock()
			s.pushedTo = parameters.Targets
			s.mu.Unlock()
			seen = true
		case "UpdateFile":
			if !seen {
				return resource.Fail(http.StatusBadRequest, "ActionParameterMissing", "UpdateParameters must come first").Named(action)
			}
			component, version, err := s.Take(part)
			if err != nil {
				return resource.Fail(http.StatusBadRequest, "Update.1.0.VerificationFailed", err.Error()).Named(action)
			}
			if s.cfg.Personality.StagedPush && parameters.ApplyTime == onStart {
				return s.stage(component, version).Named(action)
			}
			t, finish := s.begin()
			finish(component, version, nil)
			return s.accepted(t, action)
		}
	}
}

// stage verifies an image, which then waits for StartUpdate.
func (s *Service) stage(component, version string) resource.Answer {
	t := s.cfg.Tasks.Start(task.Options{Name: component + " Verify", Done: func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.staged, s.stagedVersion = component, version
	}})
	return s.accepted(t, "")
}

// startUpdate installs the staged image.
func (s *Service) startUpdate() resource.Answer {
	s.mu.Lock()
	component, version := s.staged, s.stagedVersion
	s.staged = ""
	s.mu.Unlock()
	if component == "" {
		return resource.Fail(http.StatusBadRequest, "Update.1.0.NotAllowed", "no verified image waits")
	}
	t, finish := s.begin()
	finish(component, version, nil)
	return s.accepted(t, "")
}

// begin starts the task of an update whose image is being transferred; finish reports the result
// of the transfer.
func (s *Service) begin() (t *task.Task, finish func(component, version string, err error)) {
	var component, version string // written before Release, read after it
	t = s.cfg.Tasks.Start(task.Options{Name: "Firmware update", Held: true, Done: func() { s.install(component, version) }})
	return t, func(c, v string, err error) {
		if err != nil {
			t.Fail(err.Error())
			return
		}
		component, version = c, v
		t.Release(restartOf(c))
	}
}

func (s *Service) install(component, version string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.previous[component], s.versions[component] = s.versions[component], version
}

// accepted returns the answer to an update. The standard's Location is the monitor; some vendors
// send the task, others nothing.
func (s *Service) accepted(t *task.Task, action string) resource.Answer {
	a := resource.Answer{Status: http.StatusAccepted, Location: t.Path(), Action: action}
	switch {
	case s.cfg.Personality.Quirks.SilentUpdate:
		return resource.Answer{Status: http.StatusOK, Action: action, Body: resource.Object{}}
	case s.cfg.Personality.Vendor == "Contoso":
		a.Location, a.Body = t.Monitor(), t.Object()
	}
	return a
}
