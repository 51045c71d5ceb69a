// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// maxNamed limits how many changed fields or objects one message names.
const maxNamed = 3

// allowDelete is embedded by validators that allow every deletion.
type allowDelete[T client.Object] struct{}

// ValidateDelete implements admission.Validator.
func (allowDelete[T]) ValidateDelete(context.Context, T) (admission.Warnings, error) {
	return nil, nil
}

// invalid returns the error of a webhook for errs; nil if errs is empty.
func invalid(kind string, object client.Object, errs field.ErrorList) error {
	if len(errs) == 0 {
		return nil
	}
	return apierrors.NewInvalid(v1beta2.GroupVersion.WithKind(kind).GroupKind(), object.GetName(), errs)
}

// isDeletedForMove reports whether clusterctl move deletes the object from the source cluster
// after recreating it in the target cluster (I9).
func isDeletedForMove(object client.Object) bool {
	_, ok := object.GetAnnotations()[clusterctlv1.DeleteForMoveAnnotation]
	return ok
}

// change is a field that differs between two objects.
type change struct {
	path *field.Path
	// before is the old value, nil if the field was added. value is the new value, nil if the
	// field was removed.
	before, value any
}

// changes lists the fields below path in which the JSON forms of before and after differ, down to
// scalars and lists, sorted by name.
func changes(path *field.Path, before, after any) ([]change, error) {
	a, err := jsonForm(before)
	if err != nil {
		return nil, err
	}
	b, err := jsonForm(after)
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
	names := slices.AppendSeq(slices.Collect(maps.Keys(before)), maps.Keys(after))
	if len(names) == 0 { // an empty object was added or removed
		return append(list, change{path: path, before: a, value: b})
	}
	slices.Sort(names)
	for _, name := range slices.Compact(names) {
		list = appendChanges(list, path.Child(name), before[name], after[name])
	}
	return list
}

// jsonForm decodes the JSON form of in; nil for a nil pointer.
func jsonForm(in any) (any, error) {
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

// invalidChanges returns one error for all changes: the first with its value, the others by name.
func invalidChanges(list []change, detail string) field.ErrorList {
	if len(list) == 0 {
		return nil
	}
	var others []string
	for _, c := range list[1:] {
		others = append(others, c.path.String())
	}
	if len(others) > 0 {
		detail += "; the same applies to " + shorten(others)
	}
	return field.ErrorList{field.Invalid(list[0].path, list[0].value, detail)}
}

// shorten joins at most maxNamed items and counts the rest.
func shorten(items []string) string {
	if n := len(items) - maxNamed; n > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(items[:maxNamed], ", "), n)
	}
	return strings.Join(items, ", ")
}
