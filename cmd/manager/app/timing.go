// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// MaxShorten is the largest factor of Shorten: what is shortened more is another
// program.
const MaxShorten = 20

// A Wait is one of the manager's waits before and after Shorten.
type Wait struct {
	// Name is the path of the field in Options, such as "Policy.AgentDeadline".
	Name          string
	Normal, Short time.Duration
}

// String is for people.
func (w Wait) String() string { return fmt.Sprintf("%s %s→%s", w.Name, w.Normal, w.Short) }

// Shorten divides every wait in the options by one factor, and speeds the pace of
// requests to a BMC up by it: for tests that let hundreds of hosts live whole lives.
// It is the only place that does so. The lease of the leader is left alone, since
// other replicas and the API server go by it. Shorten returns what it changed, in the
// order of the fields.
func (o *Options) Shorten(factor int) ([]Wait, error) {
	if factor < 1 || factor > MaxShorten {
		return nil, fmt.Errorf("shorten the waits: the factor %d is not from 1 to %d", factor, MaxShorten)
	}
	waits := shorten(reflect.ValueOf(o).Elem(), "", factor)
	o.BMC.Pace.Rate *= float64(factor)
	return waits, nil
}

// shorten goes through the fields of a struct, and of those in it. What is behind a
// pointer (the configuration of logs) is not Ingot's.
func shorten(v reflect.Value, path string, factor int) (waits []Wait) {
	for i := range v.NumField() {
		field, name := v.Field(i), path+v.Type().Field(i).Name
		switch {
		case slices.ContainsFunc(unshortened(), func(prefix string) bool { return strings.HasPrefix(name, prefix) }):
		case field.Type() == reflect.TypeFor[time.Duration]():
			w := Wait{Name: name, Normal: time.Duration(field.Int())}
			w.Short = w.Normal / time.Duration(factor)
			field.SetInt(int64(w.Short))
			waits = append(waits, w)
		case field.Kind() == reflect.Struct && field.CanSet():
			waits = append(waits, shorten(field, name+".", factor)...)
		}
	}
	return waits
}

// unshortened are the beginnings of names that Shorten leaves alone.
func unshortened() []string { return []string{"LeaderElect"} }
