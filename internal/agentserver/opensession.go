// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"net/http"
	"slices"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	clusterctlv1 "sigs.k8s.io/cluster-api/cmd/clusterctl/api/v1alpha3"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// openSession binds the agent's key to the order (I14), checks that the server is the registered
// one (I8), and saves the hardware facts. For an install it records the disk that the hints select
// before anything is written (I12).
func (s *Server) openSession(r *http.Request, c caller, in agentapi.SessionRequest) (agentapi.Session, *agentapi.Error) {
	if c.isUnknownClient() {
		return s.enroll(r, c, in)
	}
	ctx := r.Context()
	facts := inventory.HardwareFromAgent(in.Hardware)
	c.markers = markersOf(in.Hardware.Disks)
	var bound bool
	host, refusal := s.transact(ctx, c, s.authorize, func(host *infrav1.IngotHost) *agentapi.Error {
		bound = host.Spec.Order.AgentKey == ""
		host.Spec.Order.AgentKey = c.key
		problem, err := s.checkHardware(ctx, host, facts, len(in.Hardware.Disks)-len(facts.Disks))
		if err != nil {
			return s.unavailable(err, "read the hardware facts", client.ObjectKeyFromObject(host))
		}
		if problem != nil {
			host.Spec.Order.Result = &infrav1.OrderResult{
				Outcome: infrav1.OrderFailed, Reason: problem.reason, Message: problem.message,
				CompletionTime: metav1.NewTime(s.Clock.Now()),
			}
		}
		return nil
	})
	if refusal != nil {
		return agentapi.Session{}, refusal
	}
	if result := host.Spec.Order.Result; result != nil {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, result.Reason, eventAction, "%s", result.Message)
		return agentapi.Session{}, &agentapi.Error{Reason: agentapi.ReasonHardwareMismatch, Message: result.Message}
	}
	err := s.saveFacts(ctx, host, facts, in.Hardware.StorageWithoutDriver != nil)
	forgetFacts(ctx)
	if apierrors.IsConflict(err) { // somebody wrote since they were read
		err = s.saveFacts(ctx, host, facts, in.Hardware.StorageWithoutDriver != nil)
	}
	if err != nil {
		return agentapi.Session{}, s.unavailable(err, "save the hardware facts", client.ObjectKeyFromObject(host))
	}
	s.saveProgress(ctx, host, agentapi.Progress{OrderID: host.Spec.Order.ID, Step: agentapi.StepStarted})
	if bound {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonAgentStarted, eventAction,
			"The agent is running on the server (%s, attempt %d).", host.Spec.Order.Kind, host.Spec.Order.Attempt)
	}
	if blind := facts.StorageWithoutDriver; bound && len(blind) > 0 {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonStorageWithoutDriver, eventAction,
			"The agent does not see all disks of %s: no driver, or host-managed zoned (SMR) disks. Ingot neither installs to nor cleans those disks. %s.", inventory.DescribeControllers(blind), inventory.UnseenStorageRemedy)
	}
	return agentapi.Session{
		Now:              s.Clock.Now().UTC(),
		Host:             client.ObjectKeyFromObject(host).String(),
		ProgressInterval: agentapi.Duration(ProgressInterval),
	}, nil
}

// problem is the failure that ends an order before any work.
type problem struct{ reason, message string }

// checkHardware compares the facts with what is known of the host, and records the root disk in the
// claim of an install. unnamed is the number of disks that the facts leave out. An error means that
// the known facts could not be read.
func (s *Server) checkHardware(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec, unnamed int) (*problem, error) {
	known := &infrav1.IngotHardware{}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), known)
	if apierrors.IsNotFound(err) {
		known, err = nil, nil
	}
	if err != nil {
		return nil, err
	}
	if p := checkIdentity(host, known, facts); p != nil {
		return p, nil
	}
	switch host.Spec.Order.Kind {
	case infrav1.OrderInstall:
	case infrav1.OrderInspect:
		return s.identityConflict(ctx, host, known, facts)
	case infrav1.OrderClean:
		if unnamed > 0 {
			return tooManyDisks(len(facts.Disks), unnamed), nil
		}
		return missingDisks(host, known, facts), nil
	default:
		return nil, nil
	}
	claim := host.Spec.Claim
	if p := missingRoot(host, known, facts); p != nil {
		return p, nil
	}
	disks, err := inventory.SelectRootDisks(facts.Disks, claim.RootDeviceHints, claim.SoftwareRAID)
	if err != nil {
		return &problem{reason: infrav1.ReasonNoRootDisk, message: inventory.Truncate("No disk to install to: "+err.Error()+". "+diskRemedy(claim)+".", maxMessage)}, nil
	}
	claim.RootDisk, claim.MirrorDisks = ptr.To(inventory.DiskRefOf(disks[0])), nil
	for _, disk := range disks[1:] {
		claim.MirrorDisks = append(claim.MirrorDisks, inventory.DiskRefOf(disk))
	}
	return nil, nil
}

// diskRemedy names the fields that select the claim's disks.
func diskRemedy(claim *infrav1.HostClaim) string {
	switch raid := claim.SoftwareRAID; {
	case raid == nil:
		return "Correct rootDeviceHints of the IngotMachine's template or of the IngotHost"
	case len(raid.Members) > 0:
		return "Correct softwareRAID.members of the IngotMachine's template"
	default:
		return "Correct rootDeviceHints of the IngotMachine's template or of the IngotHost: both disks of softwareRAID must match them"
	}
}

// checkIdentity returns a problem if the server is not the registered one (I8).
func checkIdentity(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	if !slices.ContainsFunc(facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == host.Spec.BootMACAddress }) {
		return &problem{reason: string(agentapi.ReasonHardwareMismatch),
			message: "The server that booted has no NIC with spec.bootMACAddress " + host.Spec.BootMACAddress + ". Ingot powers it off. Correct the address or the cabling."}
	}
	if known == nil || host.Spec.Order.Kind == infrav1.OrderInspect {
		return nil
	}
	if difference := identityDifference(known.Spec.System, facts.System); difference != "" {
		return &problem{reason: string(agentapi.ReasonHardwareMismatch),
			message: "Another server booted: " + difference + ". Ingot powers it off. If you replaced the server or its mainboard, annotate the host " + inventory.CommandText(infrav1.InspectAnnotation) + "."}
	}
	return nil
}

// identityDifference describes how the SMBIOS identity (UUID and serial number) differs from the
// inspected one; empty if it is the same server. One of the two values may differ, since firmware
// updates and service technicians rewrite one of them. A known UUID must not disappear.
func identityDifference(before, now infrav1.HardwareSystem) string {
	switch {
	case before.UUID != "" && now.UUID == "":
		return "it reports no UUID instead of " + before.UUID
	case before.UUID != "" && before.UUID != now.UUID && (now.SerialNumber == "" || before.SerialNumber != now.SerialNumber):
		return "UUID " + now.UUID + " instead of " + before.UUID
	case before.UUID == "" && before.SerialNumber != "" && before.SerialNumber != now.SerialNumber:
		return fmt.Sprintf("serial number %q instead of %q", now.SerialNumber, before.SerialNumber)
	}
	return ""
}

// identityConflict rejects an inspection that would give a host the identity of a host in another
// namespace (I22): a tenant with root on a server, or in a virtual machine, chooses what the server
// reports. Duplicates within a namespace are reported by the hosts themselves. The host controller
// compares an identity that the host has already.
func (s *Server) identityConflict(ctx context.Context, host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) (*problem, error) {
	system := index.System(&infrav1.IngotHardware{Spec: facts})
	if system == "" || known != nil && index.System(known) == system {
		return nil, nil
	}
	list := &infrav1.IngotHardwareList{}
	if err := s.Client.List(ctx, list, client.MatchingFields{index.HardwareBySystem: system}, client.UnsafeDisableDeepCopy); err != nil {
		return nil, err
	}
	for i := range list.Items {
		if list.Items[i].Namespace == host.Namespace {
			continue
		}
		other := &infrav1.IngotHost{}
		err := s.Client.Get(ctx, client.ObjectKeyFromObject(&list.Items[i]), other)
		if client.IgnoreNotFound(err) != nil {
			return nil, err
		}
		if err == nil && ownsIdentity(other) {
			return &problem{reason: infrav1.ReasonDuplicate, message: "The server that booted has the UUID and serial number of a host in another namespace. " +
				"Ingot powers it off and discards the inspection. Delete one of the two hosts."}, nil
		}
	}
	return nil, nil
}

// ownsIdentity reports whether no other host may have the identity that the host's facts name. The
// facts of a host that waits for approval, or that clusterctl moves away, do not count.
func ownsIdentity(host *infrav1.IngotHost) bool {
	if host.Spec.Claim != nil {
		return true
	}
	_, enrolled := host.Labels[infrav1.EnrolledLabel]
	_, moved := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return !moved && (!enrolled || host.Spec.Record != nil || host.Spec.Order != nil)
}

// isInspection reports whether the order is an inspection. Only an inspection writes the identity
// and forgets disks: other sessions must not take over another host's identity (I22).
func isInspection(host *infrav1.IngotHost) bool { return host.Spec.Order.Kind == infrav1.OrderInspect }

// saveFacts writes the hardware facts to the host's IngotHardware. It keeps what others recorded:
// both addresses, the pin of the BMC's certificate, and the report of the system that the present
// claim installed. If hasControllers is false, the agent is too old to report controllers.
func (s *Server) saveFacts(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec, hasControllers bool) error {
	known := &infrav1.IngotHardware{}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), known)
	if apierrors.IsNotFound(err) {
		known, err := hardware.New(host, s.Client.Scheme())
		if err != nil {
			return err
		}
		known.Spec = facts
		if !isInspection(host) {
			known.Spec.System.UUID, known.Spec.System.SerialNumber = "", ""
		}
		return s.Client.Create(ctx, known)
	}
	if err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(known); owner != nil && owner.UID != host.UID {
		return fmt.Errorf("save hardware of host %s: the object belongs to a deleted host of that name", host.Name)
	}
	if !isInspection(host) { // checkHardware has compared them
		facts.System.UUID, facts.System.SerialNumber = known.Spec.System.UUID, known.Spec.System.SerialNumber
	}
	facts.Address, facts.IPv6Address, facts.BMC = known.Spec.Address, known.Spec.IPv6Address, known.Spec.BMC
	if kept, claim := known.Spec.Booted, host.Spec.Claim; kept != nil && claim != nil && kept.InstanceID == claim.InstanceID {
		facts.Booted = kept // the report of an earlier claim is dropped
	}
	if !isInspection(host) && len(lifecycle.MissingDisks(known.Spec.Disks, facts.Disks, nil)) > 0 {
		facts.Disks = known.Spec.Disks // a wipe must still demand the missing disk
	}
	if !hasControllers {
		facts.StorageWithoutDriver = known.Spec.StorageWithoutDriver
	}
	if equality.Semantic.DeepEqual(known.Spec, facts) {
		return nil
	}
	base := known.DeepCopy()
	known.Spec = facts
	return s.Client.Patch(ctx, known, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}
