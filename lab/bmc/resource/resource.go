// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package resource

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"net/http"
	"strings"
)

// Root is the path of the service root, without the slash at its end.
const Root = "/redfish/v1"

// Object is a Redfish resource, or a part of one, as JSON.
type Object map[string]any

// Request is a POST, PATCH or DELETE whose body has been read.
type Request struct {
	Method string
	// Path without a slash at its end.
	Path   string
	Header http.Header
	Body   []byte
}

// Is reports whether the request has this method and path.
func (r Request) Is(method, path string) bool { return r.Method == method && r.Path == path }

// Decode decodes the body. If the body is not JSON, ok is false and a is the answer.
func (r Request) Decode(into any) (a Answer, ok bool) {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return Fail(http.StatusBadRequest, "MalformedJSON", "the body is not JSON"), false
	}
	return Answer{}, true
}

// Answer is the answer to a write.
type Answer struct {
	Status int
	// Location header; empty: none.
	Location string
	Body     Object
	// Action describes the write, for the log.
	Action string
}

// Done returns an answer without a body.
func Done(action string) Answer { return Answer{Status: http.StatusNoContent, Action: action} }

// Fail returns an error answer (DSP0266, error responses). A message ID without a registry is of
// the Base registry.
func Fail(status int, id, message string) Answer {
	if !strings.Contains(id, ".") {
		id = "Base.1.16." + id
	}
	return Answer{Status: status, Body: Object{"error": Object{
		"code": "Base.1.16.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []Object{{"MessageId": id, "Message": message, "Severity": "Critical"}},
	}}}
}

// FailByID returns an error answer with only the ID of a message, as iLO sends it.
func FailByID(status int, id string, args ...string) Answer {
	return Answer{Status: status, Body: Object{"error": Object{
		"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []Object{{"MessageId": id, "MessageArgs": args}},
	}}}
}

// ByID returns an error answer with only the IDs of its messages.
func (a Answer) ByID() Answer {
	problem, _ := a.Body["error"].(Object)
	infos, _ := problem["@Message.ExtendedInfo"].([]Object)
	if len(infos) == 0 || infos[0]["MessageArgs"] != nil {
		return a
	}
	id, _ := infos[0]["MessageId"].(string)
	return FailByID(a.Status, id).Named(a.Action)
}

// Named returns the answer with a description of the write.
func (a Answer) Named(action string) Answer {
	a.Action = action
	return a
}

// Ref returns a link.
func Ref(path string) Object { return Object{"@odata.id": path} }

// Refs returns links.
func Refs(paths []string) []Object {
	refs := make([]Object, len(paths))
	for i, p := range paths {
		refs[i] = Ref(p)
	}
	return refs
}

// New returns a resource of a type such as "Drive.v1_17_0"; its Id is the last segment of the
// path.
func New(path, schema, name string) Object {
	kind, _, _ := strings.Cut(schema, ".")
	return Object{"@odata.id": path, "@odata.type": "#" + schema + "." + kind, "Id": path[strings.LastIndex(path, "/")+1:], "Name": name}
}

// Collection lists members in random order, as some BMCs do.
func Collection(path, kind string, members []string) Object {
	refs := make([]Object, len(members))
	for i, j := range rand.Perm(len(members)) {
		refs[i] = Ref(members[j])
	}
	return Object{
		"@odata.id": path, "@odata.type": "#" + kind + "Collection." + kind + "Collection", "Name": kind + " Collection",
		"Members": refs, "Members@odata.count": len(refs),
	}
}

// Tag returns the ETag of a resource: its own, or a hash of its content. It is empty for a
// collection without one, whose order changes with each read.
func Tag(o Object) string {
	if tag, own := o["@odata.etag"].(string); own {
		return tag
	}
	if _, ok := o["Members"]; ok {
		return ""
	}
	text, err := json.Marshal(o)
	if err != nil {
		return ""
	}
	h := fnv.New64a()
	_, _ = h.Write(text) // never fails
	return fmt.Sprintf("W/\"%016X\"", h.Sum64())
}

// Health returns a Status object.
func Health(health string) Object { return Object{"State": "Enabled", "Health": health} }

// Send writes an object.
func Send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OData-Version", "4.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the connection may be closed
}

// SendCompressed writes an object compressed, even if the client did not ask for it.
func SendCompressed(w http.ResponseWriter, o Object) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_ = json.NewEncoder(z).Encode(o) // into memory
	_ = z.Close()
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Encoding", "gzip")
	_, _ = w.Write(packed.Bytes())
}

// Send writes the answer.
func (a Answer) Send(w http.ResponseWriter) {
	if a.Location != "" {
		w.Header().Set("Location", a.Location)
	}
	if a.Body == nil {
		w.WriteHeader(a.Status)
		return
	}
	Send(w, a.Status, a.Body)
}
