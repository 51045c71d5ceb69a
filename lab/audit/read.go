// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"
)

// Event is one answered request, the part of an audit.k8s.io/v1 Event that is used
// here.
type Event struct {
	// AuditID is the same for all events of one request.
	AuditID string `json:"auditID"`
	// Stage is ResponseComplete; ResponseStarted when a watch was opened; Panic.
	Stage      string `json:"stage"`
	RequestURI string `json:"requestURI"`
	// Verb in terms of Kubernetes: get, list, watch, create, update, patch, delete,
	// deletecollection.
	Verb      string          `json:"verb"`
	User      User            `json:"user"`
	UserAgent string          `json:"userAgent"`
	Object    ObjectReference `json:"objectRef"`
	Response  struct {
		// Code of HTTP.
		Code int32 `json:"code"`
	} `json:"responseStatus"`
	// RequestBody and ResponseBody are there for chosen groups only.
	RequestBody  json.RawMessage `json:"requestObject"`
	ResponseBody json.RawMessage `json:"responseObject"`
	// Received and Answered, to the microsecond.
	Received time.Time `json:"requestReceivedTimestamp"`
	Answered time.Time `json:"stageTimestamp"`
}

// User is who asked.
type User struct {
	Username string   `json:"username"`
	Groups   []string `json:"groups"`
}

// ObjectReference is what a request was about.
type ObjectReference struct {
	APIGroup    string `json:"apiGroup"`
	APIVersion  string `json:"apiVersion"`
	Resource    string `json:"resource"`
	Subresource string `json:"subresource"`
	Namespace   string `json:"namespace"`
	Name        string `json:"name"`
}

// Changes says whether the request was one that changes something, taken or not;
// a dry run is none.
func (e Event) Changes() bool {
	switch e.Verb {
	case "create", "update", "patch", "delete", "deletecollection":
		return !strings.Contains(e.RequestURI, "dryRun=")
	}
	return false
}

// Read reads a log. A last line that is still being written is left out.
func Read(path string) ([]Event, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read the audit log: %w", err)
	}
	return parse(data)
}

func parse(data []byte) ([]Event, error) {
	var events []Event
	for number := 1; ; number++ {
		line, rest, complete := bytes.Cut(data, []byte("\n"))
		if !complete {
			return events, nil
		}
		data = rest
		var event Event
		if err := json.Unmarshal(line, &event); err != nil {
			return nil, fmt.Errorf("audit log, line %d: %w", number, err)
		}
		events = append(events, event)
	}
}
