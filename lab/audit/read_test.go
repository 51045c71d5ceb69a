// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package audit

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// line is what kube-apiserver v1.36 writes, shortened.
const line = `{"kind":"Event","apiVersion":"audit.k8s.io/v1","level":"RequestResponse","auditID":"a-1","stage":"ResponseComplete",` +
	`"requestURI":"/apis/g/v1/namespaces/default/things/x/status?fieldManager=m","verb":"patch","user":{"username":"system:serviceaccount:s:m","groups":["system:authenticated"]},` +
	`"userAgent":"manager/v0","objectRef":{"resource":"things","namespace":"default","name":"x","apiGroup":"g","apiVersion":"v1","subresource":"status"},` +
	`"responseStatus":{"metadata":{},"code":200},"requestObject":{"status":{}},"requestReceivedTimestamp":"2026-01-02T03:04:05.000006Z","stageTimestamp":"2026-01-02T03:04:05.000007Z"}` + "\n"

func TestRead(t *testing.T) {
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte(line+line+`{"kind":"Ev`), 0o600); err != nil {
		t.Fatal(err)
	}
	got, err := Read(path)
	if err != nil {
		t.Fatal(err)
	}
	want := Event{
		AuditID: "a-1", Stage: "ResponseComplete", RequestURI: "/apis/g/v1/namespaces/default/things/x/status?fieldManager=m", Verb: "patch",
		User: User{Username: "system:serviceaccount:s:m", Groups: []string{"system:authenticated"}}, UserAgent: "manager/v0",
		Object:      ObjectReference{APIGroup: "g", APIVersion: "v1", Resource: "things", Subresource: "status", Namespace: "default", Name: "x"},
		RequestBody: []byte(`{"status":{}}`),
		Received:    time.Date(2026, 1, 2, 3, 4, 5, 6000, time.UTC), Answered: time.Date(2026, 1, 2, 3, 4, 5, 7000, time.UTC),
	}
	want.Response.Code = 200
	if diff := cmp.Diff([]Event{want, want}, got); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
	if _, err := Read(path + "x"); err == nil {
		t.Error("a log that does not exist was read")
	}
	if _, err := parse([]byte(line + "no JSON\n")); err == nil || !strings.Contains(err.Error(), "line 2") {
		t.Errorf("error %v does not name the line", err)
	}
}

func TestChanges(t *testing.T) {
	for _, tc := range []struct {
		verb, uri string
		want      bool
	}{
		{"get", "/api", false}, {"list", "/api", false}, {"watch", "/api", false},
		{"create", "/api", true}, {"update", "/api", true}, {"patch", "/api", true}, {"delete", "/api", true}, {"deletecollection", "/api", true},
		{"create", "/api?dryRun=All", false},
	} {
		if got := (Event{Verb: tc.verb, RequestURI: tc.uri}).Changes(); got != tc.want {
			t.Errorf("%s %s changes: %v, want %v", tc.verb, tc.uri, got, tc.want)
		}
	}
}
