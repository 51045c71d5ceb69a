// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package agentserver

import (
	"context"
	"fmt"
	"net/http"

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

// openSession binds the agent's key to the order (I14), checks that the server is
// the one registered (I8), keeps the facts, and, for an install, records the disk
// that the hints choose before anything is written (I12).
func (s *Server) openSession(r *http.Request, c caller, in agentapi.SessionRequest) (agentapi.Session, *agentapi.Error) {
	if c.isStranger() {
		return s.openStranger(r, c, in)
	}
	ctx := r.Context()
	facts := inventory.HardwareFromAgent(in.Hardware)
	c.markers = markersOf(in.Hardware.Disks)
	var bound bool
	host, refusal := s.transact(ctx, c, s.mayAct(c), func(host *infrav1.IngotHost) *agentapi.Error {
		bound = host.Spec.Order.AgentKey == ""
		host.Spec.Order.AgentKey = c.key
		problem, err := s.admit(ctx, host, facts, len(in.Hardware.Disks)-len(facts.Disks))
		if err != nil {
			s.Log.Error(err, "Could not read the hardware of a host", "host", client.ObjectKeyFromObject(host).String())
			return notReady("the API server does not answer")
		}
		if problem != nil {
			host.Spec.Order.Result = &infrav1.OrderResult{
				Outcome: infrav1.OrderFailed, Reason: problem.reason, Message: problem.message,
				At: metav1.NewTime(s.Clock.Now()),
			}
		}
		return nil
	})
	if refusal != nil {
		return agentapi.Session{}, refusal
	}
	if result := host.Spec.Order.Result; result != nil {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, result.Reason, action, "%s", result.Message)
		return agentapi.Session{}, &agentapi.Error{Reason: agentapi.ReasonHardwareMismatch, Message: result.Message}
	}
	if err := s.keepFacts(ctx, host, facts, in.Hardware.StorageWithoutDriver != nil); err != nil {
		s.Log.Error(err, "Could not save the hardware", "host", client.ObjectKeyFromObject(host).String())
		return agentapi.Session{}, notReady("the hardware could not be saved")
	}
	s.note(ctx, host, agentapi.Progress{OrderID: host.Spec.Order.ID, Step: agentapi.StepStarted})
	if bound {
		s.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonAgentStarted, action,
			"The agent is running from the network for %s, attempt %d", host.Spec.Order.Kind, host.Spec.Order.Attempt)
	}
	if blind := facts.StorageWithoutDriver; bound && len(blind) > 0 {
		s.Recorder.Eventf(host, nil, corev1.EventTypeWarning, infrav1.ReasonStorageWithoutDriver, action,
			"The agent sees no disks, or not all, of the storage controllers %s, which no driver of its kernel has taken, or which have host-managed zoned (SMR) disks: those are neither installed to nor cleaned. %s", inventory.DescribeControllers(blind), inventory.BlindRemedy)
	}
	return agentapi.Session{
		Now:              s.Clock.Now().UTC(),
		Host:             client.ObjectKeyFromObject(host).String(),
		ProgressInterval: agentapi.Duration(ProgressInterval),
	}, nil
}

// problem ends an order before any work.
type problem struct{ reason, message string }

// admit checks the facts against what is known of the host, and records the root
// disk in the claim where the order is an install. The facts lack as many disks as are
// unnamed. An error means that the facts known could not be read: then nobody is admitted.
func (s *Server) admit(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec, unnamed int) (*problem, error) {
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
		return s.takenIdentity(ctx, host, known, facts)
	case infrav1.OrderWipe:
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
		return &problem{reason: infrav1.ReasonNoRootDisk, message: inventory.Truncate("No disk to install to: "+err.Error()+". "+diskRemedy(claim), maxMessage)}, nil
	}
	claim.RootDisk, claim.MirrorDisks = ptr.To(inventory.DiskRefOf(disks[0])), nil
	for _, disk := range disks[1:] {
		claim.MirrorDisks = append(claim.MirrorDisks, inventory.DiskRefOf(disk))
	}
	return nil, nil
}

// diskRemedy says where the claim's wishes for its disks were written.
func diskRemedy(claim *infrav1.HostClaim) string {
	switch raid := claim.SoftwareRAID; {
	case raid == nil:
		return "Correct rootDeviceHints of the IngotMachine's template or of the IngotHost"
	case len(raid.Members) > 0:
		return "Correct softwareRAID.members of the IngotMachine's template"
	default:
		return "Correct rootDeviceHints of the IngotMachine's template or of the IngotHost, which both disks of softwareRAID must fit"
	}
}

// checkIdentity says whether the server that speaks is the one registered (I8).
func checkIdentity(host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) *problem {
	hasMAC := false
	for _, nic := range facts.NICs {
		hasMAC = hasMAC || nic.MAC == host.Spec.BootMACAddress
	}
	if !hasMAC {
		return &problem{reason: string(agentapi.ReasonHardwareMismatch),
			message: "The server that booted has no NIC with spec.bootMACAddress " + host.Spec.BootMACAddress + ". Ingot powers it off. Correct the address or the cabling"}
	}
	if known == nil || host.Spec.Order.Kind == infrav1.OrderInspect {
		return nil
	}
	if what := identityDiffers(known.Spec.System, facts.System); what != "" {
		return &problem{reason: string(agentapi.ReasonHardwareMismatch),
			message: "The server that booted is not the one inspected: " + what + ". Ingot powers it off. If the server or its mainboard was replaced, annotate the host " + infrav1.InspectAnnotation}
	}
	return nil
}

// identityDiffers names what of an identity (UUID and serial number of SMBIOS) is another
// than the inspection found; empty: it is the same server. One of the two may differ, since
// firmware updates and service technicians rewrite one. A UUID that is known is never
// absent.
func identityDiffers(before, now infrav1.HardwareSystem) string {
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

// takenIdentity refuses an inspection that would give a host the identity of a host of another
// namespace (I22): a tenant with root on a server, or a virtual machine, chooses what it reports,
// and both hosts would be duplicates. Hosts of one namespace report that they are. An identity
// that the host has already is compared by the host controller.
func (s *Server) takenIdentity(ctx context.Context, host *infrav1.IngotHost, known *infrav1.IngotHardware, facts infrav1.IngotHardwareSpec) (*problem, error) {
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
		if err == nil && holdsIdentity(other) {
			return &problem{reason: infrav1.ReasonDuplicate, message: "The server that booted has the UUID and serial number of a host of another namespace. " +
				"Ingot powers it off and keeps nothing of the inspection. Delete one of the two hosts"}, nil
		}
	}
	return nil, nil
}

// holdsIdentity reports whether the facts of a host keep others from having the same identity:
// not what a machine said that waits for approval, nor what clusterctl moves away.
func holdsIdentity(host *infrav1.IngotHost) bool {
	if host.Spec.Claim != nil {
		return true
	}
	_, enrolled := host.Labels[infrav1.EnrolledLabel]
	_, moved := host.Annotations[clusterctlv1.DeleteForMoveAnnotation]
	return !moved && (!enrolled || host.Spec.Record != nil || host.Spec.Order != nil)
}

// inspects reports whether the order is an inspection, which alone writes the identity and
// forgets disks: a session of another kind must not take over another host's identity (I22).
func inspects(host *infrav1.IngotHost) bool { return host.Spec.Order.Kind == infrav1.OrderInspect }

// keepFacts writes the hardware found to the IngotHardware of the host. What others
// recorded there stays: both addresses, the pin of the BMC's certificate, and the
// report of the system that the present claim installed.
func (s *Server) keepFacts(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec, toldControllers bool) error {
	known := &infrav1.IngotHardware{}
	err := s.Live.Get(ctx, client.ObjectKeyFromObject(host), known)
	if apierrors.IsNotFound(err) {
		known, err := hardware.New(host, s.Client.Scheme())
		if err != nil {
			return err
		}
		known.Spec = facts
		if !inspects(host) {
			known.Spec.System.UUID, known.Spec.System.SerialNumber = "", ""
		}
		return s.Client.Create(ctx, known)
	}
	if err != nil {
		return err
	}
	if owner := metav1.GetControllerOf(known); owner != nil && owner.UID != host.UID {
		return fmt.Errorf("the hardware of an earlier host %s is about to be collected", host.Name)
	}
	if !inspects(host) { // admit has compared them
		facts.System.UUID, facts.System.SerialNumber = known.Spec.System.UUID, known.Spec.System.SerialNumber
	}
	facts.Address, facts.IPv6Address, facts.BMC = known.Spec.Address, known.Spec.IPv6Address, known.Spec.BMC
	if kept, claim := known.Spec.Booted, host.Spec.Claim; kept != nil && claim != nil && kept.InstanceID == claim.InstanceID {
		facts.Booted = kept // the report of an earlier tenant goes
	}
	if !inspects(host) && len(lifecycle.MissingDisks(known.Spec.Disks, facts.Disks, nil)) > 0 {
		facts.Disks = known.Spec.Disks // a wipe must ask for the one that is missing
	}
	if !toldControllers {
		facts.StorageWithoutDriver = known.Spec.StorageWithoutDriver // an agent of before does not look
	}
	if equality.Semantic.DeepEqual(known.Spec, facts) {
		return nil
	}
	base := known.DeepCopy()
	known.Spec = facts
	return s.Client.Patch(ctx, known, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
}
