// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package archrules

// Module is the path of the module whose packages the rules are about.
const Module = "github.com/ingot-metal/ingot"

// A room is a directory of the module with the packages below it.
type room struct {
	dir string
	// may are the other directories that it may import.
	may []string
	// tests are those that its tests may import as well.
	tests []string
	// reason is shown with a refusal.
	reason string
}

// rooms are searched for the longest dir that holds a package; the directory
// of a package itself is always allowed. Every directory with Go code has one.
var rooms = []room{
	{dir: "agentapi", reason: "the wire types are linked into the agent: standard library only"},
	{dir: "api", may: []string{"agentapi"}, reason: "the API types know nobody, so that others can import them alone"},
	{dir: "inventory", may: []string{"api", "agentapi"}, tests: []string{"test"}, reason: "the domain is pure: values in, decision out"},
	{dir: "bmc", may: []string{"agentapi", "internal/ttlset"}, tests: []string{"lab", "test"}, reason: "a BMC driver knows one server, not the cluster"},
	{dir: "pxe", may: []string{"agentapi", "internal/ttlset"}, tests: []string{"lab", "test"}, reason: "the boot server knows hosts only through an interface of its own"},
	{dir: "agent", may: []string{"agentapi"}, tests: []string{"lab", "test"}, reason: "the agent runs on a server and knows only the wire types"},
	{dir: "internal", may: append([]string{"internal/ttlset"}, five...), tests: []string{"lab", "test", "hack/tools"}, reason: "servers, libraries and read models of the manager know no reconciler, so that each can be read and tested alone"},
	{dir: "internal/ttlset", reason: "maps that expire are shared by BMC drivers, boot server and controllers: standard library only"},
	{dir: "controllers", may: append([]string{"internal"}, five...), tests: []string{"lab", "test", "hack/tools", "webhooks"}, reason: "controllers holds reconcilers only, which cmd starts: what others use belongs to internal"},
	{dir: "webhooks", may: append([]string{"internal/index", "internal/networkuse"}, five...), tests: []string{"lab", "test", "hack/tools"}, reason: "webhooks use the pure packages, the cache's indexes, and what controllers decide in the same way, and are used by cmd only"},
	{dir: "runtimehooks", may: five, tests: []string{"lab", "test", "hack/tools"}, reason: "hooks use the five rooms and are used by cmd only"},
	{dir: "lab", may: []string{"agent", "agentapi", "api", "hack/tools"}, tests: []string{"test"}, reason: "simulators never import the client they serve, or both would share its mistakes"},
	{dir: "cmd", may: append([]string{"controllers", "internal", "webhooks", "runtimehooks"}, five...), tests: []string{"lab", "test", "hack/tools"}, reason: "what is shipped must not link the lab"},
	{dir: "cmd/agent", may: []string{"agent", "agentapi"}, tests: []string{"lab", "test"}, reason: "the agent's initramfs is loaded by every boot: it must stay small"},
	{dir: "cmd/lab", may: []string{"lab", "agent", "agentapi", "api", "hack/tools", "test", "cmd/manager/app", "internal/token", "pxe/bootserver"}, reason: "the lab's program runs Ingot's manager as a process of its own, on sockets in user space: it links the manager's wiring and nothing behind it"},
	{dir: "hack", may: []string{"agentapi", "hack/tools", "lab/network", "lab/qemu"}, reason: "developer tools must build when the rest does not"},
	{dir: "hack/docs", may: []string{"cmd/manager", "hack/tools"}, reason: "the reference of flags is read from the manager's own; all else it reads from sources"},
	{dir: "hack/images", may: []string{"hack/debian", "hack/nodeimage"}, reason: "image builders put Debian's packages and files together, and know nothing of what boots them"},
	{dir: "hack/nodeimage", may: []string{"hack/debian", "hack/tools", "lab/image"}, reason: "a node is Debian, the programs of Go modules and images of them: nothing of Ingot"},
	{dir: "hack/release", may: []string{"hack/tools"}, tests: []string{"lab", "test", "api"}, reason: "a release is put together from files; what is in them is read by its tests only"},
	{dir: "hack/tools", reason: "what builds the tools must build from the standard library alone"},
	{dir: "test", may: append([]string{"controllers", "internal", "webhooks", "runtimehooks", "lab", "hack", "cmd"}, five...), reason: "tests may import all"},
}

// five are the inner rooms, with the wire types.
var five = []string{"api", "inventory", "bmc", "pxe", "agent", "agentapi"}

// A home is where one third-party library may be used.
type home struct {
	// library is a prefix of import paths, ending at a slash or the end.
	library string
	// in are the directories that may import it; tests have it as well if they
	// are below test, and anywhere for a home of testsOnly.
	in        []string
	testsOnly bool
	// tests are directories whose tests may import it as well.
	tests  []string
	reason string
}

var (
	// outer are the rooms that speak to Kubernetes.
	outer = []string{"controllers", "internal", "webhooks", "runtimehooks", "cmd", "lab"}
	// typed are those that know its types.
	typed = append([]string{"api", "inventory"}, outer...)
	// rendered are those whose tests read manifests as their readers would.
	rendered = []string{"hack/release", "hack/nodeimage"}
	// everywhere but in the wire types and the tools' builder.
	everywhere = append([]string{"bmc", "pxe", "agent", "hack/images", "hack/release", "hack/nodeimage"}, typed...)
)

// homes are searched for the longest library that holds an import.
var homes = []home{
	{library: "github.com/stmcginnis/gofish", in: []string{"bmc/redfish"}, reason: "no Redfish library type crosses the driver's package line"},
	{library: "github.com/bougou/go-ipmi", in: []string{"bmc/ipmi", "lab/ipmi"}, reason: "no IPMI library type crosses the driver's package line; the lab's BMC is its simulator"},
	{library: "github.com/bmc-toolbox", in: []string{"bmc/vendor"}, reason: "the makers' ways are one package's; no type of the library crosses its line"},
	{library: "github.com/insomniacslk/dhcp", in: []string{"pxe/dhcp", "pxe/dhcp6", "pxe/bootserver", "agent", "lab"}, reason: "packets are parsed in one place on each side"},
	{library: "github.com/pin/tftp/v3", in: []string{"pxe/tftp", "pxe/bootserver", "lab"}, reason: "the TFTP server, and the simulated firmware that asks it"},
	{library: "github.com/pires/go-proxyproto", in: []string{"pxe/passthrough"}, reason: "where an agent came from is written and read in one place"},
	{library: "gvisor.dev/gvisor", in: []string{"lab"}, reason: "only the lab has a network in user space; servers take sockets from outside"},
	{library: "github.com/mdlayher/packet", in: []string{"pxe/dhcp", "pxe/bootserver", "agent", "lab"}, reason: "raw frames are DHCP's need only"},
	{library: "github.com/vishvananda/netlink", in: []string{"agent", "lab", "pxe/links"}, tests: []string{"test/dhcpclients"}, reason: "only the agent configures a machine's network; the boot server reads the interfaces of its own"},
	{library: "github.com/u-root/u-root", in: []string{"agent", "hack/images"}, reason: "what an init needs, and the archive it comes in"},
	{library: "github.com/u-root/uio", in: []string{"agent", "hack/images"}, reason: "what an init needs, and the archive it comes in"},
	{library: "github.com/diskfs/go-diskfs", in: []string{"agent", "hack/debian", "lab"}, reason: "only these touch disks"},
	{library: "github.com/klauspost/compress", in: []string{"agent", "hack/debian", "hack/images", "lab"}, reason: "images are compressed and decompressed there"},
	{library: "github.com/ulikunitz/xz", in: []string{"agent", "hack/images"}, reason: "images are decompressed there"},
	{library: "github.com/prometheus/client_golang", in: []string{"controllers", "internal", "webhooks", "runtimehooks", "cmd", "bmc", "pxe"}, reason: "metrics are the servers' business"},
	{library: "github.com/spf13", in: []string{"cmd", "hack"}, reason: "flags are wiring"},
	{library: "github.com/google/uuid", in: everywhere, reason: "the wire types use the standard library only"},
	{library: "github.com/go-logr/logr", in: append([]string{"bmc/vendor"}, outer...), reason: "the inner rooms log by log/slog; bmclib is given one that discards"},
	{library: "golang.org/x", in: everywhere, reason: "the wire types use the standard library only"},
	{library: "github.com/google/go-cmp", in: []string{"bmc/bmctest"}, testsOnly: true, reason: "for tests"},
	{library: "github.com/evanphx/json-patch/v5", tests: []string{"hack/nodeimage"}, reason: "its tests do with patches what kubeadm does"},
	{library: "github.com/yuin/gopher-lua", testsOnly: true, reason: "runs Argo CD's health checks as Argo CD does"},
	{library: "github.com/onsi/gomega", testsOnly: true, reason: "for tests"},
	{library: "github.com/onsi/ginkgo/v2", testsOnly: true, reason: "what the validators of Cluster API's test framework run in"},
	{library: "sigs.k8s.io/randfill", testsOnly: true, reason: "for tests"},
	{library: "github.com/google/go-containerregistry", in: []string{"hack/release", "lab/image", "pxe/oci"}, reason: "container images are made there, without an engine; and images that lie in registries are fetched"},
	{library: "sigs.k8s.io/yaml", in: append([]string{"hack/release"}, outer...), tests: rendered, reason: "manifests are read and written at the edge"},
	{library: "k8s.io/api", in: typed, tests: rendered, reason: "BMC drivers, boot server and agent do not know Kubernetes"},
	{library: "k8s.io/apimachinery", in: typed, tests: rendered, reason: "BMC drivers, boot server and agent do not know Kubernetes"},
	{library: "k8s.io/apiextensions-apiserver", in: outer, reason: "definitions are installed, not reasoned about"},
	{library: "k8s.io/utils", in: outer, reason: "the inner rooms do not need it"},
	{library: "k8s.io/component-base", in: []string{"cmd"}, reason: "logging options are wiring"},
	{library: "k8s.io/klog/v2", in: []string{"cmd"}, reason: "logging options are wiring"},
	{library: "k8s.io/client-go", in: outer, reason: "the inner rooms take what they need of the cluster through an interface"},
	{library: "sigs.k8s.io/controller-runtime", in: outer, tests: rendered, reason: "the inner rooms take what they need of the cluster through an interface"},
	{library: "sigs.k8s.io/cluster-api/api", in: typed, tests: rendered, reason: "BMC drivers, boot server and agent do not know Kubernetes"},
	{library: "sigs.k8s.io/cluster-api/test", in: []string{"lab/workload"}, reason: "the API servers in memory, behind the lab's own face"},
	{library: "sigs.k8s.io/cluster-api", in: outer, tests: rendered, reason: "its helpers bring a Kubernetes client"},
}

// unmaintained are modules without an owner, which the programs must not link through any
// import.
var unmaintained = []struct{ module, reason string }{
	{"github.com/satori/go.uuid", "no release since 2018, and its random UUIDs of that time can repeat (CVE-2021-3538); use github.com/google/uuid"},
	{"github.com/VictorLowther/soap", "no change since 2015; bmc/vendor has its own WS-Management client"},
	{"github.com/VictorLowther/simplexml", "no change since 2018; use encoding/xml"},
	{"github.com/jacobweinstock/iamt", "no change since 2023, and it links the three modules above; bmc/vendor drives Intel AMT itself"},
	{"github.com/dgrijalva/jwt-go", "archived in 2021 with CVE-2020-26160"},
	{"github.com/mitchellh/mapstructure", "archived in 2024; use github.com/go-viper/mapstructure/v2"},
}

// programs are what must not link them.
var programs = []string{"cmd"}

// clients are what clean rooms must not link, at whatever remove.
var clients = []string{"k8s.io/client-go", "sigs.k8s.io/controller-runtime"}

// cleanRooms link no Kubernetes client.
var cleanRooms = []string{"agentapi", "api", "inventory", "bmc", "pxe", "agent", "cmd/agent"}
