// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/clock"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/bmcaddress"
	"github.com/ingot-metal/ingot/webhooks/warnings"
)

// +kubebuilder:webhook:verbs=create;update;delete,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothost,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,versions=v1beta2,name=validation.ingothost.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// hostValidator validates IngotHosts.
type hostValidator struct {
	guard
	// hosts reads IngotHosts and IngotNetworks from an indexed cache.
	hosts client.Reader
	// live reads the metadata of Secrets and ConfigMaps from the API server: the cache holds only
	// those with Ingot's label.
	live    client.Reader
	checker warnings.Checker
	bmcs    BMCs
	clock   clock.PassiveClock
}

// ValidateCreate implements admission.Validator.
func (v *hostValidator) ValidateCreate(ctx context.Context, host *v1beta2.IngotHost) (admission.Warnings, error) {
	errs, err := v.checkNewLedger(ctx, host)
	if err != nil {
		return nil, err
	}
	if host.Spec.Claim == nil && host.Spec.Record == nil { // not a move or a restore
		network, err := v.checkNetwork(ctx, host)
		if err != nil {
			return nil, err
		}
		errs = slices.Concat(errs, network, checkCommands(nil, host, v.clock.Now()),
			v.bmcs.checkCapabilities(nil, host), v.bmcs.checkSource(nil, host), checkSettings(nil, host), checkHostDisks(nil, host))
	}
	identity, err := v.checkIdentity(ctx, host)
	if err != nil {
		return nil, err
	}
	if err := invalid("IngotHost", host, append(errs, identity...)); err != nil {
		return nil, err
	}
	return v.warnings(ctx, nil, host), nil
}

// ValidateUpdate checks the fields that differ from before, so that an admitted host can always
// be changed in other ways.
func (v *hostValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotHost) (admission.Warnings, error) {
	errs, err := v.checkLedgerUnchanged(ctx, before, after)
	if err != nil {
		return nil, err
	}
	// This applies also to a host that is being deleted but has a finalizer, and to a host that
	// loses the annotation of clusterctl move.
	if identityChanged(before, after) || isDeletedForMove(before) && !isDeletedForMove(after) {
		more, err := v.checkIdentity(ctx, after)
		if err != nil {
			return nil, err
		}
		errs = append(errs, more...)
	}
	if isDeletedForMove(after) && !isDeletedForMove(before) {
		more, err := checkMoveInProgress(ctx, v.hosts, after)
		if err != nil {
			return nil, err
		}
		errs = append(errs, more...)
	}
	errs = append(errs, checkCommands(before.Annotations, after, v.clock.Now())...)
	if after.DeletionTimestamp.IsZero() {
		recorded, err := v.checkRecordedAddress(ctx, before, after)
		if err != nil {
			return nil, err
		}
		errs = slices.Concat(errs, recorded, v.bmcs.checkCapabilities(before, after), checkSettings(before, after), checkHostDisks(before, after))
	}
	// The limits of tenants (I22) apply in every state of a host, because the state can change.
	network, err := v.checkNetworkChange(ctx, before, after)
	if err != nil {
		return nil, err
	}
	if err := invalid("IngotHost", after, slices.Concat(errs, network, v.bmcs.checkSource(before, after))); err != nil {
		return nil, err
	}
	if !after.DeletionTimestamp.IsZero() || isDeletedForMove(after) {
		return nil, nil
	}
	return v.warnings(ctx, before, after), nil
}

// ValidateDelete rejects the deletion of a claimed host, except during its release: after fencing,
// or with force-release. A fenced host is removed after its cleaning. A foreground deletion, which
// Argo CD uses, deletes the owned objects first and is therefore rejected until the claim ends
// (I23).
func (v *hostValidator) ValidateDelete(ctx context.Context, host *v1beta2.IngotHost) (admission.Warnings, error) {
	if isDeletedForMove(host) {
		errs, err := checkMoveInProgress(ctx, v.hosts, host)
		if err != nil {
			return nil, err
		}
		return nil, invalid("IngotHost", host, errs)
	}
	claim := host.Spec.Claim
	if claim == nil {
		return nil, nil
	}
	command, forced := inventory.PendingCommand(host, v1beta2.ForceReleaseAnnotation)
	forced = forced && command.RefusedBecause(v.clock.Now(), time.Time{}) == ""
	releasing := claim.State == v1beta2.ClaimReleasing
	foreground, err := isForegroundDeletion(ctx)
	if err != nil {
		return nil, err
	}
	if releasing && (forced || !claim.FencedTime.IsZero() && !foreground) {
		return nil, nil
	}
	remedy := "delete its Machine first; if the BMC then does not confirm the power-off, annotate the IngotHost with %s"
	switch {
	case releasing && !claim.FencedTime.IsZero():
		remedy = "Ingot is cleaning the host: delete it again when the claim has ended (Argo CD retries), or without --cascade=foreground; " +
			"to skip the cleaning, annotate the IngotHost with %s"
	case releasing:
		remedy = "Ingot is releasing the host: wait until the BMC confirms that the server is off; to release it without that proof, annotate the IngotHost with %s"
	}
	return nil, invalid("IngotHost", host, field.ErrorList{field.Invalid(
		field.NewPath("spec", "claim", "machineRef", "name"), claim.MachineRef.Name,
		fmt.Sprintf("this IngotMachine of cluster %s uses the host; "+remedy, claim.ClusterName, inventory.CommandText(v1beta2.ForceReleaseAnnotation)),
	)})
}

// isForegroundDeletion reports whether the request deletes the owned objects first.
func isForegroundDeletion(ctx context.Context) (bool, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil || len(req.Options.Raw) == 0 {
		return false, err
	}
	options := &metav1.DeleteOptions{}
	if err := json.Unmarshal(req.Options.Raw, options); err != nil {
		return false, fmt.Errorf("decode the deletion options: %w", err)
	}
	return options.PropagationPolicy != nil && *options.PropagationPolicy == metav1.DeletePropagationForeground, nil
}

func identityChanged(before, after *v1beta2.IngotHost) bool {
	return before.Spec.BootMACAddress != after.Spec.BootMACAddress || bmcAddressOf(before) != bmcAddressOf(after)
}

func bmcAddressOf(host *v1beta2.IngotHost) string {
	if host.Spec.BMC == nil {
		return ""
	}
	return host.Spec.BMC.Address
}

// checkIdentity rejects a malformed BMC address, and a boot MAC address or BMC system of another
// host (I8). The annotation of clusterctl move exempts no host, because any user can set it.
func (v *hostValidator) checkIdentity(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	var errs field.ErrorList
	others, err := v.otherHosts(ctx, host, index.HostByMAC, host.Spec.BootMACAddress)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "bootMACAddress"), host.Spec.BootMACAddress,
			"is already the address of "+describeConflict(host, others)))
	}
	if host.Spec.BMC == nil {
		return errs, nil
	}
	path := field.NewPath("spec", "bmc", "address")
	address, err := bmcaddress.Parse(host.Spec.BMC.Address)
	if err != nil {
		return append(errs, field.Invalid(path, host.Spec.BMC.Address, err.Error())), nil
	}
	errs = append(errs, v.bmcs.checkScheme(path, host.Spec.BMC.Address)...)
	sameBMC, err := v.otherHosts(ctx, host, index.HostByBMC, address.Key())
	if err != nil {
		return nil, err
	}
	same := slices.DeleteFunc(sameBMC, func(other v1beta2.IngotHost) bool {
		theirs, err := bmcaddress.Parse(other.Spec.BMC.Address)
		return err != nil || !address.SameSystem(theirs)
	})
	if len(same) > 0 {
		errs = append(errs, field.Invalid(path, host.Spec.BMC.Address, fmt.Sprintf(
			"is the BMC of %s; correct it, delete that host first, or, if one BMC manages several systems, "+
				"add the path of the system to both addresses", listVisible(host, same))))
	}
	return errs, nil
}

// otherHosts lists the hosts of all namespaces with value in the index, except host itself and
// unclaimed hosts that clusterctl move deletes.
func (v *hostValidator) otherHosts(ctx context.Context, host *v1beta2.IngotHost, field, value string) ([]v1beta2.IngotHost, error) {
	list := &v1beta2.IngotHostList{}
	if err := v.hosts.List(ctx, list, client.MatchingFields{field: value}); err != nil {
		return nil, fmt.Errorf("list the hosts with %s %s: %w", field, value, err)
	}
	return slices.DeleteFunc(list.Items, func(other v1beta2.IngotHost) bool {
		return other.Namespace == host.Namespace && other.Name == host.Name || isDeletedForMove(&other) && other.Spec.Claim == nil
	}), nil
}

// describeConflict names the hosts that already have an address, with the remedy. Hosts of other
// namespaces stay unnamed, except discovered hosts, which do not belong to a tenant yet.
func describeConflict(host *v1beta2.IngotHost, others []v1beta2.IngotHost) string {
	enrolled := slices.DeleteFunc(slices.Clone(others), func(other v1beta2.IngotHost) bool {
		_, waits := other.Labels[v1beta2.EnrolledLabel]
		return !waits || other.Spec.Claim != nil || other.Spec.Record != nil
	})
	if len(enrolled) < len(others) {
		return listVisible(host, others) + "; correct it, or delete that host first"
	}
	return "IngotHost " + names(enrolled) + ", a discovered host that waits for approval; approve that host, or delete it first"
}

// listVisible lists hosts for the author of host: it does not name hosts of other namespaces.
func listVisible(host *v1beta2.IngotHost, others []v1beta2.IngotHost) string {
	keys := make([]types.NamespacedName, 0, len(others))
	for i := range others {
		keys = append(keys, client.ObjectKeyFromObject(&others[i]))
	}
	return inventory.ListHosts(host.Namespace, keys)
}

// names lists hosts of any namespace in a fixed order.
func names(hosts []v1beta2.IngotHost) string {
	out := make([]string, 0, len(hosts))
	for _, host := range hosts {
		out = append(out, host.Namespace+"/"+host.Name)
	}
	slices.Sort(out)
	return shorten(out)
}

// bmcReferences returns the names of the credentials Secret and of the CA bundle, and the kind of
// the CA bundle.
func bmcReferences(host *v1beta2.IngotHost) (out struct{ secret, ca, caKind string }) {
	if bmc := host.Spec.BMC; bmc != nil {
		out.secret = bmc.CredentialsRef.Name
		if bmc.CABundleRef != nil {
			out.ca, out.caKind = bmc.CABundleRef.Name, string(cmp.Or(bmc.CABundleRef.Kind, v1beta2.CABundleConfigMap))
		}
	}
	return out
}

// checkSettings rejects new BIOS settings that are passwords by their name: every reader of the
// host could read them, and no BMC reports whether a password is in effect. before is nil for a
// new host. The message does not repeat the value.
func checkSettings(before, host *v1beta2.IngotHost) field.ErrorList {
	if host.Spec.BIOS == nil {
		return nil
	}
	var existing map[string]string
	if before != nil && before.Spec.BIOS != nil {
		existing = before.Spec.BIOS.Settings
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(host.Spec.BIOS.Settings)) {
		if _, old := existing[name]; !old && strings.Contains(strings.ToLower(name), "password") {
			errs = append(errs, field.Invalid(field.NewPath("spec", "bios", "settings").Key(name), "***",
				"looks like a password, and every reader of IngotHosts could read it; remove it, and set it at the server's console"))
		}
	}
	return errs
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothardware,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,versions=v1beta2,name=validation.ingothardware.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// hardwareValidator validates IngotHardware, which only Ingot writes. Garbage collection deletes it
// with its host.
type hardwareValidator struct {
	allowDelete[*v1beta2.IngotHardware]
	guard
}

// ValidateCreate allows the manager, and users that may restore.
func (v *hardwareValidator) ValidateCreate(ctx context.Context, hardware *v1beta2.IngotHardware) (admission.Warnings, error) {
	ok, err := v.mayCreate(ctx, "ingothardwares", hardware)
	if err != nil || ok {
		return nil, err
	}
	return nil, invalid("IngotHardware", hardware, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "name"), hardware.Name, fmt.Sprintf("only Ingot creates IngotHardware, when it inspects the IngotHost of "+
			"that name; create the IngotHost, or restore as a user with the RBAC verb %s on ingothardwares", restoreVerb))})
}

// ValidateUpdate allows only the manager to change spec.
func (v *hardwareValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotHardware) (admission.Warnings, error) {
	list, err := changes(field.NewPath("spec"), before.Spec, after.Spec)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := v.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return nil, invalid("IngotHardware", after, invalidChanges(list, fmt.Sprintf(
		"only Ingot changes IngotHardware; for a new inspection, annotate the IngotHost with %s", inventory.CommandText(v1beta2.InspectAnnotation))))
}
