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

// testEnv is the API server and client that all fixtures share.
type testEnv struct {
	cfg    *rest.Config
	scheme *runtime.Scheme
	api    *envtest.Indexed
}

func newTestEnv(t *testing.T) *testEnv {
	t.Helper()
	on := &testEnv{scheme: testscheme.Scheme(t, ipamv1.AddToScheme)}
	on.cfg = envtest.Start(t, envtest.IngotCRDs(t), envtest.ClusterAPICRDs(t))
	on.api = envtest.NewIndexed(t, on.cfg, on.scheme)
	if err := index.Setup(t.Context(), on.api); err != nil {
		t.Fatal(err)
	}
	return on
}

// TestHost runs all tests that need an API server on one, in parallel. Each has its own namespace,
// names, addresses and BMCs.
func TestHost(t *testing.T) {
	on := newTestEnv(t)
	for _, test := range []struct {
		name string
		run  func(*testing.T, *testEnv)
	}{
		{"firmware fails", testFirmwareFails},
		{"firmware", testFirmware},
		{"rotation with crashes", testRotationKilled},
		{"firmware with crashes", testFirmwareKilled},
		{"upload with crashes", testFirmwarePushKilled},
		{"prepared at registration", testSettingsAreAppliedWithTheInspection},
		{"deletion", testDeletion},
		{"rotation refused", testRotationRefused},
		{"rotation", testRotation},
		{"rotation fails", testRotationFails},
		{"lifecycle", testLifecycle},
		{"restored host is held", testRestoredHostIsHeld},
		{"bmc errors", testBMCErrors},
		{"secret", testSecret},
		{"log", testLog},
		{"owners", testOwnersAreRestored},
		{"stale view", testStaleViewHasNoEffect},
		{"untouched hosts", testUntouchedHosts},
		{"enrolled duplicates", testEnrolledDuplicates},
		{"moved host is no duplicate", testMovedHostIsNoDuplicate},
		{"same BMC by name", testSameBMCByName},
		{"BMC not allowed", testBMCNotAllowed},
		{"pause", testPause},
		{"old shutdown is forgotten", testOldShutdownIsForgotten},
		{"rejected shutdown", testRejectedShutdownIsRepeated},
		{"interrupted power cycle", testInterruptedPowerCycleIsDropped},
		{"off proof", testOffNeedsAcceptedPowerOff},
		{"unanswered power-offs", testUnansweredPowerOffs},
		{"move", testMovePause},
		{"moved cleaning", testMovedCleaningStartsAgain},
		{"pause of the Cluster", testPauseOfClusterStopsCallsAtOnce},
		{"free host stops with paused Clusters", testFreeHostStopsWithPausedClusters},
		{"health", testHealth},
		{"event stream", testEventStream},
		{"faults", testFaults},
		{"unreachable BMC", testBreaker},
		{"ignored power actions", testIgnoredPowerActions},
		{"failed power cycle", testFailedPowerCycleQuarantines},
		{"rejected power-on", testRejectedPowerOn},
		{"repaired BMC", testRepairedBMCStartsWithACleanRecord},
		{"first accepted boot", testFirstAcceptedBootGetsItsTime},
		{"unresponsive network", testUnresponsiveNetwork},
		{"changed settings", testChangedSettingsBlockClaims},
		{"settings with Secure Boot", testSettingsAndSecureBootShareABoot},
		{"Secure Boot in use", testSecureBootIsNotSetOnAHostInUse},
		{"Secure Boot contradicts a setting", testSecureBootContradictsSetting},
		{"unsupported settings", testUnsupportedSettings},
		{"prepared in use", testSettingsOfAHostInUse},
		{"unreadable settings", testUnreadableSettings},
		{"clock set back", testClockSetBack},
		{"firmware of the BMC", testFirmwareOfTheBMCNeedsItsReset},
		{"upload", testFirmwarePush},
		{"upload paused", testFirmwarePushPaused},
		{"upload fails", testFirmwarePushFails},
		{"claims", testClaims},
		{"commands", testCommands},
		{"commands once", testCommandsOnce},
		{"agent deadline after an outage", testAgentDeadlineAfterManagerOutage},
		{"network", testNetwork},
		{"slow BMC", testSlow},
		{"pool address", testPoolAddress},
		{"network without a pool", testMoveToNetworkWithoutPool},
		{"pool closed", testPoolClosed},
		{"BMC taken away", testBMCRemovedFromSpec},
		{"dual stack", testDualStackAddresses},
		{"network use", testNetworkUse},
		{"network quota", testNetworkQuota},
		{"endpoints are not assigned", testEndpointsAreNotAssigned},
		{"enrolled host", testEnrolled},
		{"watches", testWatches},
		{"first use", testFirstUse},
		{"first use fails", testFirstUseFails},
		{"CA in a Secret", testCASecret},
		{"new credentials", testNewCredentials},
		{"generated password is kept", testSecretWithGeneratedPasswordIsKept},
		{"rotation by IPMI", testRotationIPMI},
		{"virtual media", testVirtualMedia},
		{"HTTP boot", testHTTPBoot},
		{"watch filter", testWatchFilter},
		{"observed generation", testObservedGenerationForKstatus},
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
