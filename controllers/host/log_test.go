// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/go-logr/logr"
	"github.com/go-logr/logr/funcr"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// testLog: each step and each new decision is one log line with the keys of its host; an unchanged
// poll logs nothing.
func testLog(t *testing.T, on *testEnv) {
	y := newFixture(t, on)
	var mu sync.Mutex
	var lines []string
	y.ctx = logr.NewContext(y.ctx, funcr.New(func(_, args string) {
		mu.Lock()
		defer mu.Unlock()
		lines = append(lines, args)
	}, funcr.Options{}))
	with := func(phrase string) []string {
		mu.Lock()
		defer mu.Unlock()
		return slices.DeleteFunc(slices.Clone(lines), func(line string) bool { return !strings.Contains(line, `"msg"="`+phrase+`"`) })
	}
	host := y.ready("h")
	y.inspect("h")
	if boots := with("Booting the agent"); len(boots) != 1 || !hasKeys(boots[0], "rule", "reason", "attempt") {
		t.Errorf("boots of the agent: %q, want one with its keys", boots)
	}
	if len(with("Powering off the host")) != 1 || len(with("Recording the address")) != 1 || len(with("Saving claim, record and order")) == 0 {
		t.Errorf("a step is missing, or repeated: %q", lines)
	}
	y.step("h")
	before := len(lines)
	y.atRest("h")
	if more := lines[before:]; len(more) != 0 {
		t.Errorf("polls of a host at rest log %q", more)
	}

	id := y.claim("h")
	y.untilBoot("h", infrav1.OrderInstall)
	boots := with("Booting the agent")
	if last := boots[len(boots)-1]; len(boots) != 2 || !strings.Contains(last, `"machine"="`+y.ns+`/m-h" "cluster"="`+y.ns+`/c" "instanceID"="`+id+`"`) {
		t.Errorf("the boot of a claimed host: %q, want its machine, cluster and instance", last)
	}
	name := `"host"="` + y.ns + `/h" "bmc"="` + strings.TrimPrefix(host.Spec.BMC.Address, "redfish://") + `"`
	for _, line := range lines {
		if !strings.Contains(line, name) || strings.Contains(line, canary) {
			t.Errorf("line %q, want %s and no password", line, name)
		}
	}
}

func hasKeys(line string, keys ...string) bool {
	return !slices.ContainsFunc(keys, func(key string) bool { return !strings.Contains(line, `"`+key+`"=`) })
}
