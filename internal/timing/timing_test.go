// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package timing

import (
	"reflect"
	"testing"
	"time"
)

func TestWithDefaultsFillsZeroFieldsOnly(t *testing.T) {
	got := Timing{NodeJoin: time.Millisecond}.WithDefaults()
	want := Default()
	want.NodeJoin = time.Millisecond
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
}

func TestEveryDelayHasADefault(t *testing.T) {
	v := reflect.ValueOf(Default())
	for i := range v.NumField() {
		if v.Field(i).Int() <= 0 {
			t.Errorf("%s has no default", v.Type().Field(i).Name)
		}
	}
}
