// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package media

import (
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/personality"
	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// Slot is a slot with its content.
type Slot struct {
	personality.Slot
	// Image is the URL of the inserted image; empty: none.
	Image    string
	Inserted bool
}

// Service is the virtual media. It is safe for concurrent use.
type Service struct {
	p    personality.Personality
	path string

	mu    sync.Mutex
	slots []Slot
	// hidden counts the reads that do not show a new image yet, leaving those that still show an
	// ejected one.
	hidden, leaving map[int]int
}

// New returns empty slots.
func New(p personality.Personality) *Service {
	s := &Service{p: p, path: p.At(p.MediaAt) + "/VirtualMedia", hidden: map[int]int{}, leaving: map[int]int{}}
	for _, slot := range p.Media {
		s.slots = append(s.slots, Slot{Slot: slot})
	}
	return s
}

// Slots returns the slots in the order of the BMC.
func (s *Service) Slots() []Slot {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.slots)
}

// Link adds the collection to the system or manager that has it.
func (s *Service) Link(parent personality.Parent, o resource.Object) {
	if len(s.p.Media) > 0 && parent == s.p.MediaAt {
		o["VirtualMedia"] = resource.Ref(s.path)
	}
}

// find returns the slot of a path and the rest of the path.
func (s *Service) find(p string) (i int, rest string, ok bool) {
	tail, ok := strings.CutPrefix(p, s.path+"/")
	if !ok {
		return 0, "", false
	}
	id, rest, _ := strings.Cut(tail, "/")
	i = slices.IndexFunc(s.slots, func(slot Slot) bool { return slot.ID == id })
	return i, rest, i >= 0
}

// Read returns the collection or a slot.
func (s *Service) Read(p string) (resource.Object, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if p == s.path && len(s.slots) > 0 {
		paths := make([]string, len(s.slots))
		for i, slot := range s.slots {
			paths[i] = s.path + "/" + slot.ID
		}
		return resource.Collection(p, "VirtualMedia", paths), true
	}
	i, rest, ok := s.find(p)
	if !ok || rest != "" {
		return nil, false
	}
	return s.object(i), true
}

func (s *Service) object(i int) resource.Object {
	if n, ok := s.leaving[i]; ok && n == 0 {
		s.empty(i)
	} else if ok {
		s.leaving[i]--
	}
	slot, p := s.slots[i], s.path+"/"+s.slots[i].ID
	if s.hidden[i] > 0 {
		s.hidden[i]--
		slot.Image, slot.Inserted = "", false
	}
	o := resource.New(p, "VirtualMedia.v1_6_3", "Virtual Media")
	o["MediaTypes"], o["Inserted"], o["WriteProtected"] = slot.Kinds, slot.Inserted, true
	o["ConnectedVia"], o["Image"], o["ImageName"] = "NotConnected", nil, nil
	if slot.Image != "" {
		o["Image"], o["ImageName"] = slot.Image, path.Base(slot.Image)
	}
	if slot.Inserted {
		o["ConnectedVia"] = "URI"
	}
	if i >= s.p.Quirks.DumbSlots && !s.p.Quirks.MediaByPatch {
		o["Actions"] = resource.Object{
			"#VirtualMedia.InsertMedia": resource.Object{"target": p + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  resource.Object{"target": p + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	return o
}

// Write inserts and ejects.
func (s *Service) Write(r resource.Request) (resource.Answer, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	i, rest, ok := s.find(r.Path)
	if !ok {
		return resource.Answer{}, false
	}
	q := s.p.Quirks
	insert, eject := rest == "Actions/VirtualMedia.InsertMedia", rest == "Actions/VirtualMedia.EjectMedia"
	patch := rest == "" && r.Method == http.MethodPatch
	switch {
	case !patch && (r.Method != http.MethodPost || !insert && !eject):
		return resource.Answer{}, false
	case i < q.DumbSlots:
		return resource.Fail(q.DumbSlotStatus, "ActionNotSupported", "The slot "+s.slots[i].ID+" takes no image from a URL.").Named("Media"), true
	case patch != q.MediaByPatch && patch:
		return resource.Fail(http.StatusMethodNotAllowed, "OperationNotAllowed", "not allowed here").Named("Media"), true
	case patch != q.MediaByPatch:
		return resource.Fail(http.StatusNotFound, "ResourceMissingAtURI", "no resource at "+r.Path).Named("Media"), true
	case eject:
		return s.eject(i), true
	}
	return s.insert(i, r, patch), true
}

func (s *Service) eject(i int) resource.Answer {
	if s.leaving[i] = s.p.Quirks.SlowEject; s.leaving[i] == 0 || !s.slots[i].Inserted {
		s.empty(i)
	}
	return resource.Done("EjectMedia " + s.slots[i].ID)
}

func (s *Service) empty(i int) {
	delete(s.hidden, i)
	delete(s.leaving, i)
	if s.slots[i].Inserted = false; !s.p.Quirks.KeepImageName {
		s.slots[i].Image = ""
	}
}

func (s *Service) insert(i int, r resource.Request, patch bool) resource.Answer {
	action := "InsertMedia " + s.slots[i].ID
	var body struct {
		Image                    *string
		Inserted, WriteProtected *bool
	}
	if a, ok := r.Decode(&body); !ok {
		return a.Named(action)
	}
	if patch && s.p.Quirks.NoMediaFlags && (body.Inserted != nil || body.WriteProtected != nil) {
		return resource.Fail(http.StatusBadRequest, "PropertyUnknown", "The property Inserted is not in the list of valid properties for the resource.").Named(action)
	}
	if patch && (body.Inserted != nil && !*body.Inserted || body.Image == nil || *body.Image == "") {
		return s.eject(i) // Lenovo ejects with Image null, Inserted false
	}
	bad := func(id, why string) resource.Answer {
		return resource.Fail(http.StatusBadRequest, id, why).Named(action)
	}
	if body.Image == nil || *body.Image == "" {
		return bad("ActionParameterMissing", "Image is missing")
	}
	u, err := url.Parse(*body.Image)
	switch {
	case err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https":
		return bad("ActionParameterValueFormatError", "Image is no http or https URL")
	case s.p.Quirks.HTTPSMedia && u.Scheme != "https":
		return bad("ResourceAtUriInUnknownFormat", "The resource at the URI "+*body.Image+" is in a format not recognized by the service.")
	case s.p.Quirks.PlainMediaURL && strings.ContainsAny(*body.Image, "&?"):
		return bad("ActionParameterValueFormatError", "Image has characters that are not allowed")
	case s.p.Quirks.NoMediaFlags && (body.Inserted != nil || body.WriteProtected != nil):
		return bad("ActionParameterUnknown", "Inserted and WriteProtected are unknown")
	case !patch && s.missingParameter(r) != "":
		return refuseMissing(slices.Index(s.p.Quirks.MediaWants, s.missingParameter(r)), s.missingParameter(r)).Named(action)
	case s.slots[i].Inserted:
		return resource.Fail(http.StatusBadRequest, "ResourceInUse", "The slot holds another image.").Named(action)
	}
	s.slots[i].Image, s.slots[i].Inserted = *body.Image, true
	if s.p.Quirks.SlowMedia > 0 {
		s.hidden[i] = s.p.Quirks.SlowMedia
		return resource.Answer{Status: http.StatusAccepted, Action: action}
	}
	return resource.Done(action)
}

// missingParameter returns the first missing parameter; empty: none.
func (s *Service) missingParameter(r resource.Request) string {
	var body map[string]any
	if _, ok := r.Decode(&body); !ok {
		return ""
	}
	for _, name := range s.p.Quirks.MediaWants {
		if _, there := body[name]; !there {
			return name
		}
	}
	return ""
}

// refuseMissing refuses a request without a parameter, in one of three ways.
func refuseMissing(way int, name string) resource.Answer {
	info := resource.Object{"MessageId": "Base.1.8.ActionParameterMissing", "MessageArgs": []string{"VirtualMedia.InsertMedia", name}}
	switch way {
	case 0:
		info = resource.Object{"MessageId": "Base.1.5.PropertyMissing", "RelatedProperties": []string{"#/" + name}}
	case 1:
		info = resource.Object{"MessageId": "Base.1.5.GeneralError", "Message": "The parameter '" + name + "' is needed for this image."}
	}
	return resource.Answer{Status: http.StatusBadRequest, Body: resource.Object{"error": resource.Object{
		"code": "Base.1.5.GeneralError", "message": "See ExtendedInfo.", "@Message.ExtendedInfo": []resource.Object{info},
	}}}
}
