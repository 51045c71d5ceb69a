// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"testing"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	ipamv1 "sigs.k8s.io/cluster-api/api/ipam/v1beta2"

	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/test/envtest"
	"github.com/ingot-metal/ingot/test/testscheme"
)

// ground is what all yards stand on: one API server, and one client of it.
type ground struct {
	cfg    *rest.Config
	scheme *runtime.Scheme
	api    *envtest.Indexed
}

func newGround(t *testing.T) *ground {
	t.Helper()
	on := &ground{scheme: testscheme.Scheme(t, ipamv1.AddToScheme)}
	on.cfg = envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	on.api = envtest.NewIndexed(t, on.cfg, on.scheme)
	if err := index.Setup(t.Context(), on.api); err != nil {
		t.Fatal(err)
	}
	return on
}

// TestHost runs all tests that need an API server on one, beside each other: each has a
// namespace of its own, and names, addresses and BMCs that no other has.
func TestHost(t *testing.T) {
	on := newGround(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *ground)
	}{
		{"firmware fails", testFirmwareFails},
		{"firmware", testFirmware},
		{"rotation killed", testRotationKilled},
		{"firmware killed", testFirmwareKilled},
		{"push killed", testFirmwarePushKilled},
		{"prepared at registration", testPreparedAtRegistration},
		{"deletion", testDeletion},
		{"rotation refused", testRotationRefused},
		{"rotation", testRotation},
		{"rotation fails", testRotationFails},
		{"life", testLife},
		{"held", testHeld},
		{"bmc errors", testBMCErrors},
		{"secret", testSecret},
		{"log", testLog},
		{"owners", testOwners},
		{"stale", testStale},
		{"strangers", testStrangers},
		{"enrolled twins", testEnrolledTwins},
		{"moved twin", testMovedTwin},
		{"same BMC by name", testSameBMCByName},
		{"BMC not allowed", testBMCNotAllowed},
		{"pause", testPause},
		{"soft off", testSoftOff},
		{"ask refused", testAskRefused},
		{"cycle interrupted", testCycleInterrupted},
		{"off proof", testOffProof},
		{"unanswered", testUnanswered},
		{"move", testMovePause},
		{"moved order", testMovedOrder},
		{"late pause", testLatePause},
		{"standstill", testStandstill},
		{"health", testHealth},
		{"watched", testWatched},
		{"faults", testFaults},
		{"breaker", testBreaker},
		{"unheeded", testUnheeded},
		{"uncycled", testUncycled},
		{"refused", testRefused},
		{"corrected", testCorrected},
		{"late", testLate},
		{"network silent", testNetworkSilent},
		{"prepared later", testPreparedLater},
		{"prepared securely", testPreparedSecurely},
		{"prepared securely in use", testPreparedSecurelyInUse},
		{"preparation contradicted", testPrepareContradicted},
		{"preparation refused", testPrepareRefused},
		{"prepared in use", testPrepareInUse},
		{"settings kept", testPrepareClosed},
		{"clock set back", testSetBack},
		{"firmware of the BMC", testFirmwareOfBMC},
		{"pushed", testFirmwarePush},
		{"push paused", testFirmwarePushPaused},
		{"push fails", testFirmwarePushFails},
		{"claims", testClaims},
		{"commands", testCommands},
		{"commands once", testCommandsOnce},
		{"outage", testOutage},
		{"network", testNetwork},
		{"slow", testSlow},
		{"pooled", testPooled},
		{"pool left", testPoolLeft},
		{"pool closed", testPoolClosed},
		{"BMC taken away", testBMCTakenAway},
		{"dual", testDual},
		{"network use", testNetworkUse},
		{"network quota", testNetworkQuota},
		{"endpoints", testEndpoints},
		{"enrolled", testEnrolled},
		{"watches", testWatches},
		{"first use", testFirstUse},
		{"first use fails", testFirstUseFails},
		{"CA in a Secret", testCASecret},
		{"new credentials", testNewCredentials},
		{"kept secret", testKeptSecret},
		{"rotation by IPMI", testRotationIPMI},
		{"virtual media", testVirtualMedia},
		{"HTTP boot", testHTTPBoot},
		{"watch filter", testWatchFilter},
		{"waits of others", testWaitsOfOthers},
		{"wrong secret", testWrongSecret},
		{"owners of a CA", testCAOwners},
		{"replacement", testReplacement},
		{"lost facts", testLostFacts},
		{"namespace terminating", testNamespaceTerminating},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			test.run(t, on)
		})
	}
}
