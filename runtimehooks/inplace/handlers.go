// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package inplace

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"
	"sigs.k8s.io/cluster-api/exp/runtime/server"
	ctrl "sigs.k8s.io/controller-runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// RetryAfterSeconds is the interval at which Cluster API calls UpdateMachine again.
const RetryAfterSeconds = 5

// MountPath is the path of these hooks in their ExtensionConfig.
const MountPath = "/in-place"

// Error messages are stable for the same fault (R22).
var (
	errRequest   = errors.New("the request does not contain the objects of its kind")
	errInventory = errors.New("Ingot cannot read the inventory; Cluster API retries the call")
)

// Options configures the handlers.
type Options struct {
	// Cache reads Ingot's kinds. Live reads from the API server.
	Cache, Live client.Reader
}

// Handlers returns the handlers of the in-place update hooks.
func Handlers(o Options) []server.ExtensionHandler {
	return []server.ExtensionHandler{
		{Hook: runtimehooksv1.CanUpdateMachine, Name: "can-update-machine", HandlerFunc: o.canUpdateMachine},
		{Hook: runtimehooksv1.CanUpdateMachineSet, Name: "can-update-machine-set", HandlerFunc: o.canUpdateMachineSet},
		{Hook: runtimehooksv1.UpdateMachine, Name: "update-machine", HandlerFunc: o.updateMachine},
	}
}

func (o Options) canUpdateMachine(ctx context.Context, request *runtimehooksv1.CanUpdateMachineRequest, answer *runtimehooksv1.CanUpdateMachineResponse) {
	operations, err := o.change(ctx, request.Current.InfrastructureMachine, request.Desired.InfrastructureMachine, change{
		kind: "IngotMachine", spec: []string{"spec"},
		machines: func(context.Context) ([]client.ObjectKey, error) {
			return []client.ObjectKey{{Namespace: request.Current.Machine.Namespace, Name: request.Current.Machine.Spec.InfrastructureRef.Name}}, nil
		},
	})
	if err == nil {
		answer.InfrastructureMachinePatch, err = patchOf(operations)
	}
	setStatus(ctx, answer, err)
}

func (o Options) canUpdateMachineSet(ctx context.Context, request *runtimehooksv1.CanUpdateMachineSetRequest, answer *runtimehooksv1.CanUpdateMachineSetResponse) {
	operations, err := o.change(ctx, request.Current.InfrastructureMachineTemplate, request.Desired.InfrastructureMachineTemplate, change{
		kind: "IngotMachineTemplate", spec: []string{"spec", "template", "spec"},
		machines: func(ctx context.Context) ([]client.ObjectKey, error) {
			return o.machinesOf(ctx, &request.Current.MachineSet)
		},
	})
	if err == nil {
		answer.InfrastructureMachineTemplatePatch, err = patchOf(operations)
	}
	setStatus(ctx, answer, err)
}

// machinesOf lists the IngotMachines of a MachineSet.
func (o Options) machinesOf(ctx context.Context, set *clusterv1.MachineSet) ([]client.ObjectKey, error) {
	list := &clusterv1.MachineList{}
	if err := o.Live.List(ctx, list, client.InNamespace(set.Namespace), client.MatchingLabels{clusterv1.MachineSetNameLabel: set.Name}); err != nil {
		return nil, fmt.Errorf("list the Machines of MachineSet %s: %w", set.Name, err)
	}
	var out []client.ObjectKey
	for _, machine := range list.Items {
		out = append(out, client.ObjectKey{Namespace: machine.Namespace, Name: machine.Spec.InfrastructureRef.Name})
	}
	return out, nil
}

// change describes the objects of a request.
type change struct {
	// kind is the kind of the object, and spec the path of the spec in it.
	kind string
	spec []string
	// machines lists the IngotMachines that would change.
	machines func(context.Context) ([]client.ObjectKey, error)
}

func (o Options) change(ctx context.Context, current, desired runtime.RawExtension, c change) ([]Operation, error) {
	was, okWas, err := object(current, c)
	if err != nil || !okWas {
		return nil, err
	}
	is, okIs, err := object(desired, c)
	if err != nil || !okIs {
		return nil, err
	}
	var hosts []map[string]string
	if slices.Contains(differing(was, is), fieldSelector) {
		if hosts, err = o.hostLabels(ctx, c); err != nil {
			return nil, err
		}
	}
	return Changes("/"+strings.Join(c.spec, "/"), was, is, hosts), nil
}

// object returns the spec of an Ingot object. ok is false for another provider's object (I20).
func object(data runtime.RawExtension, c change) (spec map[string]any, ok bool, err error) {
	o := &unstructured.Unstructured{}
	if len(data.Raw) == 0 || json.Unmarshal(data.Raw, &o.Object) != nil {
		return nil, false, errRequest
	}
	if o.GetKind() != c.kind || o.GroupVersionKind().Group != infrav1.GroupVersion.Group {
		return nil, false, nil
	}
	spec, found, err := unstructured.NestedMap(o.Object, c.spec...)
	if err != nil || !found {
		return nil, false, errRequest
	}
	return spec, true, nil
}

// hostLabels returns the labels of the hosts of all machines, or nil if a machine has no host.
func (o Options) hostLabels(ctx context.Context, c change) ([]map[string]string, error) {
	keys, err := c.machines(ctx)
	if err != nil {
		return nil, err
	}
	var out []map[string]string
	for _, key := range keys {
		machine := &infrav1.IngotMachine{}
		if err := o.Cache.Get(ctx, key, machine); err != nil {
			return nil, client.IgnoreNotFound(err)
		}
		host, err := hostOf(ctx, o.Cache, machine)
		if err != nil || host == nil {
			return nil, err
		}
		out = append(out, host.Labels)
	}
	return out, nil
}

// hostOf returns the host of a machine, or nil.
func hostOf(ctx context.Context, reader client.Reader, machine *infrav1.IngotMachine) (*infrav1.IngotHost, error) {
	id, err := infrav1.ParseProviderID(machine.Spec.ProviderID)
	if err != nil || id.Namespace != machine.Namespace {
		return nil, nil
	}
	host := &infrav1.IngotHost{}
	err = reader.Get(ctx, client.ObjectKey{Namespace: id.Namespace, Name: id.Host}, host)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("get IngotHost %s: %w", id.Host, err)
	}
	return host, nil
}

func (o Options) updateMachine(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest, answer *runtimehooksv1.UpdateMachineResponse) {
	progress, err := o.progress(ctx, request)
	if err == nil && progress.Failed {
		err = errFailed{progress.Message}
	}
	if err == nil && progress.Wait {
		answer.RetryAfterSeconds, answer.Message = RetryAfterSeconds, progress.Message
	}
	setStatus(ctx, answer, err)
}

func (o Options) progress(ctx context.Context, request *runtimehooksv1.UpdateMachineRequest) (Progress, error) {
	data := request.Desired.InfrastructureMachine
	if _, ours, err := object(data, change{kind: "IngotMachine", spec: []string{"spec"}}); err != nil || !ours {
		return Progress{}, err
	}
	machine := &infrav1.IngotMachine{}
	if err := json.Unmarshal(data.Raw, machine); err != nil {
		return Progress{}, errRequest
	}
	host, err := hostOf(ctx, o.Live, machine)
	if err != nil {
		return Progress{}, err
	}
	current := &infrav1.IngotMachine{}
	err = o.Live.Get(ctx, client.ObjectKeyFromObject(machine), current)
	if apierrors.IsNotFound(err) {
		return Decide(machine, nil, host), nil
	}
	if err != nil {
		return Progress{}, fmt.Errorf("get IngotMachine %s: %w", machine.Name, err)
	}
	return Decide(machine, current, host), nil
}

// errFailed is an error whose text is shown in conditions.
type errFailed struct{ message string }

// Error implements error.
func (e errFailed) Error() string { return e.message }

func patchOf(operations []Operation) (runtimehooksv1.Patch, error) {
	if len(operations) == 0 {
		return runtimehooksv1.Patch{}, nil
	}
	data, err := json.Marshal(operations)
	return runtimehooksv1.Patch{PatchType: runtimehooksv1.JSONPatchType, Patch: data}, err
}

func setStatus(ctx context.Context, answer runtimehooksv1.ResponseObject, err error) {
	answer.SetStatus(runtimehooksv1.ResponseStatusSuccess)
	var failed errFailed
	switch {
	case err == nil:
		return
	case !errors.Is(err, errRequest) && !errors.As(err, &failed):
		ctrl.LoggerFrom(ctx).Error(err, "Failed to handle a hook call")
		err = errInventory
	}
	answer.SetStatus(runtimehooksv1.ResponseStatusFailure)
	answer.SetMessage(err.Error())
}
