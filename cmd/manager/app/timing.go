// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"fmt"
	"reflect"
	"strings"
	"time"
)

// MaxShorten is the largest factor of Shorten.
const MaxShorten = 20

// Wait is one of the manager's durations before and after Shorten.
type Wait struct {
	// Name is the path of the field in Options, such as "Policy.AgentDeadline".
	Name          string
	Normal, Short time.Duration
}

// String implements fmt.Stringer.
func (w Wait) String() string { return fmt.Sprintf("%s %s→%s", w.Name, w.Normal, w.Short) }

// Shorten divides every duration in the options by factor, and multiplies the rate of requests to a
// BMC. It is for tests of whole host lifecycles. The leader's lease stays, because other replicas and
// the API server depend on it. Shorten returns its changes in the order of the fields.
func (o *Options) Shorten(factor int) ([]Wait, error) {
	if factor < 1 || factor > MaxShorten {
		return nil, fmt.Errorf("shorten the durations: the factor %d is not between 1 and %d", factor, MaxShorten)
	}
	waits := shorten(reflect.ValueOf(o).Elem(), "", factor)
	o.BMC.RateLimit.Rate *= float64(factor)
	return waits, nil
}

// shorten changes the fields of a struct and of its nested structs, but not fields behind pointers,
// such as the logging configuration.
func shorten(v reflect.Value, path string, factor int) (waits []Wait) {
	for i := range v.NumField() {
		field, name := v.Field(i), path+v.Type().Field(i).Name
		switch {
		case strings.HasPrefix(name, "LeaderElect"):
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
