// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// maxNamed bounds how many changed fields, or other objects, one refusal names.
const maxNamed = 3

// refusal turns errors into the answer of a webhook; nil if there are none.
func refusal(kind string, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1beta2.GroupVersion.WithKind(kind).GroupKind(), object.GetName(), errs)
}

// isLetGo reports an object that clusterctl move deletes from the source cluster
// after it recreated it in the target: it goes without a word (I9).
func isLetGo(object client.Object) bool {
	_, ok := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return ok
}

// change is one field that differs between two objects.
type change struct {
	path *field.Path
	// before is the old value; nil if there was none. value is the new one; nil if
	// the field was removed.
	before, value any
}

// changes lists the fields below path in which the JSON forms of before and
// after differ, at the depth of scalars and lists, in the order of their names.
func changes(path *field.Path, before, after any) ([]change, error) {
	a, err := plain(before)
	if err != nil {
		return nil, err
	}
	b, err := plain(after)
	if err != nil {
		return nil, err
	}
	return appendChanges(nil, path, a, b), nil
}

func appendChanges(list []change, path *field.Path, a, b any) []change {
	if reflect.DeepEqual(a, b) {
		return list
	}
	before, isMapBefore := a.(map[string]any)
	after, isMapAfter := b.(map[string]any)
	if !(isMapBefore && isMapAfter || isMapBefore && b == nil || isMapAfter && a == nil) {
		return append(list, change{path: path, before: a, value: b})
	}
	names := map[string]bool{}
	for name := range before {
		names[name] = true
	}
	for name := range after {
		names[name] = true
	}
	sorted := make([]string, 0, len(names))
	for name := range names {
		sorted = append(sorted, name)
	}
	slices.Sort(sorted)
	if len(sorted) == 0 { // an empty object came or went
		return append(list, change{path: path, before: a, value: b})
	}
	for _, name := range sorted {
		list = appendChanges(list, path.Child(name), before[name], after[name])
	}
	return list
}

// plain returns the JSON form of in, with nil for a nil pointer.
func plain(in any) (any, error) {
	data, err := json.Marshal(in)
	if err != nil {
		return nil, fmt.Errorf("compare specs: %w", err)
	}
	var out any
	if err := json.Unmarshal(data, &out); err != nil {
		return nil, fmt.Errorf("compare specs: %w", err)
	}
	return out, nil
}

// refuseChanges makes one error of all changes: the first with its value, the
// others by name.
func refuseChanges(list []change, detail string) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	var others []string
	for i, c := range list[1:] {
		if i == maxNamed {
			others = append(others, fmt.Sprintf("%d more", len(list)-1-maxNamed))
			break
		}
		others = append(others, c.path.String())
	}
	if len(others) > 0 {
		detail += "; the same holds for " + strings.Join(others, ", ")
	}
	return field.ErrorList{field.Invalid(list[0].path, list[0].value, detail)}
}
