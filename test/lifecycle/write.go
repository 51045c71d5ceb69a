// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
)

// A Write is one request by which a manager changes something.
type Write struct {
	// Host is the host it is about; machines are named like the host they ask for.
	Host string
	// Label says what is changed, the same for the same step of every host:
	// "PATCH ingothosts spec.order.agentKey", "BMC POST Reset On".
	Label string
	// Resource of the Kubernetes API; empty for a BMC.
	Resource string
	// ClearsIntent: the write takes a machine's choice of a host back.
	ClearsIntent bool
}

// infraPath is where the objects of Ingot are in the API.
const infraPath = "/apis/infrastructure.cluster.x-k8s.io/"

// describeAPI names writes to the API server. Events and reviews change nothing
// that Ingot reads again, so they are not shown; Leases are not used here.
func describeAPI(r *http.Request, body []byte) (Write, bool) {
	ours := strings.HasPrefix(r.URL.Path, infraPath)
	if !ours && !strings.HasPrefix(r.URL.Path, "/api/v1/") {
		return Write{}, false
	}
	_, rest, ok := strings.Cut(r.URL.Path, "/namespaces/")
	if !ok {
		return Write{}, false
	}
	part := strings.Split(rest, "/") // namespace, resource, name, subresource
	if len(part) < 2 || part[1] == "events" {
		return Write{}, false
	}
	var object map[string]any
	_ = json.Unmarshal(body, &object)
	w := Write{Resource: part[1]}
	name := nestedText(object, "metadata", "name")
	if len(part) > 2 {
		name = part[2]
	}
	w.Host = strings.TrimSuffix(strings.TrimSuffix(name, secretSuffix), bundleSuffix)
	target := part[1]
	if len(part) > 3 {
		target += "/" + part[3]
	}
	w.Label = r.Method + " " + target
	if r.Method == http.MethodPatch {
		w.Label += " " + strings.Join(changes(object), " ")
		spec, _ := object["spec"].(map[string]any)
		value, touched := spec["providerID"]
		w.ClearsIntent = touched && value == nil
	}
	return w, true
}

// nestedText is a text deep in an object, or empty.
func nestedText(object map[string]any, path ...string) string {
	for _, key := range path[:len(path)-1] {
		object, _ = object[key].(map[string]any)
	}
	text, _ := object[path[len(path)-1]].(string)
	return text
}

// maxDepth of the paths in a label: spec.claim.state.
const maxDepth = 3

// changes lists what a merge patch touches, without the lock that it holds.
func changes(patch map[string]any) []string {
	var paths []string
	var walk func(prefix string, depth int, object map[string]any)
	walk = func(prefix string, depth int, object map[string]any) {
		for key, value := range object {
			path := prefix + key
			switch inner, nested := value.(map[string]any); {
			case path == "metadata.resourceVersion" || path == "metadata.uid":
			case nested && depth < maxDepth && len(inner) > 0:
				walk(path+".", depth+1, inner)
			case path == "spec.claim.state" || path == "spec.order.kind":
				paths = append(paths, fmt.Sprintf("%s=%v", path, value))
			default:
				paths = append(paths, path)
			}
		}
	}
	walk("", 1, patch)
	slices.Sort(paths)
	return paths
}

// describeBMC names writes to the BMC of a host.
func describeBMC(host string) func(*http.Request, []byte) (Write, bool) {
	return func(r *http.Request, body []byte) (Write, bool) {
		var reset struct{ ResetType string }
		_ = json.Unmarshal(body, &reset)
		path := r.URL.Path
		switch {
		case strings.Contains(path, "/Sessions/"):
			path = "Session"
		case strings.Contains(path, "/Systems/"):
			path = "System"
		}
		label := strings.TrimSpace("BMC " + r.Method + " " + path + " " + reset.ResetType)
		return Write{Host: host, Label: label}, true
	}
}
