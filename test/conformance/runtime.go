// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package conformance

// notBuilt is why the rules of the runtime extension do not hold.
const notBuilt = "runtime extension not built yet"

// opened says of all rules that they do not hold yet. When the extension is built,
// each of them gets its check and its broken fixture as those of the other
// documents have, and Rule.Open goes.
func opened(rules []Rule) []Rule {
	for i := range rules {
		rules[i].Open = notBuilt
	}
	return rules
}

// runtimeRules are the rules of runtime extensions (R01–R35).
func runtimeRules() []Rule {
	return opened([]Rule{
		{ID: "R01", Level: Must, Tag: TagHTTP, Text: "hooks are POST operations with JSON bodies, each at its own path below the group and version"},
		{ID: "R02", Level: Must, Tag: TagDocument, Text: "a published version of a hook never breaks"},
		{ID: "R03", Level: Must, Tag: TagDocument, Text: "a deprecated version stays for as long as its stability promises"},
		{ID: "R04", Level: Must, Tag: TagDocument, Text: "requests convert down, responses convert up"},
		{ID: "R05", Level: Must, Tag: TagDocument, Text: "nothing is deprecated before something equally stable is there; we serve v1alpha1"},
		{ID: "R06", Level: Must, Tag: TagHTTP, Text: "an HTTPS server answers discovery and the hooks"},
		{ID: "R07", Level: Must, Tag: TagHTTP, Text: "every server answers discovery"},
		{ID: "R08", Level: Must, Tag: TagHTTP, Text: "discovery lists handlers with a DNS label, hook, timeout and failure policy"},
		{ID: "R09", Level: Must, Tag: TagHTTP, Text: "each handler has a path of its own"},
		{ID: "R10", Level: Must, Tag: TagHTTP, Text: "answers come in milliseconds, never after 10 seconds"},
		{ID: "R11", Level: Must, Tag: TagHTTP, Text: "garbage and oversize bodies get a Failure, never a crash"},
		{ID: "R12", Level: Must, Tag: TagHTTP, Text: "a blocking hook blocks by retryAfterSeconds"},
		{ID: "R13", Level: Must, Tag: TagHTTP, Text: "a retry may come at any time, and is answered"},
		{ID: "R14", Level: Must, Tag: TagHTTP, Text: "of several extensions the shortest wait wins: ours is as short as it may be"},
		{ID: "R15", Level: Must, Tag: TagHTTP, Text: "being called again with all others does no harm"},
		{ID: "R16", Level: Should, Tag: TagHTTP, Text: "no side effects"},
		{ID: "R17", Level: Must, Tag: TagHTTP, Text: "where there are any they are idempotent"},
		{ID: "R18", Level: Should, Tag: TagHTTP, Text: "no dependency on another extension"},
		{ID: "R19", Level: Should, Tag: TagHTTP, Text: "the same question gets the same answer"},
		{ID: "R20", Level: Must, Tag: TagHTTP, Text: "the failure policy is declared, Fail by default"},
		{ID: "R21", Level: Must, Tag: TagHTTP, Text: "errors read well in conditions"},
		{ID: "R22", Level: Must, Tag: TagHTTP, Text: "error messages are deterministic and hold no secret"},
		{ID: "R23", Level: Must, Tag: TagRelease, Text: "the endpoint can be reached from Cluster API's controllers"},
		{ID: "R24", Level: Must, Tag: TagRelease, Text: "it runs out of their process"},
		{ID: "R25", Level: Should, Tag: TagRelease, Text: "image, Deployment, Service and Certificate, and the ExtensionConfig with them"},
		{ID: "R26", Level: Should, Tag: TagRelease, Text: "several replicas behind the Service"},
		{ID: "R27", Level: Must, Tag: TagRelease, Text: "a service account of its own with the least access"},
		{ID: "R28", Level: Should, Tag: TagRelease, Text: "a small image and a pod without privileges"},
		{ID: "R29", Level: May, Tag: TagRelease, Text: "it may be part of another component"},
		{ID: "R30", Level: Must, Tag: TagRelease, Text: "only administrators register it, and only where the feature is on"},
		{ID: "R31", Level: Must, Tag: TagRelease, Text: "ExtensionConfig has either URL or Service, a CA, and a namespace selector"},
		{ID: "R32", Level: Must, Tag: TagReconcile, Text: "its status lists the handlers, and Discovered is true"},
		{ID: "R33", Level: May, Tag: TagDocument, Text: "there is no object selector"},
		{ID: "R34", Level: Must, Tag: TagDocument, Text: "there is no dependency model"},
		{ID: "R35", Level: Must, Tag: TagRelease, Text: "TLS, no privileges, a network policy"},
	})
}

// lifecycleRules are the rules of lifecycle hooks (L01–L12).
func lifecycleRules() []Rule {
	return opened([]Rule{
		{ID: "L01", Level: Must, Tag: TagHTTP, Text: "R10 to R22 hold for lifecycle hooks"},
		{ID: "L02", Level: Must, Tag: TagHTTP, Text: "requests and responses have group, version, kind, settings and cluster"},
		{ID: "L03", Level: Must, Tag: TagHTTP, Text: "BeforeClusterCreate can hold a cluster before anything of it is made"},
		{ID: "L04", Level: Must, Tag: TagHTTP, Text: "AfterControlPlaneInitialized never blocks"},
		{ID: "L05", Level: Must, Tag: TagHTTP, Text: "BeforeClusterUpgrade can hold an upgrade, and sees all its steps"},
		{ID: "L06", Level: Must, Tag: TagDocument, Text: "while an upgrade is held, other changes of the topology wait"},
		{ID: "L07", Level: Must, Tag: TagHTTP, Text: "AfterControlPlaneUpgrade is called after each step"},
		{ID: "L08", Level: Must, Tag: TagHTTP, Text: "AfterClusterUpgrade never asks to be called again"},
		{ID: "L09", Level: Must, Tag: TagHTTP, Text: "BeforeClusterDelete can hold a deletion; there is a way out"},
		{ID: "L10", Level: May, Tag: TagHTTP, Text: "the hooks before and after each upgrade of control plane and workers"},
		{ID: "L11", Level: Must, Tag: TagHTTP, Text: "a response is Success or Failure, with a message where it says something"},
		{ID: "L12", Level: Must, Tag: TagDocument, Text: "they are called for clusters with a topology only"},
	})
}
