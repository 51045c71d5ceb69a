// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

// mutantGroups are the mutants in Go. Those of a group break different things, so that each
// is found by its own rule.
var mutantGroups = []mutantGroup{
	{name: "server-1", mutants: serverMutants1},
	{name: "server-2", mutants: serverMutants2},
	{name: "server-3", mutants: serverMutants3},
	{name: "run-1", live: true, mutants: runMutants1},
	{name: "run-2", live: true, mutants: runMutants2},
	{name: "run-3", live: true, mutants: runMutants3},
}

const (
	guardFile     = "runtimehooks/guard.go"
	lifecycleFile = "runtimehooks/lifecycle/handlers.go"
	machineHook   = "webhooks/machine.go"
	machineFile   = "controllers/machine/machine_controller.go"
	claimFile     = "controllers/machine/claim.go"
	selectFile    = "controllers/machine/selecthost.go"
	waitFile      = "controllers/machine/prerequisites.go"
	followFile    = "controllers/machine/follow.go"
	addressesFile = "controllers/machine/machineaddresses.go"
	statusFile    = "controllers/machine/status.go"
	clusterFile   = "controllers/cluster/cluster_controller.go"
	capacityFile  = "controllers/template/template_controller.go"
)

// one mutant of one edit.
func mutates(rule, file, old, new string, also ...string) goMutant {
	return goMutant{rule: rule, also: also, edits: []sourceEdit{{file, old, new}}}
}

var serverMutants1 = []goMutant{
	mutates("M35", machineHook, "topology.IsDryRunRequest(req, template) {", `topology.IsDryRunRequest(req, template) && req.Kind.Kind == "IngotClusterTemplate" {`),
	mutates("M64", machineHook, "	is.Cleaning = was.Cleaning\n", "	is.Cleaning, is.Image = was.Cleaning, was.Image\n"),
	mutates("R01", guardFile, "if r.Method != http.MethodPost {", "if r.Method == http.MethodDelete {"),
	mutates("R08", lifecycleFile, "ptr.To[int32](runtimehooksv1.DefaultHandlersTimeoutSeconds)", "ptr.To[int32](31)"),
	mutates("R11", guardFile, "return http.StatusOK, g.failure(message)", "return http.StatusBadRequest, g.failure(message)"),
	mutates("R12", lifecycleFile, "	setStatus(ctx, answer, verdict, err)\n}\n\nfunc (o Options) beforeWorkersUpgrade(", "	verdict.Hold = false\n	setStatus(ctx, answer, verdict, err)\n}\n\nfunc (o Options) beforeWorkersUpgrade("),
	mutates("R14", "runtimehooks/lifecycle/decide.go", "RetryAfterSeconds = 15\n", "RetryAfterSeconds = 60\n"),
	mutates("R19", guardFile, "	answer[\"apiVersion\"], answer[\"kind\"]", "	if text, _ := answer[\"message\"].(string); text != \"\" {\n		answer[\"message\"] = text + \" at \" + time.Now().String()\n	}\n	answer[\"apiVersion\"], answer[\"kind\"]"),
	mutates("R20", lifecycleFile, "o.beforeClusterCreate, fail)", "o.beforeClusterCreate, ignore)"),
	mutates("R21", lifecycleFile, "	setStatus(ctx, answer, verdict, err)\n}\n\n// decideUpgrade holds", "	verdict.Message = \"\"\n	setStatus(ctx, answer, verdict, err)\n}\n\n// decideUpgrade holds"),
	mutates("L11", "runtimehooks/mutation/handlers.go", "	answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)\n", "	answer.SetStatus(\"Perhaps\")\n"),
}

var serverMutants2 = []goMutant{
	mutates("C34", machineHook, "topology.IsDryRunRequest(req, template) {", `topology.IsDryRunRequest(req, template) && req.Kind.Kind == "IngotMachineTemplate" {`),
	mutates("R18", "cmd/manager/app/hooks.go", "	handlers = append(handlers, mutation.Handlers(", "	handlers = append(handlers, inplace.Handlers(inplace.Options{Cache: mgr.GetClient(), Live: mgr.GetAPIReader()})...)\n	handlers = append(handlers, mutation.Handlers("),
	mutates("R22", guardFile, "return g.failure(notOfForm) //", "return g.failure(message) //"),
	mutates("L01", lifecycleFile, "\"All workers run Kubernetes \"+request.KubernetesVersion+\".\")\n	setStatus(ctx, answer, Verdict{}, nil)", "\"All workers run Kubernetes \"+request.KubernetesVersion+\".\")\n	setStatus(ctx, answer, Verdict{}, errInventory)"),
	mutates("L02", guardFile, "= g.apiVersion, g.envelope.response", "= g.apiVersion, g.hook"),
	mutates("L03", lifecycleFile, "!isIngotCluster(cluster) || !cluster.Spec.Topology.IsDefined() {\n\t\treturn Verdict{}, nil\n\t}\n\twant,", "!isIngotCluster(cluster) && cluster.Name == \"\" || !cluster.Spec.Topology.IsDefined() {\n\t\treturn Verdict{}, nil\n\t}\n\twant,"),
	mutates("L05", lifecycleFile, "		controlPlaneSteps: upgradeVersions(request.ControlPlaneUpgrades, request.ToKubernetesVersion),\n		workersSteps:      upgradeVersions(request.WorkersUpgrades, request.ToKubernetesVersion),", "		controlPlaneSteps: upgradeVersions(nil, request.ToKubernetesVersion),\n		workersSteps:      upgradeVersions(nil, request.ToKubernetesVersion),"),
	mutates("L07", lifecycleFile, "\"All control plane machines run Kubernetes \"+request.KubernetesVersion+\".\")\n	setStatus(ctx, answer, Verdict{}, nil)", "\"All control plane machines run Kubernetes \"+request.KubernetesVersion+\".\")\n	setStatus(ctx, answer, Verdict{Hold: true, Message: \"the workers have to wait\"}, nil)"),
	mutates("L08", lifecycleFile, "	setStatus(ctx, answer, Verdict{}, err)\n}\n\n// record emits", "	setStatus(ctx, answer, Verdict{Hold: true, Message: \"the next upgrade has to wait\"}, err)\n}\n\n// record emits"),
	mutates("L09", lifecycleFile, "verdict = decideDelete(&request.Cluster)", "verdict = Verdict{}"),
}

var serverMutants3 = []goMutant{
	mutates("M37", machineHook, "topology.IsDryRunRequest(req, template) {", "topology.IsDryRunRequest(req, template) || req.DryRun != nil && *req.DryRun {"),
	mutates("L04", lifecycleFile, "\"The API server of the cluster is available.\")\n	setStatus(ctx, answer, Verdict{}, nil)", "\"The API server of the cluster is available.\")\n	setStatus(ctx, answer, Verdict{}, errInventory)", "L01"),
	mutates("R15", "controllers/reservation/planner.go", "case own.Spec.State == infrav1.ReservationReserved && p.isValid(own) && same:", "case own.Spec.State == infrav1.ReservationReserved && p.isValid(own) && same && own.Name == \"\":"),
}

var runMutants1 = []goMutant{
	mutates("M55", addressesFile, "Type: clusterv1.MachineInternalIP, Address: ip}", "Type: clusterv1.MachineInternalIP, Address: ip[:0] + \"127.0.0.1\"}"),
	mutates("M56", statusFile, "s.machine.Status.FailureDomain = s.host.Spec.Claim.FailureDomain", "s.machine.Status.FailureDomain = s.host.Name"),
	mutates("C19", "inventory/allocation/failuredomains.go", "		controlPlane := serves[name]\n", "		controlPlane := serves[name] || !slices.ContainsFunc(slices.Collect(maps.Keys(serves)), func(name string) bool { return serves[name] })\n"),
	mutates("M29", selectFile, "		return r.retryLater(), nil\n	}\n	if out, err := r.checkBootstrapData", "		s.fail(selection.Message)\n		return r.retryLater(), nil\n	}\n	if out, err := r.checkBootstrapData"),
	mutates("M43", "controllers/image/image_controller.go", "if isPaused, _, err := paused.EnsurePausedCondition(ctx, r.Client, nil, image); err != nil || isPaused {", "if _, _, err := paused.EnsurePausedCondition(ctx, r.Client, nil, image); err != nil {"),
	mutates("M41", "controllers/reservation/reservation_controller.go", "if r.WatchFilterValue != \"\" && !labels.HasWatchLabel(selected", "if r.WatchFilterValue == \"never\" && !labels.HasWatchLabel(selected"),
	mutates("C13", clusterFile, "return annotations.IsExternallyManaged(object) && !(", "return annotations.IsExternallyManaged(object) && object.Name == \"\" && !(", "C17"),
	mutates("M54", "webhooks/conversion/machine.go", "dst.Status.Ready = *provisioned", "dst.Status.Ready = !*provisioned"),
	mutates("C07", "webhooks/conversion/cluster.go", "dst.Status.Ready = *provisioned", "dst.Status.Ready = !*provisioned"),
	mutates("M65", capacityFile, "*resource.NewQuantity(capacity.CPUs, ", "*resource.NewQuantity(capacity.CPUs+1, "),
	mutates("M22", claimFile, "s.machine.Status.Initialization.Provisioned = ptr.To(true) // never goes back", "s.machine.Status.Initialization.Provisioned = nil // never goes back"),
	mutates("M58", machineFile, "return r.run(ctx, s, r.waitForOwner, r.release, r.removeFinalizer)", "return r.run(ctx, s, r.waitForOwner, r.removeFinalizer)", "M60", "C22", "M27"),
}

var runMutants2 = []goMutant{
	mutates("M40", "cmd/manager/app/manager.go", "out.DefaultNamespaces = map[string]cache.Config{o.Namespace: {}}", "out.DefaultNamespaces = nil", "C30"),
	{rule: "C31", also: []string{"C19"}, edits: []sourceEdit{
		{clusterFile, "if r.WatchFilterValue != \"\" && !labels.HasWatchLabel(object", "if r.WatchFilterValue == \"never\" && !labels.HasWatchLabel(object"},
		{"controllers/cluster/setup.go", "hardware.WatchFilter(mgr.GetScheme(), log, r.WatchFilterValue)", "hardware.WatchFilter(mgr.GetScheme(), log, \"\")"},
	}},
	mutates("C14", clusterFile, "if owner == nil && !deleting {", "if owner == nil && object.Name == \"\" {", "C15"),
	mutates("M45", machineFile, "if owner == nil && !deleting {", "if owner == nil && machine.Name == \"\" {", "M48"),
	mutates("M47", machineFile, "if err != nil || (cluster == nil && !deleting) {", "if err != nil {", "M26"),
	mutates("M28", statusFile, "V1Beta1.FailureMessage = ptr.To(message)", "V1Beta1.FailureMessage = nil"),
	mutates("C22", clusterFile, "if len(remaining) > 0 {", "if len(remaining) > 1000 {"),
	mutates("C09", "webhooks/conversion/shared.go", "ControlPlane: domain.ControlPlane != nil && *domain.ControlPlane,", "ControlPlane: domain.ControlPlane == nil || !*domain.ControlPlane,"),
	{rule: "M27", edits: []sourceEdit{
		{statusFile, "return s.set(infrav1.ReadyCondition, metav1.ConditionFalse, reason, message)", "return s.set(infrav1.ReadyCondition, metav1.ConditionTrue, reason, message)"},
		{statusFile, "Type: infrav1.ReadyCondition, Status: metav1.ConditionFalse,\n", "Type: infrav1.ReadyCondition, Status: metav1.ConditionTrue,\n"},
	}},
	mutates("K53", "controllers/move/decide.go", "change.Block = !blocked && (!paused || change.Lift)", "change.Block = !blocked && paused && change.Lift"),
	mutates("M17", waitFile, "return cmp.Or(s.owner.Spec.FailureDomain, s.machine.Spec.FailureDomain)", "return cmp.Or(s.machine.Spec.FailureDomain, \"\")"),
}

var runMutants3 = []goMutant{
	mutates("M27", "controllers/machine/health.go", "case host.Status.Power == infrav1.PowerStateOff:", "case host.Status.Power == \"Broken\":"),
	mutates("M49", waitFile, "if s.ingotCluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, false) {", "if s.ingotCluster == nil || !ptr.Deref(s.cluster.Status.Initialization.InfrastructureProvisioned, true) {"),
	mutates("M50", waitFile, "if s.owner.Spec.Bootstrap.DataSecretName == nil {", "if s.owner.Name == \"\" {"),
	mutates("M51", claimFile, "		s.fail(message)\n	}\n	r.refuse(s, reason, message)", "		s.fail(message)\n	}\n	r.refuse(s, reason, \"\")"),
	mutates("C16", "controllers/cluster/endpoint.go", "metav1.ConditionFalse, infrav1.ReasonWaitingForEndpoint,", "metav1.ConditionTrue, infrav1.ReasonWaitingForEndpoint,"),
	{rule: "K54", edits: []sourceEdit{
		{followFile, "kept != nil && kept.InstanceID == instance {", "kept != nil && kept.InstanceID == \"\" {"},
		{"controllers/host/status.go", "kept != nil && kept.InstanceID == claim.InstanceID {", "kept != nil && kept.InstanceID == \"\" {"},
	}},
	{rule: "M44", also: []string{"M43"}, edits: []sourceEdit{
		{capacityFile, "	\"sigs.k8s.io/cluster-api/util/paused\"\n", "	\"sigs.k8s.io/cluster-api/util/annotations\"\n"},
		{capacityFile, "isPaused, requeue, err := paused.EnsurePausedCondition(ctx, r.Client, owner, template) //", "isPaused, requeue := annotations.HasPaused(template) || owner != nil && annotations.IsPaused(owner, template), false //"},
	}},
}
