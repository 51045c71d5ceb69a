// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
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
	// RoleHooks answers Cluster API's hooks.
	RoleHooks = "runtime-extension"
)

// Options of the manager, one field a flag.
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
	// BootClientConnections is how many HTTP connections one address may have.
	BootClientConnections int

	PowerPoll time.Duration
	Policy    lifecycle.Policy
	MoveRest  time.Duration
	// BMCSources are entries as bmc.ParseSources reads them.
	BMCSources []string
	// BMCEvents has BMCs watched that tell by themselves.
	BMCEvents bool
	// BMC and Timing have no flags: what is in them suits every
	// data centre. Shorten changes them too.
	BMC       bmc.PoolOptions
	Watches   bmc.WatchOptions
	BootWaits bootlog.Waits
	Timing    timing.Timing

	Hooks HookOptions

	Manager flags.ManagerOptions
	Logs    *logsv1.LoggingConfiguration
}

// verbosity is the default of Cluster API's managers.
const verbosity = 2

// DefaultOptions holds the defaults of Cluster API's managers, and Ingot's own.
func DefaultOptions() *Options {
	logs := logsv1.NewLoggingConfiguration()
	logs.Verbosity = verbosity
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
		BootWaits: bootlog.Waits{Quiet: bootlog.DefaultQuiet, Interval: bootlog.DefaultInterval},
		Timing:    timing.Default(),
		Hooks:     defaultHookOptions(),
		Logs:      logs,
	}
}

// AddFlags registers a flag for every option.
func (o *Options) AddFlags(fs *pflag.FlagSet) {
	fs.StringSliceVar(&o.Roles, "roles", o.Roles, "What this process does: controllers, boot, runtime-extension.")
	fs.StringVar(&o.Kubeconfig, "kubeconfig", o.Kubeconfig, "Path of a kubeconfig; empty: the Pod's service account.")
	fs.StringVar(&o.ManagerUsername, "manager-username", o.ManagerUsername, "User name of this manager as the API server sees it: the only identity that may change the ledger of an IngotHost.")
	fs.BoolVar(&o.LeaderElect, "leader-elect", o.LeaderElect, "Elect a leader: only one replica runs controllers.")
	fs.StringVar(&o.LeaderElectNamespace, "leader-elect-namespace", o.LeaderElectNamespace, "Namespace of the leader's Lease; empty: the Pod's own.")
	fs.DurationVar(&o.LeaderElectLease, "leader-elect-lease-duration", o.LeaderElectLease, "How long others wait before they take over the lead.")
	fs.DurationVar(&o.LeaderElectRenew, "leader-elect-renew-deadline", o.LeaderElectRenew, "How long the leader tries to renew before it gives up.")
	fs.DurationVar(&o.LeaderElectRetry, "leader-elect-retry-period", o.LeaderElectRetry, "How long to wait between tries.")
	fs.StringVar(&o.Namespace, "namespace", o.Namespace, "Namespace to watch; empty: all.")
	fs.StringVar(&o.WatchFilter, "watch-filter", o.WatchFilter, "Reconcile only objects whose label cluster.x-k8s.io/watch-filter has this value; empty: all.")
	fs.DurationVar(&o.SyncPeriod, "sync-period", o.SyncPeriod, "How often everything is reconciled again.")
	fs.Float32Var(&o.KubeAPIQPS, "kube-api-qps", o.KubeAPIQPS, "Requests a second to the API server.")
	fs.IntVar(&o.KubeAPIBurst, "kube-api-burst", o.KubeAPIBurst, "Requests at once to the API server.")
	fs.IntVar(&o.WebhookPort, "webhook-port", o.WebhookPort, "Port of the webhooks; 0: no webhooks.")
	fs.StringVar(&o.WebhookHost, "webhook-host", o.WebhookHost, "Address that the webhooks listen on; empty: all.")
	fs.StringVar(&o.WebhookCertDir, "webhook-cert-dir", o.WebhookCertDir, "Directory with the certificate and key of the webhooks.")
	fs.StringVar(&o.WebhookCertName, "webhook-cert-name", o.WebhookCertName, "File of the webhooks' certificate.")
	fs.StringVar(&o.WebhookKeyName, "webhook-key-name", o.WebhookKeyName, "File of the webhooks' private key.")
	fs.StringVar(&o.HealthAddress, "health-addr", o.HealthAddress, "Address of /healthz and /readyz.")
	fs.StringVar(&o.ProfilerAddress, "profiler-address", o.ProfilerAddress, "Address of an unprotected pprof endpoint, such as localhost:6060; empty: none. The diagnostics endpoint has a protected one.")
	fs.BoolVar(&o.ContentionProfiling, "contention-profiling", o.ContentionProfiling, "Measure what goroutines wait for, for pprof's block profile.")
	fs.StringSliceVar(&o.SkipCRDMigrationPhases, "skip-crd-migration-phases", o.SkipCRDMigrationPhases, "Steps of the migration of stored objects to leave out: StorageVersionMigration, CleanupManagedFields.")
	fs.IntVar(&o.HostConcurrency, "ingothost-concurrency", o.HostConcurrency, "IngotHosts reconciled at once.")
	fs.IntVar(&o.MachineConcurrency, "ingotmachine-concurrency", o.MachineConcurrency, "IngotMachines reconciled at once.")
	fs.IntVar(&o.ClusterConcurrency, "ingotcluster-concurrency", o.ClusterConcurrency, "IngotClusters reconciled at once.")
	fs.IntVar(&o.MachineTemplateConcurrency, "ingotmachinetemplate-concurrency", o.MachineTemplateConcurrency, "IngotMachineTemplates reconciled at once.")
	fs.IntVar(&o.RemediationConcurrency, "ingotremediation-concurrency", o.RemediationConcurrency, "IngotRemediations reconciled at once.")
	fs.IntVar(&o.Workloads.Concurrency, "clustercache-concurrency", o.Workloads.Concurrency, "Workload clusters that are connected to at once.")
	fs.Float32Var(&o.Workloads.QPS, "clustercache-client-qps", o.Workloads.QPS, "Requests a second to the API server of one workload cluster.")
	fs.IntVar(&o.Workloads.Burst, "clustercache-client-burst", o.Workloads.Burst, "Requests at once to the API server of one workload cluster.")
	o.addBootFlags(fs)
	o.addPolicyFlags(fs)
	o.Hooks.addFlags(fs)
	flags.AddManagerOptions(fs, &o.Manager)
	logsv1.AddFlags(o.Logs, fs)
}

func (o *Options) addBootFlags(fs *pflag.FlagSet) {
	fs.StringVar(&o.AgentKeyDir, "agent-key-dir", o.AgentKeyDir, "Directory with the token key, the pins and, for the role controllers, the TLS key of the agent API.")
	fs.StringVar(&o.AgentKeySecret, "agent-key-secret", o.AgentKeySecret, "<namespace>/<name> of the Secret with these, instead of a directory; the role controllers makes it where it is missing.")
	fs.StringVar(&o.BootKeySecret, "boot-key-secret", o.BootKeySecret, "<namespace>/<name> of the Secret into which the role controllers writes the token key and the pins for boot servers in another namespace; empty: none.")
	fs.StringVar(&o.AgentListen, "agent-listen", o.AgentListen, "Address that agents connect to: the agent API (TLS), or for the role boot alone what passes them on to it.")
	fs.StringVar(&o.AgentAddress, "agent-address", o.AgentAddress, "address:port by which servers reach the agent API; empty: --boot-address with the port of --agent-listen.")
	fs.StringVar(&o.AgentUpstream, "agent-upstream", o.AgentUpstream, "host:port of the manager's agent API, to which the role boot alone passes agents on.")
	fs.BoolVar(&o.AgentProxyProtocol, "agent-proxy-protocol", o.AgentProxyProtocol, "Take agents from boot servers only, which say by the PROXY protocol where they came from.")
	fs.StringVar(&o.BootAddress, "boot-address", o.BootAddress, "IPv4 address by which servers reach this boot server.")
	fs.StringVar(&o.BootIPv6, "boot-ipv6-address", o.BootIPv6, "IPv6 address by which servers reach this boot server, for networks with spec.ipv6; auto: that of the interface with --boot-address; empty: DHCPv6, TFTP and HTTP over IPv6 and router advertisements are not served.")
	fs.StringVar(&o.BootURL, "boot-url", o.BootURL, "http://host:port by which BMCs and firmware reach a boot server, for hosts that boot by HTTP or VirtualMedia; empty: this process's own, if it is one, else there are no such boots.")
	fs.StringVar(&o.BootInterface, "boot-interface", o.BootInterface, "Network interfaces that DHCP serves, separated by commas; empty: all. One alone is bound to, so that another DHCP server of the machine can be bound to another.")
	fs.Uint16Var(&o.BootHTTPPort, "boot-http-port", o.BootHTTPPort, "Port of the boot server's HTTP.")
	fs.StringVar(&o.LoaderDir, "loader-dir", o.LoaderDir, "Directory with the iPXE loaders.")
	fs.StringVar(&o.AgentImageDir, "agent-image-dir", o.AgentImageDir, "Directory with the agent's vmlinuz and initramfs.cpio.zst.")
	fs.StringSliceVar(&o.AgentArguments, "agent-arguments", o.AgentArguments, "Further kernel arguments of the agent, such as console=ttyS0.")
	fs.StringVar(&o.ImageCacheDir, "image-cache-dir", o.ImageCacheDir, "Directory of the OS image cache.")
	fs.Int64Var(&o.ImageCacheGiB, "image-cache-gib", o.ImageCacheGiB, "What the OS image cache may take on disk, in GiB.")
	fs.IntVar(&o.BootClientConnections, "boot-client-connections", o.BootClientConnections, "HTTP connections at once from one address. A load balancer or gateway that hides those of many BMCs needs one for each that fetches its CD image.")
	fs.BoolVar(&o.TFTPSinglePort, "tftp-single-port", o.TFTPSinglePort, "Send TFTP from port 69 alone, for networks whose firewalls let no other port through; slower.")
	o.Images.addFlags(fs)
}

func (o *Options) addPolicyFlags(fs *pflag.FlagSet) {
	fs.DurationVar(&o.PowerPoll, "power-poll", o.PowerPoll, "How often a BMC is asked for power state and health; that of a provisioned host which is on and well at every third turn.")
	fs.StringSliceVar(&o.BMCSources, "bmc-sources", o.BMCSources, "Networks and IP addresses at which BMCs may be spoken to, such as 10.20.0.0/16; with ! before it an entry excludes its addresses. Empty: all. Loopback, link-local, unspecified and multicast addresses, the networks of Services and the addresses of the API server are excluded, except for entries inside of these.")
	fs.BoolVar(&o.BMCEvents, "bmc-events", o.BMCEvents, "Keep a stream of events open with each BMC that offers one (Redfish server-sent events), and ask it at every tenth turn of --power-poll only.")
	fs.DurationVar(&o.Policy.SoftPowerOff, "soft-power-off", o.Policy.SoftPowerOff, "How long an operating system may take to shut down before its power is cut.")
	fs.DurationVar(&o.Policy.AgentDeadline, "agent-deadline", o.Policy.AgentDeadline, "How long an agent may stay silent.")
	fs.DurationVar(&o.Policy.ResetInterval, "reset-interval", o.Policy.ResetInterval, "The least time between two switches of one host.")
	fs.DurationVar(&o.MoveRest, "move-rest", o.MoveRest, "How long a host that arrived by clusterctl move rests before work that was cut off goes on; 0: not at all.")
	fs.Int32Var(&o.Policy.MaxAttempts, "max-attempts", o.Policy.MaxAttempts, "After how many failures in a row a host is quarantined.")
}

// continuityLease is the name of the Lease of package continuity. Managers that look after
// different hosts of one API server have one each.
func (o *Options) continuityLease() string {
	if o.Namespace == "" && o.WatchFilter == "" {
		return "ingot-continuity"
	}
	share := sha256.Sum256([]byte(o.Namespace + "\x00" + o.WatchFilter))
	return "ingot-continuity-" + hex.EncodeToString(share[:8])
}

// leaseNamespace is where the leader's Lease lies.
func (o *Options) leaseNamespace() string {
	if o.LeaderElectNamespace != "" {
		return o.LeaderElectNamespace
	}
	return os.Getenv("POD_NAMESPACE")
}
