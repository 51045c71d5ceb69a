// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"
)

// The manager opens only the agent API. An error names the flag, and no socket stays open.
func TestHostSockets(t *testing.T) {
	o := valid()
	asManager(o)
	o.AgentListen = "127.0.0.1:0"
	sockets, err := HostSockets(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	defer sockets.Close()
	if sockets.Agent == nil || sockets.Boot.DHCP != nil || sockets.Boot.HTTP != nil {
		t.Errorf("sockets = %+v", sockets)
	}
	taken := sockets.Agent.Addr().String()
	for name, tc := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"port taken":      {func(o *Options) { o.AgentListen = taken }, "--agent-listen"},
		"no boot address": {func(o *Options) { o.Roles, o.BootAddress = []string{RoleControllers, RoleBoot}, "here" }, "--boot-address"},
		"boot address of another machine": {func(o *Options) {
			o.Roles, o.BootAddress, o.BootInterface = []string{RoleControllers, RoleBoot}, "192.0.2.1", "no-such-interface"
		}, "DHCP"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			asManager(o)
			o.AgentListen = "127.0.0.1:0"
			tc.change(o)
			if s, err := HostSockets(t.Context(), o); err == nil || s != nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("HostSockets = %v, want %q", err, tc.want)
			}
		})
	}
}
