// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

// withoutMutant are rules of the product whose break is no edit of a shipped file, with the
// reason.
var withoutMutant = map[string]string{
	"K05": "the provider's name is a constant of hack/release",
	"K06": "the provider's name is a constant of hack/release",
	"K07": "clusterctl's own list is not Ingot's",
	"K08": "clusterctl's own list is not Ingot's",
	"K13": "hack/release names the directories",
	"M04": "the API group is a constant of the Go types",
	"C27": "the API group is a constant of the Go types",
	"K48": "clusterctl puts the label on every definition",
	"K16": "hack/release names the files",
	"K22": "hack/release refuses an image that it does not bring",
	"R29": "hack/release refuses an image that it does not bring",
	"K29": "hack/release writes all files to one directory",
	"K33": "clusterctl refuses a template with two namespaces: K03",
	"K44": "clusterctl refuses a template whose class is missing: K03",
	"C02": "a kind without a definition is not served: C01",
}

// refusedByClusterctl are rules whose break clusterctl itself finds.
var refusedByClusterctl = []string{"K01", "K14", "K17", "M09", "K24", "K25", "K26"}

// mutants of the definitions, of the first provider, of the templates and of the extension.
var mutants = concatMutants(definitionMutants, componentMutants, templateMutants, extensionMutants, bootMutants)

func concatMutants(lists ...[]mutant) []mutant {
	var all []mutant
	for _, list := range lists {
		all = append(all, list...)
	}
	return all
}

var definitionMutants = []mutant{
	{"M01", bases + "ingotmachines.yaml", "    served: true\n", "    served: false\n"},
	{"M02", bases + "ingotmachines.yaml", "scope: Namespaced", "scope: Cluster"},
	{"M03", bases + "ingotmachinetemplates.yaml", "          metadata:\n            type: object\n", "          metadata:\n            type: string\n"},
	{"M07", bases + "ingotmachinetemplates.yaml", "    cluster.x-k8s.io/v1beta1: v1beta1\n", ""},
	{"M08", bases + "ingotmachines.yaml", "cluster.x-k8s.io/v1beta2: v1beta2", "cluster.x-k8s.io/v1beta2: v1beta2_v1beta3"},
	{"M09", "metadata.yaml", "contract: v1beta2", "contract: v1beta1"},
	{"M10", bases + "ingotimages.yaml", "kind: IngotImage\n", "kind: IngotDiskImage\n"},
	{"M11", bases + "ingotmachines.yaml", "kind: IngotMachine\n", "kind: IngotServer\n"},
	{"M12", bases + "ingotmachines.yaml", "    shortNames:\n    - im\n", ""},
	{"M13", bases + "ingotmachines.yaml", "\n          status:\n", "\n          state:\n"},
	{"M14", bases + "ingotmachines.yaml", "listKind: IngotMachineList", "listKind: IngotMachines"},
	{"M15", bases + "ingotmachines.yaml", "              providerID:\n", "              serverID:\n"},
	{"M18", bases + "ingotmachines.yaml", "              failureDomain:\n", "              rack:\n"},
	{"M19", bases + "ingotmachines.yaml", "              addresses:\n", "              ips:\n"},
	{"M20", bases + "ingotmachines.yaml", "                      - InternalIP\n", "                      - PrivateIP\n"},
	{"M21", bases + "ingotmachines.yaml", "provisioned:\n", "installed:\n"},
	{"M24", bases + "ingotmachines.yaml", "              conditions:\n", "              facts:\n"},
	{"M25", bases + "ingotmachines.yaml", "severity:\n", "weight:\n"},
	{"M28", bases + "ingotmachines.yaml", "failureMessage:\n", "failureText:\n"},
	{"M31", bases + "ingotmachinetemplates.yaml", "kind: IngotMachineTemplate\n", "kind: IngotTemplate\n"},
	{"M32", bases + "ingotmachinetemplates.yaml", "                      labels:\n", "                      tags:\n"},
	{"M33", bases + "ingotmachinetemplates.yaml", "listKind: IngotMachineTemplateList", "listKind: IngotMachineTemplates"},
	{"M34", bases + "ingotmachinetemplates.yaml", "    - cluster-api\n", "    - ingot\n"},
	{"M65", bases + "ingotmachinetemplates.yaml", "              capacity:\n", "              size:\n"},
	{"C01", bases + "ingotclusters.yaml", "    served: true\n", "    served: false\n"},
	{"C03", bases + "ingotclusters.yaml", "kind: IngotCluster\n", "kind: IngotSite\n"},
	{"C04", bases + "ingotclusters.yaml", "scope: Namespaced", "scope: Cluster"},
	{"C05", bases + "ingotclusters.yaml", "          metadata:\n            type: object\n", "          metadata:\n            type: string\n"},
	{"C05b", bases + "ingotclustertemplates.yaml", "    cluster.x-k8s.io/v1beta2: v1beta2\n", ""},
	{"C06", bases + "ingotclusters.yaml", "maximum: 65535", "maximum: 99999"},
	{"C07", bases + "ingotclusters.yaml", "              ready:\n", "              done:\n"},
	{"C08", bases + "ingotclusters.yaml", "failureReason:\n", "failureCause:\n"},
	{"C09", bases + "ingotclusters.yaml", "x-kubernetes-list-type: map", "x-kubernetes-list-type: atomic"},
	{"C10", bases + "ingotclustertemplates.yaml", "                      labels:\n", "                      tags:\n"},
	{"C11", bases + "ingotclustertemplates.yaml", "kind: IngotClusterTemplate\n", "kind: IngotSiteTemplate\n"},
	{"C12", bases + "ingotclusters.yaml", "listKind: IngotClusterList", "listKind: IngotClusters"},
	{"K49", bases + "ingothosts.yaml", "  labels:\n    clusterctl.cluster.x-k8s.io/move-hierarchy: \"\"\n", ""},
	{"K49", bases + "ingotreservations.yaml", "    clusterctl.cluster.x-k8s.io/move-hierarchy: \"\"\n", "    example.com/label: \"\"\n"},
	{"K49", bases + "ingotremediationtemplates.yaml", "    clusterctl.cluster.x-k8s.io/move: \"\"\n", "    example.com/label: \"\"\n"},
	{"K50", bases + "ingotimages.yaml", "scope: Cluster", "scope: Namespaced"},
	{"K50", bases + "ingotnetworks.yaml", "scope: Cluster", "scope: Namespaced"},
}

var componentMutants = []mutant{
	{"C25", "config/rbac/role.yaml", "  - ingotclusters\n", "  - ingotclusterz\n"},
	{"C26", "config/rbac/role.yaml", "  - clusters\n  - machines\n  verbs:\n  - get\n", "  - clusters\n  - machines\n  verbs:\n  - get\n  - update\n"},
	{"M63", "config/rbac/role.yaml", "  - clusters\n  - machines\n", "  - clusters\n  - machines\n  - machinesets\n"},
	{"K01", "config/manager/manager.yaml", "${INGOT_DIAGNOSTICS_ADDRESS:=:8443}", "${INGOT_DIAGNOSTICS_ADDRESS}"},
	{"K09", "LICENSE", "Apache License", "Proprietary License"},
	{"K14", "metadata.yaml", "contract: v1beta2", "contract: v1beta3"},
	{"K15", "config/rbac/role_binding.yaml", "name: controller-manager", "name: manager"},
	{"K20", "config/manager/manager.yaml", "- name: manager\n", "- name: ingot\n"},
	{"K21", "config/manager/manager.yaml", "- --namespace=\n", "- --namespace=production\n"},
	{"K23", "config/manager/manager.yaml", "INGOT_DIAGNOSTICS_ADDRESS", "CAPI_DIAGNOSTICS_ADDRESS"},
	{"K24", "config/manager/manager.yaml", "${INGOT_DIAGNOSTICS_ADDRESS:=:8443}", "${ INGOT_DIAGNOSTICS_ADDRESS:=:8443}"},
	{"K25", "config/manager/manager.yaml", "        - --leader-elect\n", "        # ${INGOT$NAME}\n        - --x=${INGOT$NAME}\n"},
	{"K26", "config/manager/manager.yaml", "${INGOT_INSECURE_DIAGNOSTICS:=false}", "${INGOT_INSECURE_DIAGNOSTICS:?false}"},
	{"K27", "docs/book/reference/variables.md", "`INGOT_BMC_SOURCES`", "`INGOT_SOURCES`"},
	{"K28", "config/default/kustomization.yaml", "cluster.x-k8s.io/provider: infrastructure-ingot", "cluster.x-k8s.io/provider: ingot"},
	{"K46", "config/manager/manager.yaml", "$(POD_NAMESPACE)/ingot-agent-keys", "ingot-system/ingot-agent-keys"},
	{"K19", "config/manager/manager.yaml", "kind: Deployment", "kind: StatefulSet"},
	{"K47", "config/certmanager/certificate.yaml", "    name: selfsigned-issuer\n  secretName", "    name: signer\n  secretName"},
}

var templateMutants = []mutant{
	{"K02", "templates/clusterclass-ingot.yaml", "kind: ClusterClass\n", "kind: [ClusterClass\n"},
	{"K03", "templates/cluster-template.yaml", "kind: Cluster\n", "kind: Clusters\n"},
	{"K04", "templates/clusterclass-ingot*.yaml", "kind: ClusterClass\n", "kind: ClusterClasses\n"},
	{"K31", "docs/book/reference/variables.md", "`cluster-template-external-endpoint.yaml`", "the other"},
	{"K32", "templates/cluster-template.yaml", "kind: Cluster\n", "kind: Cluster\nmetadata: {}\n---\napiVersion: v1\nkind: Namespace\nmetadata: {name: made}\n---\napiVersion: v1\nkind: ConfigMap\n"},
	{"K34", "docs/book/reference/variables.md", "INGOT_IMAGE_CHECKSUM", "CHECKSUM"},
	{"K35", "templates/cluster-template.yaml", "${WORKER_MACHINE_COUNT}", "3"},
	{"K36", "templates/cluster-template-clusterclass.yaml", "classRef:\n      name: ingot\n", "classRef:\n      name: another\n"},
	{"K38", "docs/book/reference/variables.md", "`ingot`", "Ingot's"},
	{"K40", "templates/clusterclass-ingot.yaml", "    templateRef:\n      apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n", "    templateRef:\n      namespace: ingot\n      apiVersion: infrastructure.cluster.x-k8s.io/v1beta2\n"},
	{"K41", "templates/clusterclass-ingot.yaml", "kind: ClusterClass\nmetadata:\n", "kind: ClusterClass\nmetadata:\n  namespace: ingot\n"},
	{"K30", "templates/cluster-template_flat.yaml", "", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: Cluster\nmetadata:\n  name: c\n"},
	{"K37", "templates/clusterclass-other.yaml", "", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\nmetadata:\n  name: another\n"},
	{"K39", "templates/clusterclass-ingot.yaml", "apiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\n", "apiVersion: v1\nkind: Namespace\nmetadata: {name: made}\n---\napiVersion: cluster.x-k8s.io/v1beta2\nkind: ClusterClass\n"},
	{"K42", "templates/clusterclass-ingot-runtime.yaml", "name: ingot-runtime-control-plane", "name: ingot-control-plane"},
	{"K43", "templates/clusterclass-ingot.yaml", "kind: ClusterClass\n", "kind: ClusterClass\n# ${CLUSTER_NAME}\n"},
}

var extensionMutants = []mutant{
	{"K15", extension + "role_binding.yaml", "kind: ServiceAccount\n  name: ingot-runtime-extension", "kind: ServiceAccount\n  name: default"},
	{"K17", extension + "namespace.yaml", "apiVersion: v1\nkind: Namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: second}\n---\napiVersion: v1\nkind: Namespace"},
	{"K18", extension + "service.yaml", "namespace: ingot-runtime-system", "namespace: ingot-system"},
	{"K19", extension + "deployment.yaml", "kind: Deployment\n", "kind: StatefulSet\n"},
	{"K20", extension + "deployment.yaml", "- name: manager\n", "- name: extension\n"},
	{"K21", extension + "deployment.yaml", "- --namespace=\n", "- --namespace=production\n"},
	{"K23", extension + "deployment.yaml", "INGOT_RESERVATION_EXPIRY", "RESERVATION_EXPIRY"},
	{"K24", extension + "deployment.yaml", "${INGOT_RESERVATION_EXPIRY:=24h}", "${ INGOT_RESERVATION_EXPIRY:=24h}"},
	{"K26", extension + "deployment.yaml", "${INGOT_RESERVATION_EXPIRY:=24h}", "${INGOT_RESERVATION_EXPIRY:?24h}"},
	{"K27", "docs/book/reference/variables.md", "`INGOT_RESERVATION_EXPIRY`", "`INGOT_EXPIRY`"},
	{"K28", extension + "kustomization.yaml", "cluster.x-k8s.io/provider: runtime-extension-ingot", "cluster.x-k8s.io/provider: infrastructure-ingot"},
	{"K46", extension + "extension_config.yaml", "namespace: ${INGOT_RUNTIME_NAMESPACE:=ingot-runtime-system}", "namespace: ingot-runtime-system"},
	{"R23", extension + "service.yaml", "control-plane: ingot-runtime-extension", "control-plane: controller-manager"},
	{"R24", extension + "deployment.yaml", "--roles=runtime-extension", "--roles=controllers,runtime-extension"},
	{"R25", extension + "certificate.yaml", "kind: Issuer\nmetadata", "kind: ClusterIssuer\nmetadata"},
	{"R26", extension + "deployment.yaml", "replicas: 2", "replicas: 1"},
	{"R27", extension + "role.yaml", "resources: [ingotreservations]", "resources: [ingotreservations, ingothosts]"},
	{"R28", extension + "deployment.yaml", "allowPrivilegeEscalation: false", "allowPrivilegeEscalation: true"},
	{"R30", extension + "role.yaml", "resourceNames: [ingot, ingot-in-place]\n  verbs: [get]", "resourceNames: [ingot, ingot-in-place]\n  verbs: [get, patch]"},
	{"R31", extension + "certificate.yaml", "ingot-runtime-extension.ingot-runtime-system.svc\n", "extension.ingot-runtime-system.svc\n"},
	{"R31", extension + "extension_config.yaml", "name: ingot-runtime-extension\n", "name: ingot-extension\n"},
	{"R31", extension + "extension_config.yaml", "ingot-runtime-extension-cert", "ingot-cert"},
	{"R35", extension + "network_policy.yaml", "  - from:\n    - namespaceSelector:\n        matchExpressions:\n        - key: cluster.x-k8s.io/provider\n          operator: In\n          values: [cluster-api, control-plane-kubeadm]\n    ports:", "  - ports:"},
	{"R35", extension + "namespace.yaml", "pod-security.kubernetes.io/enforce: restricted", "pod-security.kubernetes.io/enforce: privileged"},
}

const boot = "config/boot/"

var bootMutants = []mutant{
	{"K15", boot + "role_binding.yaml", "kind: ServiceAccount\n  name: ingot-boot\n", "kind: ServiceAccount\n  name: default\n"},
	{"K17", boot + "namespace.yaml", "apiVersion: v1\nkind: Namespace", "apiVersion: v1\nkind: Namespace\nmetadata: {name: second}\n---\napiVersion: v1\nkind: Namespace"},
	{"K18", boot + "keys_role.yaml", "namespace: ingot-boot-system", "namespace: ingot-system"},
	{"K19", boot + "boot.yaml", "kind: Deployment", "kind: DaemonSet"},
	{"K20", boot + "boot.yaml", "- name: manager\n", "- name: boot\n"},
	{"K21", boot + "boot.yaml", "- --namespace=\n", "- --namespace=production\n"},
	{"K23", boot + "boot.yaml", "INGOT_BOOT_ADDRESS", "BOOT_ADDRESS"},
	{"K24", boot + "boot.yaml", "${INGOT_BOOT_ADDRESS:=$(HOST_IP)}", "${ INGOT_BOOT_ADDRESS:=$(HOST_IP)}"},
	{"K26", boot + "boot.yaml", "${INGOT_BOOT_ADDRESS:=$(HOST_IP)}", "${INGOT_BOOT_ADDRESS:?$(HOST_IP)}"},
	{"K27", installBook, "`INGOT_BOOT_INTERFACE`", "`INGOT_INTERFACE`"},
	{"K28", boot + "kustomization.yaml", "cluster.x-k8s.io/provider: addon-ingot", "cluster.x-k8s.io/provider: infrastructure-ingot"},
	{"K46", boot + "boot.yaml", "ingot-agent.${INGOT_NAMESPACE:=ingot-system}.svc:8843", "ingot-agent.ingot-boot-system.svc:8843"},
	{"K47", boot + "keys_role_binding.yaml", "name: ingot-boot-keys-role\n", "name: ingot-keys-role\n"},
	{"R30", boot + "role.yaml", "rules:\n", "rules:\n- apiGroups: [runtime.cluster.x-k8s.io]\n  resources: [extensionconfigs]\n  verbs: [update]\n"},
	{"R35", boot + "namespace.yaml", "pod-security.kubernetes.io/enforce: privileged", "pod-security.kubernetes.io/enforce: baseline"},
}
