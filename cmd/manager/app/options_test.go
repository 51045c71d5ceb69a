// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// valid are options that every test starts from.
func valid() *Options {
	o := DefaultOptions()
	o.AgentAddress, o.BootAddress = "192.0.2.1:8843", "192.0.2.1"
	return o
}

// Each refusal names the flag, its value and a remedy; all are told at once.
func TestValidate(t *testing.T) {
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"valid":                  {change: func(*Options) {}},
		"valid, IPv6 agent API":  {change: func(o *Options) { o.AgentAddress = "[2001:db8::1]:8843" }},
		"controllers only":       {change: func(o *Options) { o.Roles, o.BootAddress, o.ImageCacheGiB = []string{RoleControllers}, "", 0 }},
		"no role":                {func(o *Options) { o.Roles = nil }, []string{"--roles: is empty", "choose"}},
		"unknown role":           {func(o *Options) { o.Roles = []string{"cook"} }, []string{`--roles: "cook"`, "controllers, boot"}},
		"no agent address":       {func(o *Options) { o.AgentAddress = "" }, []string{"--agent-address", "give the address"}},
		"agent address, no port": {func(o *Options) { o.AgentAddress = "192.0.2.1" }, []string{`--agent-address: "192.0.2.1"`}},
		"agent address by name":  {func(o *Options) { o.AgentAddress = "ingot:8843" }, []string{`--agent-address: "ingot:8843"`}},
		"boot address IPv6":      {func(o *Options) { o.BootAddress = "2001:db8::1" }, []string{`--boot-address: "2001:db8::1" is not an IPv4 address`}},
		"no image cache":         {func(o *Options) { o.ImageCacheGiB = 0 }, []string{"--image-cache-gib: 0 is too small"}},
		"no poll":                {func(o *Options) { o.PowerPoll = 0 }, []string{"--power-poll: 0s must be more than 0"}},
		"negative deadline":      {func(o *Options) { o.Policy.AgentDeadline = -1 }, []string{"--agent-deadline: -1ns"}},
		"no soft power-off":      {func(o *Options) { o.Policy.SoftPowerOff = 0 }, []string{"--soft-power-off"}},
		"no reset interval":      {func(o *Options) { o.Policy.ResetInterval = 0 }, []string{"--reset-interval"}},
		"no attempt":             {func(o *Options) { o.Policy.MaxAttempts = 0 }, []string{"--max-attempts: 0 must be at least 1"}},
		"all at once": {func(o *Options) { o.AgentAddress, o.BootAddress, o.PowerPoll = "a", "b", 0 },
			[]string{"--agent-address", "--boot-address", "--power-poll"}},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			tc.change(o)
			err := o.Validate()
			if (err == nil) != (len(tc.want) == 0) {
				t.Fatalf("Validate = %v, want %q", err, tc.want)
			}
			for _, want := range tc.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("Validate = %v, want it to say %q", err, want)
				}
			}
		})
	}
}

// Every flag has a word of help, and its default is the option's.
func TestFlags(t *testing.T) {
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o := valid()
	o.AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no help", f.Name)
		}
	})
	err := fs.Parse([]string{"--roles=boot", "--power-poll=7s", "--max-attempts=5", "--agent-arguments=a,b", "--boot-http-port=81"})
	if err != nil || !o.Has(RoleBoot) || o.Has(RoleControllers) || o.PowerPoll.Seconds() != 7 || o.Policy.MaxAttempts != 5 ||
		len(o.AgentArguments) != 2 || o.BootHTTPPort != 81 {
		t.Errorf("parsed %+v, error %v", o, err)
	}
	for _, name := range []string{"leader-elect", "namespace", "watch-filter", "sync-period", "kube-api-qps", "kube-api-burst",
		"webhook-port", "webhook-cert-dir", "health-addr", "diagnostics-address", "tls-min-version", "manager-username", "v"} { // contract.md §7
		if fs.Lookup(name) == nil {
			t.Errorf("no flag --%s", name)
		}
	}
}

// The boot role has no certificate to serve webhooks with.
func TestServesWebhooks(t *testing.T) {
	for _, tc := range []struct {
		roles string
		port  int
		want  bool
	}{{"controllers,boot", 9443, true}, {"controllers", 9443, true}, {"controllers", 0, false}, {"boot", 9443, false}} {
		o := valid()
		o.Roles, o.WebhookPort = strings.Split(tc.roles, ","), tc.port
		if got := o.servesWebhooks(); got != tc.want {
			t.Errorf("%s with port %d: %t", tc.roles, tc.port, got)
		}
	}
}

func TestLeaseNamespace(t *testing.T) {
	t.Setenv("POD_NAMESPACE", "pod")
	o := valid()
	if got := o.leaseNamespace(); got != "pod" {
		t.Errorf("namespace = %q", got)
	}
	o.LeaderElectNamespace = "given"
	if got := o.leaseNamespace(); got != "given" {
		t.Errorf("namespace = %q", got)
	}
}

// The scheme knows both API versions and what the controllers read.
func TestScheme(t *testing.T) {
	scheme, err := Scheme()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"IngotHost", "IngotMachine", "IngotCluster"} {
		versions := scheme.VersionsForGroupKind(schema.GroupKind{Group: "infrastructure.cluster.x-k8s.io", Kind: kind})
		if want := map[bool]int{true: 1, false: 2}[kind == "IngotHost"]; len(versions) != want {
			t.Errorf("%s: versions %v, want %d", kind, versions, want)
		}
	}
	if len(scheme.VersionsForGroupKind(schema.GroupKind{Group: "cluster.x-k8s.io", Kind: "Machine"})) == 0 {
		t.Error("Machines are not known")
	}
}
