// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/controller/controllerutil"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory"
)

// The backoff of a BMC that fails (I13), with half of it as jitter.
const (
	backoffFirst  = 5 * time.Second
	backoffCap    = 5 * time.Minute
	backoffJitter = 0.5
)

func newBackoff() *flowcontrol.Backoff {
	return flowcontrol.NewBackOffWithJitter(backoffFirst, backoffCap, backoffJitter)
}

// observeBMC asks the BMC for the power state and, at first contact, for the NICs
// that it knows. It writes nothing (I8).
func (r *Reconciler) observeBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation) error {
	if host.Spec.BMC == nil {
		return nil
	}
	problem, message, version, err := r.targetOf(ctx, host, &seen.target)
	if err != nil {
		return err
	}
	seen.backoffID = string(host.UID) + "/" + strconv.FormatInt(host.Generation, 10) + "/" + version
	if problem != inventory.BMCOK {
		seen.BMC, seen.BMCMessage = problem, message
		seen.RetryAt = seen.Now.Add(backoffCap)
		return nil
	}
	if r.backoff.IsInBackOffSinceUpdate(seen.backoffID, seen.Now) {
		known := r.contacts.of(host.UID)
		seen.BMC, seen.BMCMessage = known.problem, known.message
		seen.RetryAt = known.failedAt.Add(r.backoff.Get(seen.backoffID))
		return nil
	}
	r.readBMC(ctx, host, seen)
	return nil
}

// readBMC makes the calls and keeps the outcome.
func (r *Reconciler) readBMC(ctx context.Context, host *infrav1.IngotHost, seen *observation) {
	known := r.contacts.of(host.UID)
	firstContact := known.address != seen.target.Address || !known.listed
	err := r.BMC.Do(ctx, seen.target, func(ctx context.Context, conn bmc.Conn) error {
		state, err := conn.PowerState(ctx)
		if err != nil {
			return err
		}
		seen.Power = infrav1.PowerState(state)
		if !firstContact {
			return nil
		}
		facts, err := conn.Inventory(ctx)
		if errors.Is(err, bmc.ErrNotSupported) {
			err = nil
		}
		known = contact{address: seen.target.Address, listed: err == nil, macs: facts.MACs}
		return err
	})
	seen.Now = r.Clock.Now()
	if err != nil {
		r.failed(seen, &known, err)
	} else {
		r.backoff.Reset(seen.backoffID)
		known.problem, known.message = inventory.BMCOK, ""
	}
	r.contacts.keep(host.UID, known)
	if known.macs != nil && seen.BMC == inventory.BMCOK {
		seen.KnownMACs = known.macs
		seen.BootMACMissing = len(known.macs) > 0 && !slices.Contains(known.macs, host.Spec.BootMACAddress)
	}
}

// failed turns an error of the BMC into what the decision needs.
func (r *Reconciler) failed(seen *observation, known *contact, err error) {
	r.backoff.Next(seen.backoffID, seen.Now)
	seen.BMC, seen.BMCMessage = problemOf(err), err.Error()
	seen.Power = infrav1.PowerStateUnknown
	seen.RetryAt = seen.Now.Add(r.backoff.Get(seen.backoffID))
	known.problem, known.message, known.failedAt = seen.BMC, seen.BMCMessage, seen.Now
}

// problemOf classes an error of the BMC, so that each gets its own condition and remedy.
func problemOf(err error) inventory.BMCProblem {
	for _, class := range []struct {
		is      error
		problem inventory.BMCProblem
	}{
		{bmc.ErrUnauthorized, inventory.BMCUnauthorized},
		{bmc.ErrCertificate, inventory.BMCCertificateInvalid},
		{bmc.ErrUnreachable, inventory.BMCUnreachable},
		{bmc.ErrTimeout, inventory.BMCTimeout},
		{bmc.ErrUnknownOutcome, inventory.BMCTimeout},
		{context.DeadlineExceeded, inventory.BMCTimeout},
		{bmc.ErrBusy, inventory.BMCBusy},
		{bmc.ErrNotSupported, inventory.BMCUnsupported},
		{bmc.ErrAddress, inventory.BMCUnsupported},
	} {
		if errors.Is(err, class.is) {
			return class.problem
		}
	}
	return inventory.BMCError
}

// targetOf reads credentials and CA, and says what is missing. version changes
// whenever either does.
func (r *Reconciler) targetOf(ctx context.Context, host *infrav1.IngotHost, target *bmc.Target) (_ inventory.BMCProblem, message, version string, _ error) {
	spec := host.Spec.BMC
	target.Address = spec.Address
	target.InsecureSkipVerify = ptr.Deref(spec.InsecureSkipVerify, false)

	secret := &corev1.Secret{}
	err := r.adopt(ctx, host, spec.CredentialsRef.Name, secret)
	switch {
	case apierrors.IsNotFound(err):
		return inventory.BMCCredentialsMissing, fmt.Sprintf("Secret %q does not exist in namespace %q", spec.CredentialsRef.Name, host.Namespace), "", nil
	case err != nil:
		return "", "", "", fmt.Errorf("credentials of the BMC: %w", err)
	}
	version = secret.ResourceVersion
	for _, key := range []string{infrav1.SecretKeyUsername, infrav1.SecretKeyPassword} {
		if len(secret.Data[key]) == 0 {
			return inventory.BMCCredentialsMissing, fmt.Sprintf("Secret %q has no key %q, or it is empty", secret.Name, key), version, nil
		}
	}
	target.Username = string(secret.Data[infrav1.SecretKeyUsername])
	target.Password = bmc.Password(secret.Data[infrav1.SecretKeyPassword])
	if spec.CABundleRef == nil {
		return inventory.BMCOK, "", version, nil
	}

	bundle := &corev1.ConfigMap{}
	err = r.adopt(ctx, host, spec.CABundleRef.Name, bundle)
	switch {
	case apierrors.IsNotFound(err):
		return inventory.BMCCAMissing, fmt.Sprintf("ConfigMap %q does not exist in namespace %q", spec.CABundleRef.Name, host.Namespace), version, nil
	case err != nil:
		return "", "", "", fmt.Errorf("CA bundle of the BMC: %w", err)
	}
	version += "/" + bundle.ResourceVersion
	if bundle.Data[infrav1.CAKey] == "" {
		return inventory.BMCCAMissing, fmt.Sprintf("ConfigMap %q has no key %q, or it is empty", bundle.Name, infrav1.CAKey), version, nil
	}
	target.CABundle = []byte(bundle.Data[infrav1.CAKey])
	return inventory.BMCOK, "", version, nil
}

// adopt reads a Secret or ConfigMap that the host names. The cache holds labelled
// ones only: one that a person has just made is read live, labelled and owned by
// the host, so that it is cached, watched and moved from then on (I18).
func (r *Reconciler) adopt(ctx context.Context, host *infrav1.IngotHost, name string, obj client.Object) error {
	key := client.ObjectKey{Namespace: host.Namespace, Name: name}
	err := r.Client.Get(ctx, key, obj)
	if err == nil || !apierrors.IsNotFound(err) {
		return err
	}
	if err := r.Live.Get(ctx, key, obj); err != nil {
		return err
	}
	base, ok := obj.DeepCopyObject().(client.Object)
	if !ok {
		return fmt.Errorf("%T is no object", obj)
	}
	metav1.SetMetaDataLabel(metaOf(obj), infrav1.BMCCredentialsLabel, "")
	if err := controllerutil.SetOwnerReference(host, obj, r.Client.Scheme()); err != nil {
		return err
	}
	return r.Client.Patch(ctx, obj, client.MergeFrom(base))
}

// metaOf returns the metadata of the two kinds that are adopted.
func metaOf(obj client.Object) *metav1.ObjectMeta {
	switch o := obj.(type) {
	case *corev1.Secret:
		return &o.ObjectMeta
	case *corev1.ConfigMap:
		return &o.ObjectMeta
	}
	return &metav1.ObjectMeta{}
}

// contact is what is remembered of a BMC between reconciles. It may be lost: it is
// then read again.
type contact struct {
	address string
	// listed: the BMC was asked for its NICs; macs are nil where it cannot tell.
	listed   bool
	macs     []string
	problem  inventory.BMCProblem
	message  string
	failedAt time.Time
}

// contacts keeps a contact per host. The zero value is empty and ready.
type contacts struct {
	mu sync.Mutex
	m  map[types.UID]contact
}

func (c *contacts) of(uid types.UID) contact {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.m[uid]
}

func (c *contacts) keep(uid types.UID, known contact) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.m == nil {
		c.m = map[types.UID]contact{}
	}
	c.m[uid] = known
}

func (c *contacts) forget(uid types.UID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.m, uid)
}
