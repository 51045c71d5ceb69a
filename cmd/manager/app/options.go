// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"os"
	"time"

	"github.com/spf13/pflag"
	logsv1 "k8s.io/component-base/logs/api/v1"
	"sigs.k8s.io/cluster-api/util/flags"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/controllers/move"
	"github.com/ingot-metal/ingot/internal/timing"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
	"github.com/ingot-metal/ingot/pxe/bootlog"
	"github.com/ingot-metal/ingot/pxe/httpd"
)

// Roles of the binary.
const (
	RoleControllers = "controllers"
	RoleBoot        = "boot"
	// RoleHooks serves Cluster API's hooks.
	RoleHooks = "runtime-extension"
)

// Options configures the manager. Most fields have a flag.
type Options struct {
	Roles           []string
	Kubeconfig      string
	ManagerUsername string

	LeaderElect                bool
	LeaderElectNamespace       string
	LeaderElectLease           time.Duration
	LeaderElectRenew           time.Duration
	LeaderElectRetry           time.Duration
	Namespace                  string
	WatchFilter                string
	SyncPeriod                 time.Duration
	KubeAPIQPS                 float32
	KubeAPIBurst               int
	WebhookPort                int
	WebhookHost                string
	WebhookCertDir             string
	WebhookCertName            string
	WebhookKeyName             string
	HealthAddress              string
	ProfilerAddress            string
	ContentionProfiling        bool
	SkipCRDMigrationPhases     []string
	HostConcurrency            int
	MachineConcurrency         int
	ClusterConcurrency         int
	MachineTemplateConcurrency int
	RemediationConcurrency     int
	Workloads                  WorkloadOptions

	AgentKeyDir        string
	AgentKeySecret     string
	BootKeySecret      string
	AgentListen        string
	AgentAddress       string
	AgentUpstream      string
	AgentProxyProtocol bool

	BootAddress    string
	BootIPv6       string
	BootURL        string
	BootInterface  string
	BootHTTPPort   uint16
	LoaderDir      string
	AgentImageDir  string
	AgentArguments []string
	ImageCacheDir  string
	ImageCacheGiB  int64
	Images         ImageOptions
	TFTPSinglePort bool
	// BootClientConnections limits the concurrent HTTP connections of one address.
	BootClientConnections int

	PowerPoll time.Duration
	Policy    lifecycle.Policy
	MoveRest  time.Duration
	// BMCSources contains entries for bmc.ParseSources.
	BMCSources []string
	// BMCEvents enables event streams from BMCs.
	BMCEvents bool
	// The following fields have no flags, because their defaults suit every site. Shorten changes
	// them.
	BMC       bmc.PoolOptions
	Watches   bmc.WatchOptions
	BootWaits bootlog.Timing
	Timing    timing.Timing

	Hooks HookOptions

	Manager flags.ManagerOptions
	Logs    *logsv1.LoggingConfiguration

	// ShowVersion prints the version instead of running the manager, and PrintUnified the
	// unified kernel image.
	ShowVersion, PrintUnified bool
}

// DefaultOptions returns the defaults of Cluster API's managers and of Ingot.
func DefaultOptions() *Options {
	logs := logsv1.NewLoggingConfiguration()
	logs.Verbosity = 2
	return &Options{
		Roles:            []string{RoleControllers, RoleBoot},
		ManagerUsername:  "system:serviceaccount:ingot-system:ingot-controller-manager",
		LeaderElectLease: 15 * time.Second, LeaderElectRenew: 10 * time.Second, LeaderElectRetry: 2 * time.Second,
		SyncPeriod: 10 * time.Minute, KubeAPIQPS: 100, KubeAPIBurst: 200,
		WebhookPort: 9443, WebhookCertDir: "/tmp/k8s-webhook-server/serving-certs",
		WebhookCertName: "tls.crt", WebhookKeyName: "tls.key", HealthAddress: ":9440",
		HostConcurrency: 50, MachineConcurrency: 10, ClusterConcurrency: 5, MachineTemplateConcurrency: 1, RemediationConcurrency: 5,
		Workloads:    WorkloadOptions{Concurrency: 10, QPS: 20, Burst: 30},
		AgentListen:  ":8843",
		BootHTTPPort: 8880, BootClientConnections: httpd.DefaultMaxConnsPerClient, LoaderDir: "/usr/lib/ipxe", AgentImageDir: "/usr/share/ingot/agent",
		ImageCacheDir: "/var/cache/ingot/images", ImageCacheGiB: 50,
		PowerPoll: time.Minute, Policy: lifecycle.DefaultPolicy(), MoveRest: move.DefaultRest,
		BMC: bmc.DefaultPoolOptions(), Watches: bmc.DefaultWatchOptions(),
		BootWaits: bootlog.Timing{Quiet: bootlog.DefaultQuiet, Interval: bootlog.DefaultInterval},
		Timing:    timing.Default(),
		Hooks:     defaultHookOptions(),
		Logs:      logs,
	}
}

// FlagGroup is the set of flags that the same roles use.
type FlagGroup struct {
	// Title names the roles, such as "Role controllers".
	Title string
	Flags *pflag.FlagSet
}

// FlagGroups returns a flag for every option, grouped by role.
func (o *Options) FlagGroups() []FlagGroup {
	group := func(title string, add ...func(*pflag.FlagSet)) FlagGroup {
		fs := pflag.NewFlagSet(title, pflag.ContinueOnError)
		for _, f := range add {
			f(fs)
		}
		return FlagGroup{Title: title, Flags: fs}
	}
	return []FlagGroup{
		group("All roles", o.addCommonFlags),
		group("Roles controllers and boot", o.addAgentFlags, o.Images.addFlags),
		group("Role controllers", o.addControllerFlags, o.addConcurrencyFlags, o.addPolicyFlags),
		group("Role boot", o.addBootFlags),
		group("Role runtime-extension", o.Hooks.addFlags),
	}
}

// AddFlags registers a flag for every option.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	for _, group := range o.FlagGroups() {
		fs.AddFlagSet(group.Flags)
	}
}

func (o *Options) addCommonFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Roles, "roles", o.Roles, "Roles of this process, separated by commas: controllers, boot, runtime-extension.")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig. If empty, the Pod's service account is used.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace to watch. If empty, all namespaces are watched.")
	fs.StringVar(&o.WatchFilter, "watch-filter", o.WatchFilter, "Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value. If empty, all objects are reconciled.")
	fs.DurationVar(&o.SyncPeriod, "sync-period", o.SyncPeriod, "Interval at which all objects are reconciled again.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "Maximum requests per second to the API server; -1 means no limit.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "Maximum burst of requests to the API server.")
	fs.StringVar(&o.HealthAddress, "health-addr", o.HealthAddress, "Listen address of /healthz and /readyz.")
	fs.StringVar(&o.ProfilerAddress, "profiler-address", o.ProfilerAddress, "Listen address of an unprotected pprof endpoint, such as localhost:6060. If empty, it is disabled. The diagnostics endpoint has a protected one.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling, "Record blocking events for pprof's block profile.")
	fs.BoolVar(&o.ShowVersion, "version", false, "Print the version and exit.")
	flags.AddManagerOptions(fs, &o.Manager)
	logsv1.AddFlags(o.Logs, fs)
}

func (o *Options) addAgentFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AgentKeyDir, "agent-key-dir", o.AgentKeyDir, "Directory with the token key, the pins and, for the role controllers, the TLS key of the agent API. Set either this or --agent-key-secret.")
	fs.StringVar(&o.AgentListen, "agent-listen", o.AgentListen, "Listen address for agents: the agent API (TLS), or with only the role boot a forwarder to it.")
	fs.StringVar(&o.AgentAddress, "agent-address", o.AgentAddress, "address:port at which servers reach the agent API. If empty, --boot-address with the port of --agent-listen is used.")
}

func (o *Options) addControllerFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.ManagerUsername, "manager-username", o.ManagerUsername, "User name of this manager at the API server. Only this user may change claim, record, order and commands of an IngotHost.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Elect a leader, so that only one replica runs controllers.")
	fs.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", o.LeaderElectNamespace, "Namespace of the leader's Lease. If empty, the Pod's namespace is used.")
	fs.DurationVar(&o.LeaderElectLease, "leader-elect-lease-duration", o.LeaderElectLease, "Time after which another replica replaces a leader that does not renew its Lease.")
	fs.DurationVar(&o.LeaderElectRenew, "leader-elect-renew-deadline", o.LeaderElectRenew, "Time after which a leader that cannot renew its Lease stops.")
	fs.DurationVar(&o.LeaderElectRetry, "leader-elect-retry-period", o.LeaderElectRetry, "Interval between attempts to acquire or renew the Lease.")
	fs.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "Port of the webhook server; 0 disables webhooks.")
	fs.StringVar(&o.WebhookHost, "webhook-host", o.WebhookHost, "Listen address of the webhook server. If empty, it listens on all addresses.")
	fs.StringVar(&o.WebhookCertDir, "webhook-cert-dir", o.WebhookCertDir, "Directory with the certificate and key of the webhook server.")
	fs.StringVar(&o.WebhookCertName, "webhook-cert-name", o.WebhookCertName, "File name of the certificate in --webhook-cert-dir.")
	fs.StringVar(&o.WebhookKeyName, "webhook-key-name", o.WebhookKeyName, "File name of the private key in --webhook-cert-dir.")
	fs.StringSliceVar(&o.SkipCRDMigrationPhases, "skip-crd-migration-phases", o.SkipCRDMigrationPhases, "Phases of the migration of stored objects to skip, separated by commas: StorageVersionMigration, CleanupManagedFields.")
	fs.StringVar(&o.AgentKeySecret, "agent-key-secret", o.AgentKeySecret, "Secret with the agent keys as <namespace>/<name>. The role controllers creates it if it does not exist.")
	fs.StringVar(&o.BootKeySecret, "boot-key-secret", o.BootKeySecret, "Secret as <namespace>/<name> into which the role controllers writes the token key and the pins for boot servers in another namespace. If empty, none is written.")
	fs.BoolVar(&o.AgentProxyProtocol, "agent-proxy-protocol", o.AgentProxyProtocol, "Accept agents only from boot servers, which send the agent's address by the PROXY protocol.")
	fs.StringVar(&o.BootURL, "boot-url", o.BootURL, "http://host:port at which BMCs and firmware reach a boot server, for hosts that boot by HTTP or VirtualMedia. If empty, the boot server of this process is used; without one, such hosts cannot boot.")
}

func (o *Options) addConcurrencyFlags(fs *pflag.FlagSet) {
	fs.IntVar(&o.HostConcurrency, "ingothost-concurrency", o.HostConcurrency, "Number of IngotHosts reconciled concurrently.")
	fs.IntVar(&o.MachineConcurrency, "ingotmachine-concurrency", o.MachineConcurrency, "Number of IngotMachines reconciled concurrently.")
	fs.IntVar(&o.ClusterConcurrency, "ingotcluster-concurrency", o.ClusterConcurrency, "Number of IngotClusters reconciled concurrently.")
	fs.IntVar(&o.MachineTemplateConcurrency, "ingotmachinetemplate-concurrency", o.MachineTemplateConcurrency, "Number of IngotMachineTemplates reconciled concurrently.")
	fs.IntVar(&o.RemediationConcurrency, "ingotremediation-concurrency", o.RemediationConcurrency, "Number of IngotRemediations reconciled concurrently.")
	fs.IntVar(&o.Workloads.Concurrency, "clustercache-concurrency", o.Workloads.Concurrency, "Number of workload clusters connected concurrently.")
	fs.Float32Var(&o.Workloads.QPS, "clustercache-client-qps", o.Workloads.QPS, "Maximum requests per second to the API server of a workload cluster; -1 means no limit.")
	fs.IntVar(&o.Workloads.Burst, "clustercache-client-burst", o.Workloads.Burst, "Maximum burst of requests to the API server of a workload cluster.")
}

func (o *Options) addPolicyFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.PowerPoll, "power-poll", o.PowerPoll, "Interval at which Ingot reads power state and health from a BMC. For a healthy provisioned host that is on, the interval is three times as long.")
	fs.StringSliceVar(&o.BMCSources, "bmc-sources", o.BMCSources, "Allowed networks and IP addresses of BMCs, separated by commas, such as 10.20.0.0/16. An entry with the prefix ! excludes its addresses. If empty, all are allowed. Loopback, link-local, unspecified and multicast addresses, Service networks and API server addresses are excluded unless an entry is inside them.")
	fs.BoolVar(&o.BMCEvents, "bmc-events", o.BMCEvents, "Receive events from BMCs that support Redfish server-sent events, and poll these BMCs ten times less often than --power-poll.")
	fs.DurationVar(&o.Policy.SoftPowerOff, "soft-power-off", o.Policy.SoftPowerOff, "Time that an operating system has to shut down before Ingot forces the power off.")
	fs.DurationVar(&o.Policy.AgentDeadline, "agent-deadline", o.Policy.AgentDeadline, "Time without a message from the agent after which Ingot powers the host off and tries again.")
	fs.DurationVar(&o.Policy.ResetInterval, "reset-interval", o.Policy.ResetInterval, "Minimum time between two power actions on a host.")
	fs.DurationVar(&o.MoveRest, "move-rest", o.MoveRest, "Time that a host waits after clusterctl move before Ingot resumes interrupted work; 0 means no wait.")
	fs.Int32Var(&o.Policy.MaxAttempts, "max-attempts", o.Policy.MaxAttempts, "Number of consecutive failures after which a host is quarantined.")
}

func (o *Options) addBootFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AgentUpstream, "agent-upstream", o.AgentUpstream, "host:port of the manager's agent API, to which a process with only the role boot forwards agents.")
	fs.StringVar(&o.BootAddress, "boot-address", o.BootAddress, "IPv4 address at which servers reach this boot server.")
	fs.StringVar(&o.BootIPv6, "boot-ipv6-address", o.BootIPv6, "IPv6 address at which servers reach this boot server, for networks with spec.ipv6. auto selects an address of the interface with --boot-address. If empty, DHCPv6, TFTP and HTTP over IPv6, and router advertisements are disabled.")
	fs.StringVar(&o.BootInterface, "boot-interface", o.BootInterface, "Network interfaces of the DHCP server, separated by commas. If empty, it serves all. It binds to a single interface, so that another DHCP server can use the others.")
	fs.Uint16Var(&o.BootHTTPPort, "boot-http-port", o.BootHTTPPort, "HTTP port of the boot server.")
	fs.StringVar(&o.LoaderDir, "loader-dir", o.LoaderDir, "Directory with the iPXE loaders.")
	fs.StringVar(&o.AgentImageDir, "agent-image-dir", o.AgentImageDir, "Directory with the agent's vmlinuz and initramfs.cpio.zst.")
	fs.StringSliceVar(&o.AgentArguments, "agent-arguments", o.AgentArguments, "Additional kernel arguments of the agent, separated by commas, such as console=ttyS0.")
	fs.StringVar(&o.ImageCacheDir, "image-cache-dir", o.ImageCacheDir, "Directory of the OS image cache.")
	fs.Int64Var(&o.ImageCacheGiB, "image-cache-gib", o.ImageCacheGiB, "Maximum size of the OS image cache in GiB.")
	fs.IntVar(&o.BootClientConnections, "boot-client-connections", o.BootClientConnections, "Maximum concurrent HTTP connections from one address. A load balancer or gateway in front of many BMCs needs one connection for each BMC that reads its CD image.")
	fs.BoolVar(&o.TFTPSinglePort, "tftp-single-port", o.TFTPSinglePort, "Send TFTP only from port 69, for networks whose firewalls block other ports. This is slower.")
	fs.BoolVar(&o.PrintUnified, "print-unified-image", false, "Write the unsigned unified kernel image of the agent to standard output and exit. Requires --agent-key-dir.")
}

// continuityLease returns the name of the Lease of package continuity. Managers of different hosts at
// one API server use different Leases.
func (o *Options) continuityLease() string {
	if o.Namespace == "" && o.WatchFilter == "" {
		return "ingot-continuity"
	}
	share := sha256.Sum256([]byte(o.Namespace + "\x00" + o.WatchFilter))
	return "ingot-continuity-" + hex.EncodeToString(share[:8])
}

// leaseNamespace returns the namespace of the leader's Lease.
func (o *Options) leaseNamespace() string {
	return cmp.Or(o.LeaderElectNamespace, os.Getenv("POD_NAMESPACE"))
}
