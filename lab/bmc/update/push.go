// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package update

import (
	"io"
	"mime"
	"mime/multipart"
	"net/http"
	"strings"

	"github.com/ingot-metal/ingot/lab/bmc/resource"
)

// available starts the ID of an image that was pushed and not installed (Dell).
const available = "Available-"

// HTTPPush reads an image at HttpPushUri (DSP2062, HTTP push updates): the body is the image or,
// for Dell, a form with it.
func (s *Service) HTTPPush(r *http.Request) resource.Answer {
	const action = "HTTPPush"
	kind, params, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if s.cfg.Personality.HTTPPushForm {
		if err != nil || kind != "multipart/form-data" {
			return resource.Fail(http.StatusUnsupportedMediaType, "MalformedJSON", "the content is not multipart/form-data").Named(action)
		}
		return s.pushForm(r, params["boundary"]).Named(action)
	}
	if err != nil || kind != "application/octet-stream" {
		return resource.Fail(http.StatusUnsupportedMediaType, "MalformedJSON", "the content is not application/octet-stream").Named(action)
	}
	component, version, err := s.Take(r.Body)
	if err != nil {
		return resource.Fail(http.StatusBadRequest, "Update.1.0.VerificationFailed", err.Error()).Named(action)
	}
	t, finish := s.begin()
	finish(component, version, nil)
	return s.accepted(t, action)
}

// pushForm reads an image for a later SimpleUpdate.
func (s *Service) pushForm(r *http.Request, boundary string) resource.Answer {
	inventory, _ := s.Read(pathInventory)
	if r.Header.Get("If-Match") != resource.Tag(inventory) {
		_, _ = io.Copy(io.Discard, r.Body)
		return resource.Fail(http.StatusPreconditionFailed, "PreconditionFailed", "the ETag is not that of the inventory")
	}
	part, err := multipart.NewReader(r.Body, boundary).NextPart()
	if err != nil || part.FormName() != "file" || part.FileName() == "" {
		return resource.Fail(http.StatusBadRequest, "ActionParameterMissing", "file is missing")
	}
	component, version, err := s.Take(part)
	if err != nil {
		return resource.Fail(http.StatusBadRequest, "Update.1.0.VerificationFailed", err.Error())
	}
	s.mu.Lock()
	s.staged, s.stagedVersion = component, version
	s.mu.Unlock()
	for id := range s.items() {
		if strings.HasPrefix(id, available) {
			return resource.Answer{Status: http.StatusCreated, Location: pathInventory + "/" + id, Body: resource.Object{}}
		}
	}
	return resource.Fail(http.StatusInternalServerError, "InternalError", "the image is not kept")
}

// installStaged installs the pushed image that a SimpleUpdate names.
func (s *Service) installStaged(uri string) resource.Answer {
	if _, there := s.items()[strings.TrimPrefix(uri, pathInventory+"/")]; !there {
		return resource.Fail(http.StatusBadRequest, "ResourceMissingAtURI", "no such image: "+uri)
	}
	s.mu.Lock()
	component, version := s.staged, s.stagedVersion
	s.staged = ""
	s.mu.Unlock()
	t, finish := s.begin()
	finish(component, version, nil)
	return s.accepted(t, "")
}
