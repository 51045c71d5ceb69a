# Copyright The Ingot Authors.
# SPDX-License-Identifier: Apache-2.0

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
# The steps of a target build on each other, and each uses all cores by itself.
.NOTPARALLEL:

# Time for each fuzz target: of `make fuzz`, and of `make test-full-fuzz`.
FUZZTIME ?= 1m
SHORT_FUZZTIME ?= 2s
# Ceiling for one package's tests; a hang shows as a stack dump, not as silence.
TEST_TIMEOUT ?= 30m
# What make node-image makes a node of: a released version of Kubernetes.
KUBERNETES_VERSION ?= v1.36.3
# What make e2e-cluster upgrades a cluster from.
UPGRADE_FROM ?= v1.35.4
# Where make e2e-cluster leaves the timeline of the machines, as text, JSON and SVG.
CLUSTER_OUT ?= out/cluster
# How often make e2e-power-cuts cuts the power, by which moments, and which is the first.
CUTS ?= 20
SEED ?= 1
FIRST ?= 1
# What make release releases, for example: make release VERSION=v0.1.0
VERSION ?=
# Build images anew though nothing of theirs here has changed, for newer packages of Debian:
# make node-image FORCE=1
FORCE ?=
FORCED = $(if $(FORCE),-force)
# More flags for the programs of bench-boot and bench-image, and for the go test of bench-hooks,
# for example: make bench-boot BENCHFLAGS='-only tftp -rounds 1'
BENCHFLAGS ?=
# More flags for go test, for example: make test TESTFLAGS='-v -run TestClaim'
TESTFLAGS ?=

# A tool or program that a test misses fails it here, and only skips it in a plain go test (test/needs).
export INGOT_STRICT := 1

# All builds share one build cache with the tools, which are built so.
export GOFLAGS += -trimpath

TOOL = $$(go run ./hack/tools/build -path $(1))
GENERATORS = "$(call TOOL,controller-gen)" "$(call TOOL,crd-ref-docs)" "$(call TOOL,diagrams)"
# All packages, those of the module in api included, but test/qemu, which has its own step. Others that boot QEMU (test/nodeimage,
# test/cluster) are among them, and skip without the variables that their targets set.
MODULES = github.com/ingot-metal/ingot/...
PACKAGES = $$(go list $(MODULES) | grep -v '/test/qemu')
# The parts of make test-full, each at most 25 minutes on two idle cores. docs/book/develop/testing.md says
# which part to run for which change.
FULL_PARTS = verify host inventory controllers admission drivers boot lab lifecycle site move rollout \
  other fuzz restore gitops storm boot-storm rest qemu-agent qemu-install qemu-network
FULL = env INGOT_FULL=1
RACE = $(FULL) go test -race -timeout $(TEST_TIMEOUT) $(TESTFLAGS)
# These measure, and need the machine to themselves, without the race detector.
ALONE = $(FULL) go test -count=1 -timeout 60m -v $(TESTFLAGS)
QEMU = $(FULL) INGOT_QEMU=all go test -count=1 -timeout 60m $(TESTFLAGS) ./test/qemu/... -run
PACKAGES_host = ./controllers/host
PACKAGES_inventory = ./inventory/...
PACKAGES_controllers = $$(go list ./controllers/... ./internal/... | grep -v '/controllers/host$$')
PACKAGES_admission = ./webhooks/... ./runtimehooks/... ./test/validation ./test/hooks
PACKAGES_drivers = ./bmc/... ./lab/bmc/... ./lab/ipmi/... ./lab/sushy/... ./lab/vendorbmc/...
PACKAGES_boot = ./pxe/... ./agent/... ./agentapi/... ./test/dhcpclients ./test/cloudinit
PACKAGES_lab = $$(go list ./lab/... | grep -vE '/lab/(bmc|ipmi|sushy|vendorbmc)')
PACKAGES_lifecycle = ./test/lifecycle
PACKAGES_site = ./test/site ./test/simulated
PACKAGES_move = ./test/move
PACKAGES_rollout = ./test/rollout ./test/idle
RACED = host inventory controllers admission drivers boot lab lifecycle site move rollout
# What none of the parts above has, and no drill below.
PACKAGES_other = $$(go list $(MODULES) | grep -vxFf <(go list $(foreach part,$(RACED),$(PACKAGES_$(part))) ./test/qemu/... ./test/soak ./test/bootstorm ./test/restore ./test/gitops))
$(foreach part,$(RACED) other,$(eval FULL_$(part) = $$(RACE) -skip TestCrowdAtRest $$(PACKAGES_$(part))))
FULL_verify = $(MAKE) --no-print-directory verify vet lint
FULL_fuzz = hack/fuzz.sh $(SHORT_FUZZTIME)
FULL_restore = $(MAKE) --no-print-directory test-restore
FULL_gitops = $(ALONE) ./test/gitops
FULL_storm = $(ALONE) ./test/soak
FULL_boot-storm = $(ALONE) ./test/bootstorm
FULL_rest = $(ALONE) -run TestCrowdAtRest ./test/idle
QEMU_agent = Agent|Erase|Black|FirstBoot|Mirror|Live|Ignition|WithoutDisk
QEMU_install = WholeLine|LocalDisk|SecureBoot
FULL_qemu-agent = $(QEMU) '^Test($(QEMU_agent))'
FULL_qemu-install = $(QEMU) '^Test($(QEMU_install))'
FULL_qemu-network = $(QEMU) . -skip '^Test($(QEMU_agent)|$(QEMU_install))'

##@ Everyday

.PHONY: help
help: ## Show this list.
	@awk 'BEGIN { FS = ":.*## " } \
	  /^##@/ { printf "\n%s\n", substr($$0, 5) } \
	  /^[a-z0-9-]+:.*## / { printf "  make %-17s %s\n", $$1, $$2 }' Makefile

.PHONY: demo
demo: packages-demo tools agent-image test-image ## Show the whole line in a virtual data centre; KEEP=1 leaves it running.
	go run ./cmd/lab demo

.PHONY: test
test: packages-test tools verify unit qemu-bios ## Run what a commit must pass: checks, vet, race tests on a real API server, one BIOS boot line.

.PHONY: test-full
test-full: packages-test-full $(addprefix test-full-,$(FULL_PARTS)) ## Run all tests, hours of them, part by part; make test-full-PART for one part.

.PHONY: test-full-parts
test-full-parts: ## List the parts of test-full.
	@printf '%s\n' $(FULL_PARTS)

.PHONY: $(addprefix test-full-,$(FULL_PARTS))
$(addprefix test-full-,$(FULL_PARTS)): test-full-%: packages-test-full tools tools-etcd agent-image test-image ignition-image
	@hack/part.sh $* $(FULL_$*)

.PHONY: e2e-clusterctl
e2e-clusterctl: packages-e2e-clusterctl tools tools-e2e agent-image ## As root: install the release by clusterctl into a real cluster with pods, and use it.
	INGOT_E2E=1 go test -p 1 -count=1 -timeout 60m -v $(TESTFLAGS) ./lab/node ./test/e2e

# The report is printed also if rules fail; the log of the run only then.
.PHONY: conformance
conformance: packages-test tools ## Check every rule of the Cluster API contracts, one line each.
	@dir=$$(mktemp -d); status=0; \
	INGOT_CONFORMANCE=$$dir/report go test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./test/conformance >$$dir/log 2>&1 || status=$$?; \
	[ $$status = 0 ] || cat $$dir/log; \
	[ ! -e $$dir/report ] || cat $$dir/report; \
	rm -r $$dir; exit $$status

# As above: the lines are printed also if states fail.
.PHONY: test-restore
test-restore: packages-test tools tools-etcd ## Restore etcd under hosts in every state, count at the servers. Ends "restore: N of N states safe, 0 disks written, 0 servers switched".
	@log=$$(mktemp); status=0; \
	INGOT_RESTORE=1 go test -count=1 -timeout 60m -v $(TESTFLAGS) ./test/restore >$$log 2>&1 || status=$$?; \
	[ $$status = 0 ] || grep -v '^=== ' $$log; \
	grep '^restore: ' $$log || status=1; \
	rm $$log; exit $$status

# The parts of conformance-mutants, each of at most 25 minutes: of shipped files, of Go code that
# the API server and the runtime extension show, and of Go code that a run shows.
MUTANTS ?= release server run-1 run-2 run-3

.PHONY: conformance-mutants
conformance-mutants: packages-test tools ## Break the product, rule by rule; the rule must find it. MUTANTS=run-1 for one part. Ends "mutants: N of N found".
	@status=0; found=0; all=0; \
	for part in $(MUTANTS); do \
	  log=$$(mktemp); failed=0; \
	  INGOT_MUTANTS=$$part go test -count=1 -timeout 25m -v $(TESTFLAGS) -run '^(TestProductMutants|TestGoMutants)$$' ./test/conformance >$$log 2>&1 || failed=$$?; \
	  if [ $$failed != 0 ]; then status=$$failed; grep -v '^=== ' $$log || true; fi; \
	  set -- $$(grep '^mutants: ' $$log || echo mutants: 0 of 0); \
	  echo "$$part: $$2 of $$4"; found=$$((found + $$2)); all=$$((all + $$4)); rm $$log; \
	done; \
	echo "mutants: $$found of $$all found"; exit $$status

# As for conformance: the lines are printed also if attacks work.
.PHONY: test-tenant
test-tenant: packages-test tools ## Attack as a tenant by API, BMCs, boot network, agents, images and webhooks. Ends "tenant: N of N attacks refused".
	@log=$$(mktemp); status=0; \
	INGOT_FULL=1 go test -count=1 -timeout $(TEST_TIMEOUT) -v $(TESTFLAGS) -run 'TestLifecycle/Tenant' ./test/lifecycle >$$log 2>&1 || status=$$?; \
	[ $$status = 0 ] || grep -v '^=== ' $$log; \
	grep -o 'tenant: .*' $$log; \
	rm $$log; exit $$status

# As above: the matrix is printed also if cells fail.
.PHONY: test-bmc
test-bmc: packages-test-bmc ## Run every BMC driver against every BMC there is: driver by personality by capability.
	@dir=$$(mktemp -d); status=0; mkdir $$dir/cells; \
	INGOT_BMC_REPORT=$$dir/cells go test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) -run Matrix ./bmc/... >$$dir/log 2>&1 || status=$$?; \
	[ $$status = 0 ] || cat $$dir/log; \
	hack/bmc-matrix.sh $$dir/cells || status=$$?; \
	rm -r $$dir; exit $$status

.PHONY: test-node-image
test-node-image: packages-test-node-image node-image ## Boot the image of a node on BIOS and UEFI in QEMU; kubeadm makes the template's control plane on it.
	INGOT_NODE_VERSION="$(KUBERNETES_VERSION)" go test -count=1 -timeout 90m -v $(TESTFLAGS) ./test/nodeimage

E2E_CLUSTER = INGOT_CLUSTER_VERSION="$(KUBERNETES_VERSION)" INGOT_CLUSTER_OUT="$(abspath $(CLUSTER_OUT))" \
	go test -count=1 -timeout 120m -v $(TESTFLAGS) -run 'TestCluster$$' ./test/cluster
SUMMARY = @cat $(CLUSTER_OUT)/timeline.txt $(CLUSTER_OUT)/summary.txt

.PHONY: e2e-cluster
e2e-cluster: packages-e2e-cluster packages-e2e-clusterctl tools tools-e2e agent-image node-image ## As root: the life of a cluster by the shipped template on virtual servers, upgraded from UPGRADE_FROM to KUBERNETES_VERSION.
	go run ./hack/images $(FORCED) -kubernetes "$(UPGRADE_FROM)" node
	INGOT_CLUSTER_FROM="$(UPGRADE_FROM)" $(E2E_CLUSTER)
	$(SUMMARY)

.PHONY: e2e-cluster-short
e2e-cluster-short: packages-e2e-cluster packages-e2e-clusterctl tools tools-e2e agent-image node-image ## As root: a cluster of one control plane and one worker by the ClusterClass, made and deleted.
	$(E2E_CLUSTER)
	$(SUMMARY)

.PHONY: e2e-power-cuts
e2e-power-cuts: packages-e2e-cluster packages-e2e-clusterctl tools tools-e2e agent-image node-image ## As root: cut the power of such a cluster's worker at CUTS moments of its line, and the manager's network once.
	INGOT_CLUSTER_CUTS="$(CUTS)" INGOT_CLUSTER_SEED="$(SEED)" INGOT_CLUSTER_FIRST_CUT="$(FIRST)" INGOT_CLUSTER_VERSION="$(KUBERNETES_VERSION)" INGOT_CLUSTER_OUT="$(abspath $(CLUSTER_OUT))" \
	go test -count=1 -timeout 360m -v $(TESTFLAGS) -run TestPowerCuts ./test/cluster

.PHONY: e2e-quorum
e2e-quorum: packages-e2e-cluster packages-e2e-clusterctl tools tools-e2e agent-image node-image ## As root: such a cluster of three control planes, of which one is lost for good and replaced.
	INGOT_CLUSTER_QUORUM=1 INGOT_CLUSTER_VERSION="$(KUBERNETES_VERSION)" INGOT_CLUSTER_OUT="$(abspath $(CLUSTER_OUT))" \
	go test -count=1 -timeout 180m -v $(TESTFLAGS) -run TestControlPlaneLost ./test/cluster

.PHONY: bench-boot
bench-boot: ## As root: compare the boot server with Kea, dnsmasq, tftpd-hpa and nginx; lines "bench: NAME ratio R bar B".
	hack/packages.sh bench-boot
	go run ./test/bench/boot -peers "$$(hack/peers.sh)" $(BENCHFLAGS)
	$(if $(BENCHFLAGS),,$(MAKE) bench-qemu)

.PHONY: bench-qemu
bench-qemu: packages-test agent-image ## Compare boots from the network with boots of the same kernel without one, in QEMU; lines "bench: NAME ratio R bar 1.20".
	INGOT_BENCH_QEMU=1 go test -count=1 -timeout 60m -v -run TestBootRatio $(TESTFLAGS) ./test/qemu

.PHONY: bench-image
bench-image: ## Compare writing images with curl | zstd -d | dd and qemu-img convert; lines "bench: NAME ratio R bar 0.90".
	hack/packages.sh bench-image
	go run ./test/bench/image $(BENCHFLAGS)

.PHONY: bench-hooks
bench-hooks: packages-test tools ## Load the runtime extension: 5,000 hosts, 200 calls per second for a minute; line "bench: hooks p99 T bar 100ms".
	INGOT_BENCH_HOOKS=1 go test -count=1 -timeout 30m -v -run TestLoad $(BENCHFLAGS) ./test/hooks

.PHONY: fuzz
fuzz: ## Run every fuzz target for FUZZTIME (1m) each.
	hack/fuzz.sh $(FUZZTIME)

##@ Code

.PHONY: generate
generate: tools-gen ## Write deep copies, custom resource definitions, role and webhook manifests, and the book's reference and diagrams.
	hack/generate.sh $(GENERATORS)

.PHONY: verify
verify: tools-gen lint-api ## Fail if generated code or pages, go.mod, formatting, license lines or links are stale, or an API type breaks a convention.
	hack/verify.sh $(GENERATORS)

.PHONY: docs
docs: ## Build the documentation site into out/docs. Fails for a broken link.
	@go run ./hack/tools/build hugo >/dev/null
	go test ./test/archrules -run TestLinksLeadSomewhere
	"$(call TOOL,hugo)" --source docs/site --destination "$(abspath out/docs)" --cleanDestinationDir --noBuildLock --panicOnWarning --quiet
	@echo "docs: open out/docs/index.html"

.PHONY: lint
lint: lint-api ## Check the Go code with golangci-lint (.golangci.yml), and the API types (make lint-api).
	@lint="$$(go run ./hack/tools/build -path golangci-lint)"; "$$lint" run ./...; cd api; "$$lint" run ./...

.PHONY: lint-api
lint-api: ## Check the API types against the Kubernetes API conventions (.golangci-kal.yml).
	@go run ./hack/tools/build lint >/dev/null
	@lint="$$(go run ./hack/tools/build -path golangci-lint)"; cd api; "$$lint" run -c ../.golangci-kal.yml ./...

##@ Tools and images

.PHONY: tools
tools: ## Build etcd, Kubernetes and Cluster API programs and controller-gen into INGOT_CACHE.
	go run ./hack/tools/build

.PHONY: agent-image
agent-image: ## Build the kernel and initramfs that servers boot into.
	hack/packages.sh agent-image
	go run ./hack/images $(FORCED) agent

.PHONY: test-image
test-image: ## Build the bootable Debian image that tests and demo install.
	hack/packages.sh test-image
	go run ./hack/images $(FORCED) os

.PHONY: ignition-image
ignition-image: ## Build the bootable Debian image that Ignition sets up, for one test of test-full-qemu-agent.
	hack/packages.sh test-image
	go run ./hack/images $(FORCED) ignition

.PHONY: node-image
node-image: ## Build the bootable image of a Kubernetes node of KUBERNETES_VERSION, with containers of a control plane.
	hack/packages.sh node-image
	go run ./hack/images $(FORCED) -kubernetes "$(KUBERNETES_VERSION)" node

# The manifests come first: a version that cannot be released fails before
# anything takes long.
.PHONY: release
release: ## Write the clusterctl repository and the image of VERSION to dist/.
	hack/packages.sh release agent-image
	go run ./hack/tools/build kube >/dev/null
	go run ./hack/release/build -version "$(VERSION)" -no-images >/dev/null
	INGOT_VERSION="$(VERSION)" go run ./hack/images agent
	go run ./hack/release/build -version "$(VERSION)"

# Steps of the targets above, not for use by hand.

# Not phony: make looks for no pattern rule for what is. There is never a file of the name.
packages-%:
	hack/packages.sh $*

# What a node with pods needs besides the tools of every day.
.PHONY: tools-e2e
tools-e2e:
	go run ./hack/tools/build node dns containerd certmanager

# What saves and restores etcd.
.PHONY: tools-etcd
tools-etcd:
	go run ./hack/tools/build etcd

.PHONY: tools-gen
tools-gen:
	@go run ./hack/tools/build gen docs >/dev/null

.PHONY: vet
vet:
	go vet $(MODULES)

.PHONY: unit
unit: agent-image
	go test -race -vet=all -timeout $(TEST_TIMEOUT) $(TESTFLAGS) $(PACKAGES)

.PHONY: storm
storm: test-full-storm ## Run 500 hosts with failing BMCs against the manager; needs the machine to itself.

.PHONY: gitops
gitops: packages-test tools ## Delete, prune and replace as Argo CD, Flux and people do, with the real kube-controller-manager and Cluster API's managers; part of test-full.
	$(FULL_gitops)

.PHONY: rest
rest: test-full-rest ## Count requests and writes of 1,000 hosts at rest; needs the machine to itself.

# Firmware in software emulation is slow enough without the race detector, and
# a boot is never taken from the test cache: it depends on images and QEMU.
.PHONY: qemu-bios
qemu-bios: agent-image test-image
	INGOT_QEMU=bios go test -count=1 -timeout $(TEST_TIMEOUT) $(TESTFLAGS) ./test/qemu/...
