// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// valid returns valid options, those of the demo.
func valid() *Options {
	o := DefaultOptions()
	o.AgentKeyDir, o.BootAddress = "/keys", "192.0.2.1"
	return o
}

// asManager and asBoot set the options of the two Deployments.
func asManager(o *Options) {
	o.Roles, o.BootAddress, o.ImageCacheGiB = []string{RoleControllers}, "", 0
	o.AgentKeyDir, o.AgentKeySecret, o.AgentProxyProtocol = "", "ingot-system/ingot-agent-keys", true
}

func asBoot(o *Options) {
	o.Roles, o.AgentUpstream = []string{RoleBoot}, "[10.96.0.7]:8843"
}

// Validate reports all invalid options with flag, value and remedy.
func TestValidate(t *testing.T) {
	and := func(changes ...func(*Options)) func(*Options) {
		return func(o *Options) {
			for _, change := range changes {
				change(o)
			}
		}
	}
	for name, tc := range map[string]struct {
		change func(*Options)
		want   []string
	}{
		"valid":                         {change: func(*Options) {}},
		"valid, IPv6 agent API":         {change: func(o *Options) { o.AgentAddress = "[2001:db8::1]:8843" }},
		"manager":                       {change: asManager},
		"manager, key directory":        {change: and(asManager, func(o *Options) { o.AgentKeyDir, o.AgentKeySecret = "/keys", "" })},
		"boot":                          {change: asBoot},
		"boot, upstream by name":        {change: and(asBoot, func(o *Options) { o.AgentUpstream = "ingot-agent.ingot-system.svc:8843" })},
		"boot, upstream IPv6":           {change: and(asBoot, func(o *Options) { o.AgentUpstream = "[fd00::7]:8843" })},
		"no role":                       {func(o *Options) { o.Roles = nil }, []string{"--roles: is empty", "at least one"}},
		"unknown role":                  {func(o *Options) { o.Roles = []string{"cook"} }, []string{`--roles: unknown role "cook"`, "controllers, boot"}},
		"no keys":                       {func(o *Options) { o.AgentKeyDir = "" }, []string{"exactly one"}},
		"keys twice":                    {func(o *Options) { o.AgentKeySecret = "a/b" }, []string{`"/keys" and --agent-key-secret: "a/b"; set exactly one`}},
		"key Secret, no name":           {and(asManager, func(o *Options) { o.AgentKeySecret = "a" }), []string{`--agent-key-secret: "a" is not <namespace>/<name>`}},
		"key Secret, two names":         {and(asManager, func(o *Options) { o.AgentKeySecret = "a/b/c" }), []string{`"a/b/c" is not`}},
		"boot key Secret, no name":      {and(asManager, func(o *Options) { o.BootKeySecret = "a" }), []string{`--boot-key-secret: "a" is not <namespace>/<name>`}},
		"boot key Secret, the same":     {and(asManager, func(o *Options) { o.BootKeySecret = o.AgentKeySecret }), []string{"--boot-key-secret", "is also --agent-key-secret; use a Secret in the boot servers' namespace"}},
		"boot writes a Secret":          {and(asBoot, func(o *Options) { o.BootKeySecret = "a/b" }), []string{`--boot-key-secret: "a/b" requires the role controllers`}},
		"boot reads a Secret":           {and(asBoot, func(o *Options) { o.AgentKeyDir, o.AgentKeySecret = "", "a/b" }), []string{"cannot read Secrets"}},
		"agent address, no port":        {func(o *Options) { o.AgentAddress = "192.0.2.1" }, []string{`--agent-address: "192.0.2.1"`}},
		"agent address by name":         {func(o *Options) { o.AgentAddress = "ingot:8843" }, []string{`--agent-address: "ingot:8843"`}},
		"agent listen, no port":         {func(o *Options) { o.AgentListen = "192.0.2.1" }, []string{`--agent-listen: "192.0.2.1" is not host:port`}},
		"agent listen, bad port":        {func(o *Options) { o.AgentListen = ":no-such-port" }, []string{`--agent-listen: ":no-such-port" has no port`}},
		"agent listen, any port":        {func(o *Options) { o.AgentListen = ":0" }, []string{`--agent-listen: ":0" has no fixed port`, "8843"}},
		"boot HTTP, any port":           {func(o *Options) { o.BootHTTPPort = 0 }, []string{"--boot-http-port: must not be 0", "8880"}},
		"no workers":                    {func(o *Options) { o.HostConcurrency = 0 }, []string{"--ingothost-concurrency: 0 must be at least 1"}},
		"no burst":                      {func(o *Options) { o.Workloads.Burst = -1 }, []string{"--clustercache-client-burst: -1 must be at least 1"}},
		"no rate":                       {func(o *Options) { o.KubeAPIQPS = 0 }, []string{"--kube-api-qps: must not be 0", "-1"}},
		"no limit":                      {change: func(o *Options) { o.KubeAPIQPS = -1 }},
		"no sync":                       {func(o *Options) { o.SyncPeriod = 0 }, []string{"--sync-period: 0s must be more than 0"}},
		"boot, no upstream":             {and(asBoot, func(o *Options) { o.AgentUpstream = "" }), []string{`--agent-upstream: "" is not host:port`}},
		"boot, Service unknown":         {and(asBoot, func(o *Options) { o.AgentUpstream = "[$(INGOT_AGENT_SERVICE_HOST)]:8843" }), []string{"--agent-upstream", "is not host:port"}},
		"upstream without the role":     {func(o *Options) { o.AgentUpstream = "a:1" }, []string{`--agent-upstream: "a:1" requires the role boot`}},
		"PROXY in one process":          {func(o *Options) { o.AgentProxyProtocol = true }, []string{"--agent-proxy-protocol: requires the role controllers"}},
		"PROXY at boot":                 {and(asBoot, func(o *Options) { o.AgentProxyProtocol = true }), []string{"--agent-proxy-protocol"}},
		"boot address IPv6":             {func(o *Options) { o.BootAddress = "2001:db8::1" }, []string{`--boot-address: "2001:db8::1" is not an IPv4 address`}},
		"boot IPv6 of IPv4":             {func(o *Options) { o.BootIPv6 = "192.0.2.1" }, []string{`--boot-ipv6-address: "192.0.2.1" is not a global IPv6 address`}},
		"boot IPv6, link-local":         {func(o *Options) { o.BootIPv6 = "fe80::1" }, []string{`--boot-ipv6-address: "fe80::1"`}},
		"boot IPv6":                     {change: func(o *Options) { o.BootIPv6 = "2001:db8::1" }},
		"boot IPv6, found":              {change: func(o *Options) { o.BootIPv6 = "auto" }},
		"boot URL":                      {change: and(asManager, func(o *Options) { o.BootURL = "http://192.0.2.1:8880/" })},
		"boot URL, a path":              {and(asManager, func(o *Options) { o.BootURL = "http://192.0.2.1/boot" }), []string{`--boot-url: "http://192.0.2.1/boot" is not http://host:port`}},
		"boot URL, a query":             {func(o *Options) { o.BootURL = "http://192.0.2.1:8880?a" }, []string{"--boot-url"}},
		"boot URL, TLS":                 {func(o *Options) { o.BootURL = "https://192.0.2.1:8880" }, []string{"--boot-url"}},
		"boot URL, a user":              {func(o *Options) { o.BootURL = "http://a:b@192.0.2.1:8880" }, []string{"--boot-url"}},
		"no connections":                {func(o *Options) { o.BootClientConnections = -1 }, []string{"--boot-client-connections: -1 must be at least 1"}},
		"no image cache":                {func(o *Options) { o.ImageCacheGiB = 0 }, []string{"--image-cache-gib: 0 must be at least 1"}},
		"image source, nonsense":        {func(o *Options) { o.Images.Sources = []string{"ftp://x/"} }, []string{`--image-sources: image source "ftp://x/"`}},
		"image CA, no file":             {func(o *Options) { o.Images.CAFile = "/nonexistent" }, []string{"--image-ca-file: open /nonexistent"}},
		"image CA, no PEM":              {func(o *Options) { o.Images.CAFile = "/dev/null" }, []string{"--image-ca-file: /dev/null contains no PEM certificate"}},
		"no poll":                       {func(o *Options) { o.PowerPoll = 0 }, []string{"--power-poll: 0s must be more than 0"}},
		"negative deadline":             {func(o *Options) { o.Policy.AgentDeadline = -1 }, []string{"--agent-deadline: -1ns"}},
		"no soft power-off":             {func(o *Options) { o.Policy.SoftPowerOff = 0 }, []string{"--soft-power-off"}},
		"no reset interval":             {func(o *Options) { o.Policy.ResetInterval = 0 }, []string{"--reset-interval"}},
		"negative rest":                 {func(o *Options) { o.MoveRest = -1 }, []string{"--move-rest: -1ns must be at least 0"}},
		"no rest":                       {change: func(o *Options) { o.MoveRest = 0 }},
		"no attempt":                    {func(o *Options) { o.Policy.MaxAttempts = 0 }, []string{"--max-attempts: 0 must be at least 1"}},
		"BMC source, a name":            {func(o *Options) { o.BMCSources = []string{"10.0.0.0/8", "bmc.example"} }, []string{`--bmc-sources: "bmc.example"`, "write 10.20.0.0/16"}},
		"BMC source, too long a prefix": {func(o *Options) { o.BMCSources = []string{"10.0.0.0/33"} }, []string{`--bmc-sources: "10.0.0.0/33"`, "write 10.20.0.0/16"}},
		"BMC source, with a port":       {func(o *Options) { o.BMCSources = []string{"10.0.0.7:443"} }, []string{`--bmc-sources: "10.0.0.7:443"`, "write 10.20.0.0/16"}},
		"BMC source, a URL":             {func(o *Options) { o.BMCSources = []string{"redfish://10.0.0.7"} }, []string{`--bmc-sources: "redfish://10.0.0.7"`, "write 10.20.0.0/16"}},
		"BMC source, IPv4 in IPv6":      {func(o *Options) { o.BMCSources = []string{"::ffff:10.0.0.0/104"} }, []string{`--bmc-sources: "::ffff:10.0.0.0/104"`, "write 10.20.0.0/16"}},
		"BMC source, a zone":            {func(o *Options) { o.BMCSources = []string{"fe80::1%eth0"} }, []string{`--bmc-sources: "fe80::1%eth0"`, "write 10.20.0.0/16"}},
		"BMC source, nothing excluded":  {func(o *Options) { o.BMCSources = []string{"!"} }, []string{`--bmc-sources: "!"`, "with a leading ! to exclude it"}},
		"BMC source, excluded twice":    {func(o *Options) { o.BMCSources = []string{"!!10.0.0.1"} }, []string{`--bmc-sources: "!!10.0.0.1"`, "with a leading ! to exclude it"}},
		"BMC source, a range":           {func(o *Options) { o.BMCSources = []string{"10.0.0.1-10.0.0.9"} }, []string{`--bmc-sources: "10.0.0.1-10.0.0.9"`, "write 10.20.0.0/16"}},
		"BMC source, excluded":          {change: func(o *Options) { o.BMCSources = []string{" ", "10.0.0.0/8", "!10.0.0.1"} }},
		"migration, all skipped": {change: func(o *Options) {
			o.SkipCRDMigrationPhases = []string{"StorageVersionMigration", "CleanupManagedFields"}
		}},
		"migration, no phase": {func(o *Options) { o.SkipCRDMigrationPhases = []string{"All"} }, []string{`--skip-crd-migration-phases: unknown phase "All"`, "CleanupManagedFields"}},
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
					t.Errorf("Validate = %v, want %q", err, want)
				}
			}
		})
	}
}

// The address that agents use matches the listen address.
func TestAgentAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		change          func(*Options)
		address, listen string
	}{
		"one process":                {func(*Options) {}, "192.0.2.1:8843", ":8843"},
		"one process, another port":  {func(o *Options) { o.AgentListen = ":99" }, "192.0.2.1:99", ":99"},
		"given":                      {func(o *Options) { o.AgentAddress = "192.0.2.9:1" }, "192.0.2.9:1", ":8843"},
		"manager: the agent knows":   {asManager, "", ":8843"},
		"boot: on its own address":   {asBoot, "192.0.2.1:8843", "192.0.2.1:8843"},
		"boot, bound to all":         {func(o *Options) { asBoot(o); o.AgentListen = "0.0.0.0:8843" }, "192.0.2.1:8843", "0.0.0.0:8843"},
		"boot, behind a shared name": {func(o *Options) { asBoot(o); o.AgentAddress = "192.0.2.9:8843" }, "192.0.2.9:8843", "192.0.2.1:8843"},
	} {
		t.Run(name, func(t *testing.T) {
			o := valid()
			tc.change(o)
			if got := o.agentAddress(); got != tc.address {
				t.Errorf("agents go to %q, want %q", got, tc.address)
			}
			if got := o.agentListen(); got != tc.listen {
				t.Errorf("listens on %q, want %q", got, tc.listen)
			}
		})
	}
}

// Every flag has a help text, and its default is the option's.
func TestFlags(t *testing.T) {
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	o := valid()
	o.AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if f.Usage == "" {
			t.Errorf("--%s has no help text", f.Name)
		}
	})
	err := fs.Parse([]string{"--roles=boot", "--power-poll=7s", "--max-attempts=5", "--agent-arguments=a,\"b=c,d\"", "--boot-http-port=81"})
	if err != nil || !o.Has(RoleBoot) || o.Has(RoleControllers) || o.PowerPoll.Seconds() != 7 || o.Policy.MaxAttempts != 5 ||
		!slices.Equal(o.AgentArguments, []string{"a", "b=c,d"}) || o.BootHTTPPort != 81 {
		t.Errorf("parsed %+v, error %v", o, err)
	}
}

// conventional contains the flags of Cluster API's providers (v1.14,
// test/infrastructure/docker/main.go) with their defaults.
var conventional = map[string]string{
	"leader-elect": "false", "leader-elect-lease-duration": "15s", "leader-elect-renew-deadline": "10s", "leader-elect-retry-period": "2s",
	"namespace": "", "watch-filter": "", "profiler-address": "", "contention-profiling": "false",
	"ingothost-concurrency": "50", "ingotmachine-concurrency": "10", "ingotcluster-concurrency": "5", "ingotmachinetemplate-concurrency": "1",
	"clustercache-concurrency": "10", "clustercache-client-qps": "20", "clustercache-client-burst": "30",
	"skip-crd-migration-phases": "[]", "sync-period": "10m0s", "kube-api-qps": "100", "kube-api-burst": "200",
	"webhook-port": "9443", "webhook-cert-dir": "/tmp/k8s-webhook-server/serving-certs", "webhook-cert-name": "tls.crt", "webhook-key-name": "tls.key",
	"health-addr": ":9440", "v": "2", "vmodule": "", "logging-format": "text", "log-flush-frequency": "5s",
	"tls-min-version": "VersionTLS12", "tls-cipher-suites": "[]", "tls-curve-preferences": "[]",
	"diagnostics-address": ":8443", "insecure-diagnostics": "false",
}

// omitted contains the flags that Ingot does not have, with the reason.
var omitted = map[string]string{
	"feature-gates": "Ingot has no feature gates",
}

func TestConventionalFlags(t *testing.T) {
	fs := pflag.NewFlagSet("manager", pflag.ContinueOnError)
	DefaultOptions().AddFlags(fs)
	got := map[string]string{}
	for name := range conventional {
		if f := fs.Lookup(name); f != nil {
			got[name] = f.DefValue
		}
	}
	if diff := cmp.Diff(conventional, got); diff != "" {
		t.Errorf("flags and defaults (-convention +Ingot):\n%s", diff)
	}
	for name, reason := range omitted {
		if fs.Lookup(name) != nil {
			t.Errorf("--%s exists, although: %s", name, reason)
		}
	}
}

// The boot role serves no webhooks.
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

// The scheme contains both API versions and the kinds that the controllers read.
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
		t.Error("the scheme has no Machines")
	}
}
