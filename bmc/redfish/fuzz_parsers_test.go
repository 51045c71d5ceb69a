// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"encoding/json"
	"testing"
)

// FuzzParsers gives any body to each parser and checks the bounds of its result.
func FuzzParsers(f *testing.F) {
	for _, seed := range []string{
		`{"@odata.id":"/t/1","TaskState":"Pending","PercentComplete":100,"Messages":[{"MessageId":"a.b","Message":"restart"}]}`,
		`{"TaskState":7,"PercentComplete":"half","Messages":[null,{}]}`, `{"PercentComplete":-1e99}`,
		`{"Members":[{"@odata.id":"/l/12","Created":"2026-01-02T03:04:05+02:00","Severity":"Critical"},7,null],"Members@odata.nextLink":""}`,
		`{"Attributes":{"A":1,"B":"x","C":true,"SetupPassword":"s","D":1.5,"E":9223372036854775808}}`,
		`{"RegistryEntries":{"Attributes":[{"AttributeName":"A","Type":"Integer","LowerBound":"x","UpperBound":1e3}]}}`,
		`{"ReadingCelsius":"N/A","Reading":3,"ReadingUnits":"RPM","Status":{"Health":"Bad"},"SpeedPercent":{"Reading":[]}}`,
		`{"Inserted":null,"Image":"http://u:p@h/x","MediaTypes":["CD",3]}`, `[]`, `null`, ``,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		c := &conn{transport: &transport{}, traits: []trait{staleImage}}
		task := taskOf(answer{body: body})
		if task.Percent < -1 || task.Percent > 100 || task.ID != "" && !isLink(task.ID) {
			t.Errorf("task %+v", task)
		}
		var page logPage
		if decode(body, &page) == nil {
			for _, e := range page.Members {
				if entry := e.entry(c); len(entry.Message) > maxLogMessage+len("…") || e.number() < 0 {
					t.Errorf("entry %+v", entry)
				}
			}
		}
		var bios biosResource
		if decode(body, &bios) == nil {
			for name, v := range values(bios.Attributes) {
				if again, why := parseValue(v.String(), v.Kind); why != "" || again != v {
					t.Errorf("%s: %+v is written %q and read %+v", name, v, v.String(), again)
				}
				if _, err := json.Marshal(jsonValue(v)); err != nil {
					t.Errorf("%s: %v", name, err)
				}
			}
		}
		var registry registryResource
		if decode(body, &registry) == nil {
			for name, s := range schemas(registry.Entries.Attributes) {
				if name == "" || s.Kind == "Password" {
					t.Errorf("schema %+v", s)
				}
			}
		}
		var component componentResource
		if decode(body, &component) == nil {
			if component.state() == "" || len(component.reading()) > 64 || len(component.name()) > 128 {
				t.Errorf("component %q %q", component.name(), component.reading())
			}
		}
		var media mediaResource
		if decode(body, &media) == nil {
			if s := c.slot(media); !s.Inserted && s.Image != "" {
				t.Errorf("slot %+v", s)
			}
		}
	})
}
