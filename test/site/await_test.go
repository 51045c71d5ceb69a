// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package site_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/test/site"
)

// logged is a management cluster of which there is an audit log only.
type logged struct {
	site.Plane
	path string
}

func (l logged) AuditLog() string { return l.path }

// TestWrites: what Ingot changed in a window is found, by both Deployments; what
// others did, what it only read or tried, and its leader's lease are not.
func TestWrites(t *testing.T) {
	now := time.Now()
	line := func(ago time.Duration, user, verb, group, resource, query string) string {
		at := now.Add(-ago).UTC().Format("2006-01-02T15:04:05.000000Z")
		return fmt.Sprintf(`{"stage":"ResponseComplete","requestURI":"/x%s","verb":%q,"user":{"username":%q},"objectRef":{"apiGroup":%q,"resource":%q,"name":"n"},`+
			`"requestReceivedTimestamp":%q,"stageTimestamp":%q}`+"\n", query, verb, user, group, resource, at, at)
	}
	const manager, boot, other = "system:serviceaccount:ingot-system:ingot-controller-manager", "system:serviceaccount:ingot-boot-system:ingot-boot", "system:serviceaccount:capi-system:capi-manager"
	path := filepath.Join(t.TempDir(), "audit.log")
	content := strings.Join([]string{
		line(time.Hour, manager, "patch", "g", "early", ""),
		line(time.Minute, manager, "patch", "g", "ours", ""),
		line(time.Minute, boot, "create", "events.k8s.io", "events", ""),
		line(time.Minute, manager, "update", "coordination.k8s.io", "leases", ""),
		line(time.Minute, manager, "list", "g", "read", ""),
		line(time.Minute, manager, "patch", "g", "tried", "?dryRun=All"),
		line(time.Minute, other, "patch", "g", "theirs", ""),
		line(time.Second, manager, "delete", "g", "late", ""),
	}, "")
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	s := &site.Site{Plane: logged{path: path}}
	writes, leases, err := s.Writes(now.Add(-10*time.Minute), now.Add(-10*time.Second))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, e := range writes {
		got = append(got, site.Text(e))
	}
	want := []string{"ingot-controller-manager: patch ours /n ", "ingot-boot: create events /n "}
	if diff := cmp.Diff(want, got); diff != "" || leases != 1 {
		t.Errorf("%d renewals of leases, want 1; writes (-want +got):\n%s", leases, diff)
	}

	if lack, err := s.Silent(time.Hour)(t.Context()); err != nil || !strings.Contains(lack, "delete late") {
		t.Errorf("an hour of silence lacks %q, %v; want the last write named", lack, err)
	}
	if lack, err := s.Silent(time.Millisecond)(t.Context()); err != nil || lack != "" {
		t.Errorf("a millisecond of silence lacks %q, %v", lack, err)
	}
}
