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

// Is says whether the request is of the method and for the path.
func (r Request) Is(method, path string) bool { return r.Method == method && r.Path == path }

// Decode reads the body into a struct or map; ok is false with the answer to a
// body that is not JSON.
func (r Request) Decode(into any) (a Answer, ok bool) {
	if err := json.Unmarshal(r.Body, into); err != nil {
		return Fail(http.StatusBadRequest, "MalformedJSON", "the body is not JSON"), false
	}
	return Answer{}, true
}

// Answer is what a write is answered.
type Answer struct {
	Status int
	// Location header, where it is not empty.
	Location string
	Body     Object
	// Action says what the write was about, for the log of writes.
	Action string
}

// Done is an answer without a body.
func Done(action string) Answer { return Answer{Status: http.StatusNoContent, Action: action} }

// Fail is an answer in the form of DSP0266, error responses. The message's ID is
// one of the Base registry, unless it names its registry.
func Fail(status int, id, message string) Answer {
	if !strings.Contains(id, ".") {
		id = "Base.1.16." + id
	}
	return Answer{Status: status, Body: Object{"error": Object{
		"code": "Base.1.16.GeneralError", "message": "A general error has occurred. See ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []Object{{"MessageId": id, "Message": message, "Severity": "Critical"}},
	}}}
}

// FailByID is an error answer with the ID of a message alone and no text, as iLOs send it.
func FailByID(status int, id string, args ...string) Answer {
	return Answer{Status: status, Body: Object{"error": Object{
		"code": "iLO.0.10.ExtendedInfo", "message": "See @Message.ExtendedInfo for more information.",
		"@Message.ExtendedInfo": []Object{{"MessageId": id, "MessageArgs": args}},
	}}}
}

// ByID is the answer, where it is an error, with the IDs of its messages alone.
func (a Answer) ByID() Answer {
	problem, _ := a.Body["error"].(Object)
	infos, _ := problem["@Message.ExtendedInfo"].([]Object)
	if len(infos) == 0 || infos[0]["MessageArgs"] != nil {
		return a
	}
	id, _ := infos[0]["MessageId"].(string)
	return FailByID(a.Status, id).Named(a.Action)
}

// Named is the answer with the name of what was tried.
func (a Answer) Named(action string) Answer {
	a.Action = action
	return a
}

// Ref is a link.
func Ref(path string) Object { return Object{"@odata.id": path} }

// Refs are links.
func Refs(paths []string) []Object {
	refs := make([]Object, len(paths))
	for i, p := range paths {
		refs[i] = Ref(p)
	}
	return refs
}

// New begins a resource of a type, such as "Drive.v1_17_0"; its Id is the last
// segment of its path.
func New(path, schema, name string) Object {
	kind, _, _ := strings.Cut(schema, ".")
	return Object{"@odata.id": path, "@odata.type": "#" + schema + "." + kind, "Id": path[strings.LastIndex(path, "/")+1:], "Name": name}
}

// Collection lists members in no particular order, as real ones do.
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

// Tag is the ETag of a resource: its own, or the same for the same content. It is empty for
// collections without one, whose order changes with each read.
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

// Health is a Status object.
func Health(health string) Object { return Object{"State": "Enabled", "Health": health} }

// Send writes an object.
func Send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("OData-Version", "4.0")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body) // the client may have gone
}

// SendCompressed writes an object compressed, whether the client wants that or not.
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
