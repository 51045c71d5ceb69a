// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"net/http"
	"testing"
	"time"

	"github.com/ingot-metal/ingot/agentapi"
)

// A problem that is resolved no longer counts: the limit for busy servers applies.
func TestRecordBusyClearsAProblem(t *testing.T) {
	answer := func(status int, problem string) *http.Response {
		header := http.Header{}
		if problem != "" {
			header.Set(agentapi.HeaderImageProblem, problem)
		}
		return &http.Response{StatusCode: status, Header: header}
	}
	s := &Source{req: Request{OnBusy: func(time.Duration) {}}}
	for i, step := range []struct {
		answer  *http.Response
		problem string
	}{
		{answer(http.StatusServiceUnavailable, ""), ""},
		{answer(http.StatusBadGateway, "status 500"), "status 500"},
		{answer(http.StatusBadGateway, ""), "status 500"}, // from a proxy, without information about the fetch
		{answer(http.StatusServiceUnavailable, "no route"), "no route"},
		{answer(http.StatusServiceUnavailable, ""), ""},
	} {
		s.recordBusy(step.answer)
		if s.problem != step.problem || s.wrongSince.IsZero() != (step.problem == "") || s.busySince.IsZero() {
			t.Errorf("answer %d: %q since %s, busy since %s; want %q", i, s.problem, s.wrongSince, s.busySince, step.problem)
		}
	}
}
