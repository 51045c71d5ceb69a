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

// hostValidator admits IngotHosts.
type hostValidator struct {
	guard
	// hosts reads IngotHosts and IngotNetworks from an indexed cache.
	hosts client.Reader
	// live reads the metadata of Secrets and ConfigMaps from the API server: the
	// cache holds only those that Ingot has labelled already.
	live client.Reader
	// outlook warns of what will not work with the inventory as it is.
	outlook warnings.Outlook
	// bmcs tells what the drivers of BMCs can.
	bmcs  BMCs
	clock clock.PassiveClock
}

var _ admission.Validator[*v1beta2.IngotHost] = &hostValidator{}

// ValidateCreate admits a new host.
func (v *hostValidator) ValidateCreate(ctx context.Context, host *v1beta2.IngotHost) (admission.Warnings, error) {
	errs, err := v.createdLedger(ctx, host)
	if err != nil {
		return nil, err
	}
	more, err := v.identity(ctx, host)
	if err != nil {
		return nil, err
	}
	if host.Spec.Claim == nil && host.Spec.Record == nil {
		// What is moved or restored comes as it was.
		refused, err := v.refuseNetwork(ctx, host)
		if err != nil {
			return nil, err
		}
		errs = append(errs, refused...)
		errs = append(errs, checkCommands(nil, host, v.clock.Now())...)
		errs = append(errs, v.bmcs.checkCapabilities(nil, host)...)
		errs = append(errs, v.bmcs.checkSource(nil, host)...)
		errs = append(errs, checkSettings(nil, host)...)
	}
	if err := refusal("IngotHost", host, append(errs, more...)); err != nil {
		return nil, err
	}
	return v.warnings(ctx, nil, host), nil
}

// ValidateUpdate admits a change. What did not change is not looked at again: a
// host that was let in can always be changed in other ways.
func (v *hostValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotHost) (admission.Warnings, error) {
	errs, err := v.changedLedger(ctx, before, after)
	if err != nil {
		return nil, err
	}
	// One that is kept by a finalizer of somebody's may not take another's address either,
	// and one that clusterctl is not to take away after all stands as any other.
	if identityChanged(before, after) || isLetGo(before) && !isLetGo(after) {
		more, err := v.identity(ctx, after)
		if err != nil {
			return nil, err
		}
		errs = append(errs, more...)
	}
	if isLetGo(after) && !isLetGo(before) {
		more, err := moveOnly(ctx, v.hosts, after)
		if err != nil {
			return nil, err
		}
		errs = append(errs, more...)
	}
	errs = append(errs, checkCommands(before.Annotations, after, v.clock.Now())...)
	if after.DeletionTimestamp.IsZero() {
		recorded, err := v.refuseRecorded(ctx, before, after)
		if err != nil {
			return nil, err
		}
		errs = append(errs, recorded...)
		errs = append(errs, v.bmcs.checkCapabilities(before, after)...)
		errs = append(errs, checkSettings(before, after)...)
	}
	// What tenants may reach holds in every state of a host: the state can be left again.
	refused, err := v.refuseMove(ctx, before, after)
	if err != nil {
		return nil, err
	}
	errs = append(errs, refused...)
	errs = append(errs, v.bmcs.checkSource(before, after)...)
	if err := refusal("IngotHost", after, errs); err != nil {
		return nil, err
	}
	if !after.DeletionTimestamp.IsZero() || isLetGo(after) {
		return nil, nil
	}
	return v.warnings(ctx, before, after), nil
}

// ValidateDelete keeps a host that a machine has: the machine would lose it without a fence.
// A host that is fenced may be deleted, and goes once it is cleaned; one that is not fenced,
// by force only, which ends its release. A foreground deletion, as Argo CD does, deletes what
// the host owns before the host, and waits until the claim has ended (I23).
func (v *hostValidator) ValidateDelete(ctx context.Context, host *v1beta2.IngotHost) (admission.Warnings, error) {
	if isLetGo(host) {
		errs, err := moveOnly(ctx, v.hosts, host)
		if err != nil {
			return nil, err
		}
		return nil, refusal("IngotHost", host, errs)
	}
	claim := host.Spec.Claim
	if claim == nil {
		return nil, nil
	}
	command, forced := inventory.PendingCommand(host, v1beta2.ForceReleaseAnnotation)
	forced = forced && command.Refused(v.clock.Now(), time.Time{}) == ""
	releasing := claim.State == v1beta2.ClaimReleasing
	foreground, err := inForeground(ctx)
	if err != nil {
		return nil, err
	}
	if releasing && (forced || !claim.FencedAt.IsZero() && !foreground) {
		return nil, nil
	}
	remedy := fmt.Sprintf("delete its Machine first; only when that is being released and the BMC does not confirm the power-off, the annotation %s of the host helps",
		inventory.CommandText(v1beta2.ForceReleaseAnnotation))
	switch {
	case releasing && !claim.FencedAt.IsZero():
		remedy = fmt.Sprintf("it is being cleaned: delete it again when the claim has ended, as Argo CD does by itself, or without --cascade=foreground; "+
			"to let it go uncleaned, then annotate the IngotHost with %s", inventory.CommandText(v1beta2.ForceReleaseAnnotation))
	case releasing:
		remedy = fmt.Sprintf("it is being released: wait until the BMC has confirmed that the server is off, or, to give it up without, annotate the IngotHost with %s",
			inventory.CommandText(v1beta2.ForceReleaseAnnotation))
	}
	return nil, refusal("IngotHost", host, field.ErrorList{field.Invalid(
		field.NewPath("spec", "claim", "machineRef", "name"), claim.MachineRef.Name,
		fmt.Sprintf("the host is claimed by this IngotMachine of cluster %s; %s", claim.ClusterName, remedy),
	)})
}

// inForeground reports whether the request deletes what the object owns first.
func inForeground(ctx context.Context) (bool, error) {
	req, err := admission.RequestFromContext(ctx)
	if err != nil || len(req.Options.Raw) == 0 {
		return false, err
	}
	options := &metav1.DeleteOptions{}
	if err := json.Unmarshal(req.Options.Raw, options); err != nil {
		return false, fmt.Errorf("options of the deletion: %w", err)
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

// identity refuses a malformed BMC address, and a boot MAC address or BMC system
// that another host has (I8). That clusterctl takes a host away is said by an annotation,
// which anybody may write: it makes the host no less than another a second of one address.
func (v *hostValidator) identity(ctx context.Context, host *v1beta2.IngotHost) (field.ErrorList, error) {
	var errs field.ErrorList
	others, err := v.others(ctx, host, index.HostByMAC, host.Spec.BootMACAddress)
	if err != nil {
		return nil, err
	}
	if len(others) > 0 {
		errs = append(errs, field.Invalid(field.NewPath("spec", "bootMACAddress"), host.Spec.BootMACAddress,
			"is already the address of "+takenBy(host, others)))
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
	neighbours, err := v.others(ctx, host, index.HostByBMC, address.Key())
	if err != nil {
		return nil, err
	}
	var same []v1beta2.IngotHost
	for _, other := range neighbours {
		if theirs, err := bmcaddress.Parse(other.Spec.BMC.Address); err == nil && address.SameSystem(theirs) {
			same = append(same, other)
		}
	}
	if len(same) > 0 {
		errs = append(errs, field.Invalid(path, host.Spec.BMC.Address, fmt.Sprintf(
			"leads to the same BMC as %s; correct it, delete that host first, or, where one BMC serves several systems, "+
				"give the path of the system in both", namesTo(host, same))))
	}
	return errs, nil
}

// others lists the hosts of all namespaces that have value in the index, but host.
func (v *hostValidator) others(ctx context.Context, host *v1beta2.IngotHost, field, value string) ([]v1beta2.IngotHost, error) {
	list := &v1beta2.IngotHostList{}
	if err := v.hosts.List(ctx, list, client.MatchingFields{field: value}); err != nil {
		return nil, fmt.Errorf("look for other hosts like %s/%s: %w", host.Namespace, host.Name, err)
	}
	var out []v1beta2.IngotHost
	for _, other := range list.Items {
		if (other.Namespace != host.Namespace || other.Name != host.Name) && (!isLetGo(&other) || other.Spec.Claim != nil) {
			out = append(out, other)
		}
	}
	return out, nil
}

// takenBy says which hosts have the address already, and what to do about it. One that
// reported itself is nobody's yet, so that it may be named to everybody: whoever registers
// the server has to find it.
func takenBy(host *v1beta2.IngotHost, others []v1beta2.IngotHost) string {
	enrolled := slices.DeleteFunc(slices.Clone(others), func(other v1beta2.IngotHost) bool {
		_, waits := other.Labels[v1beta2.EnrolledLabel]
		return !waits || other.Spec.Claim != nil || other.Spec.Record != nil
	})
	if len(enrolled) < len(others) {
		return namesTo(host, others) + "; correct it, or delete that host first"
	}
	return "IngotHost " + names(enrolled) + ", which reported itself from a network of mode Discover and waits for approval; approve that one, or delete it first"
}

// namesTo lists hosts to whoever writes a host: tenants of other namespaces stay unnamed.
func namesTo(host *v1beta2.IngotHost, others []v1beta2.IngotHost) string {
	keys := make([]types.NamespacedName, 0, len(others))
	for i := range others {
		keys = append(keys, client.ObjectKeyFromObject(&others[i]))
	}
	return inventory.ListHosts(host.Namespace, keys)
}

// names lists hosts to whoever may administer all of them, the same way each time.
func names(hosts []v1beta2.IngotHost) string {
	out := make([]string, 0, len(hosts))
	for _, host := range hosts {
		out = append(out, host.Namespace+"/"+host.Name)
	}
	slices.Sort(out)
	if len(out) > maxNamed {
		return strings.Join(out[:maxNamed], ", ") + fmt.Sprintf(" and %d more", len(out)-maxNamed)
	}
	return strings.Join(out, ", ")
}

func references(host *v1beta2.IngotHost) (out struct{ secret, ca, caKind string }) {
	if bmc := host.Spec.BMC; bmc != nil {
		out.secret = bmc.CredentialsRef.Name
		if bmc.CABundleRef != nil {
			out.ca, out.caKind = bmc.CABundleRef.Name, string(cmp.Or(bmc.CABundleRef.Kind, v1beta2.CABundleConfigMap))
		}
	}
	return out
}

// checkSettings refuses passwords among the BIOS settings: a host's spec is no place
// for them, and no BMC tells whether one is in force. before is nil for a new host;
// names that stood there are not looked at again. The value is not repeated.
func checkSettings(before, host *v1beta2.IngotHost) field.ErrorList {
	if host.Spec.BIOS == nil {
		return nil
	}
	stood := map[string]string{}
	if before != nil && before.Spec.BIOS != nil {
		stood = before.Spec.BIOS.Settings
	}
	var errs field.ErrorList
	for _, name := range slices.Sorted(maps.Keys(host.Spec.BIOS.Settings)) {
		if _, old := stood[name]; !old && strings.Contains(strings.ToLower(name), "password") {
			errs = append(errs, field.Invalid(field.NewPath("spec", "bios", "settings").Key(name), "***",
				"is a password by its name, which whoever may read hosts could read; remove it here and set it at the server's own console"))
		}
	}
	return errs
}

// +kubebuilder:webhook:verbs=create;update,path=/validate-infrastructure-cluster-x-k8s-io-v1beta2-ingothardware,mutating=false,failurePolicy=fail,matchPolicy=Equivalent,groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,versions=v1beta2,name=validation.ingothardware.infrastructure.cluster.x-k8s.io,sideEffects=None,admissionReviewVersions=v1

// hardwareValidator admits IngotHardware, which only Ingot writes: selection and
// addresses rest on it.
type hardwareValidator struct {
	guard
}

var _ admission.Validator[*v1beta2.IngotHardware] = &hardwareValidator{}

// ValidateCreate admits the manager, and those who may restore.
func (v *hardwareValidator) ValidateCreate(ctx context.Context, hardware *v1beta2.IngotHardware) (admission.Warnings, error) {
	ok, err := v.mayCreate(ctx, "ingothardwares", hardware)
	if err != nil || ok {
		return nil, err
	}
	return nil, refusal("IngotHardware", hardware, field.ErrorList{field.Invalid(
		field.NewPath("metadata", "name"), hardware.Name, fmt.Sprintf("only Ingot creates IngotHardware, when it inspects the IngotHost of "+
			"that name; create the IngotHost, or restore as somebody with the RBAC verb %s on ingothardwares", restoreVerb))})
}

// ValidateUpdate lets only the manager change the facts; labels, annotations,
// owners and finalizers are anybody's.
func (v *hardwareValidator) ValidateUpdate(ctx context.Context, before, after *v1beta2.IngotHardware) (admission.Warnings, error) {
	list, err := changes(field.NewPath("spec"), before.Spec, after.Spec)
	if err != nil || len(list) == 0 {
		return nil, err
	}
	manager, err := v.isManager(ctx)
	if err != nil || manager {
		return nil, err
	}
	return nil, refusal("IngotHardware", after, refuseChanges(list, fmt.Sprintf(
		"only Ingot's manager changes what was inspected; annotate the IngotHost with %s for a new inspection", inventory.CommandText(v1beta2.InspectAnnotation))))
}

// ValidateDelete admits: garbage collection deletes the hardware with its host.
func (v *hardwareValidator) ValidateDelete(context.Context, *v1beta2.IngotHardware) (admission.Warnings, error) {
	return nil, nil
}
