// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"k8s.io/utils/clock"
	"k8s.io/utils/ptr"
	clusterv1 "sigs.k8s.io/cluster-api/api/core/v1beta2"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/internal/hardware"
	"github.com/ingot-metal/ingot/internal/index"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothosts,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingothardwares,verbs=get;list;watch;create
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks,verbs=list;watch
// +kubebuilder:rbac:groups=infrastructure.cluster.x-k8s.io,resources=ingotnetworks/status,verbs=patch

// action of the events of this package: what was being done.
const action = "EnrolHost"

const (
	// settling is how long an enrolment may be under way before the next one does not
	// wait for it any more: whoever wrote it down is gone.
	settling = 30 * time.Second
	// soon is when to ask again while another replica is at it.
	soon = 2 * time.Second
	// full is when to ask again while the network takes nobody in.
	full = time.Minute
)

// ErrRefused: the report enrols nobody, now or later.
var ErrRefused = errors.New("not enrolled")

// later asks for patience.
type later struct {
	after time.Duration
	why   string
}

func (l later) Error() string { return "not enrolled yet: " + l.why }

// Later says after what time the report may be made again; false: the error is another.
func Later(err error) (time.Duration, bool) {
	l, ok := errors.AsType[later](err)
	return l.after, ok
}

// Report is what a machine says of itself.
type Report struct {
	// Network is the IngotNetwork on which it booted, MAC the address by which it did.
	Network, MAC string
	// Source is the address that it speaks from; zero: not known.
	Source netip.Addr
	// Key names the key that it speaks with.
	Key   string
	Facts infrav1.IngotHardwareSpec
}

// Registrar enrols. All fields are needed, but for Pace and WatchFilterValue.
type Registrar struct {
	// Client reads from a cache with the indexes of package index.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// Pace bounds what reports cost; nil: nothing does.
	Pace *Pace
	// WatchFilterValue is the label by which this manager looks after hosts; empty: it looks
	// after all.
	WatchFilterValue string
}

// Enrol returns the host of the machine that reports itself, and makes it where there
// is none. Errors: ErrRefused with the reason, one that Later knows, or the API
// server's. What the cache can tell is not read live: the network's status is written by
// optimistic lock, and a cache that lags costs another try.
func (r *Registrar) Enrol(ctx context.Context, report Report) (client.ObjectKey, error) {
	if err := r.Pace.enter(report, r.Clock.Now()); err != nil {
		return client.ObjectKey{}, err
	}
	network := &infrav1.IngotNetwork{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: report.Network}, network); err != nil {
		if apierrors.IsNotFound(err) {
			return client.ObjectKey{}, fmt.Errorf("%w: network %s does not exist", ErrRefused, report.Network)
		}
		return client.ObjectKey{}, fmt.Errorf("network %s: %w", report.Network, err)
	}
	discover := network.Spec.Discover
	switch {
	case network.Spec.Mode != infrav1.DHCPModeDiscover || discover == nil:
		return client.ObjectKey{}, fmt.Errorf("%w: network %s is not of mode Discover any more", ErrRefused, report.Network)
	case report.Source.IsValid() && !within(discover.Range, report.Source):
		return client.ObjectKey{}, fmt.Errorf("%w: %s is not an address that is lent to unknown machines", ErrRefused, report.Source)
	case !slices.ContainsFunc(report.Facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == report.MAC }):
		return client.ObjectKey{}, fmt.Errorf("%w: the machine that reports itself has no NIC with the address %s that booted", ErrRefused, report.MAC)
	}
	known, err := r.known(ctx, report)
	if err != nil || known != nil {
		return ptr.Deref(known, client.ObjectKey{}), err
	}
	if err := r.room(ctx, network, report.Facts); err != nil {
		return client.ObjectKey{}, err
	}
	if err := r.Pace.look(network.Name, discover.PerMinute, r.Clock.Now()); err != nil {
		return client.ObjectKey{}, err
	}
	key, there, err := r.choose(ctx, discover.Namespace, report.Facts)
	if err != nil {
		return key, err
	}
	if there != nil {
		return key, r.complete(ctx, there, report.Facts)
	}
	return key, r.enrol(ctx, network, key, report)
}

func within(r infrav1.AddressRange, address netip.Addr) bool {
	first, firstErr := netip.ParseAddr(r.Start)
	last, lastErr := netip.ParseAddr(r.End)
	return firstErr == nil && lastErr == nil && !address.Less(first) && !last.Less(address)
}

// known finds the host of a machine that is registered already: by a boot MAC address,
// a NIC, or UUID and serial number.
func (r *Registrar) known(ctx context.Context, report Report) (*client.ObjectKey, error) {
	for _, nic := range report.Facts.NICs {
		hosts := &infrav1.IngotHostList{}
		if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByMAC: nic.MAC}); err != nil {
			return nil, fmt.Errorf("hosts with MAC address %s: %w", nic.MAC, err)
		}
		for i := range hosts.Items {
			if _, enrolled := hosts.Items[i].Labels[infrav1.EnrolledLabel]; !enrolled {
				return ptr.To(client.ObjectKeyFromObject(&hosts.Items[i])), nil
			}
		}
		if key, err := r.ofFacts(ctx, index.HardwareByNIC, nic.MAC, r.holds(ctx, report.Facts)); key != nil || err != nil {
			return key, err
		}
	}
	if system := index.System(&infrav1.IngotHardware{Spec: report.Facts}); system != "" {
		return r.ofFacts(ctx, index.HardwareBySystem, system, r.holds(ctx, report.Facts))
	}
	return nil, nil
}

// ofFacts finds the first host whose facts have the value, and that counts.
func (r *Registrar) ofFacts(ctx context.Context, field, value string, counts func(client.ObjectKey) (bool, error)) (*client.ObjectKey, error) {
	facts := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, facts, client.MatchingFields{field: value}); err != nil {
		return nil, fmt.Errorf("hardware by %s: %w", field, err)
	}
	for i := range facts.Items {
		key := client.ObjectKeyFromObject(&facts.Items[i])
		if ok, err := counts(key); err != nil {
			return nil, err
		} else if ok {
			return &key, nil
		}
	}
	return nil, nil
}

// holds says whether a host has a right to what its facts say. One that waits for approval
// has it by the NIC alone by which it booted: other NICs, UUID and serial number it only
// told, and what is made up must not keep their machines from being found.
func (r *Registrar) holds(ctx context.Context, facts infrav1.IngotHardwareSpec) func(client.ObjectKey) (bool, error) {
	return func(key client.ObjectKey) (bool, error) {
		host := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, host)
		if apierrors.IsNotFound(err) {
			return true, nil // its host is about to be made, or gone
		}
		if err != nil {
			return false, fmt.Errorf("host %s: %w", key, err)
		}
		if _, enrolled := host.Labels[infrav1.EnrolledLabel]; !enrolled {
			return true, nil
		}
		return slices.ContainsFunc(facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == host.Spec.BootMACAddress }), nil
	}
}

// choose finds the name of the machine's host: the first that is free, or is the
// machine's already (there).
func (r *Registrar) choose(ctx context.Context, namespace string, facts infrav1.IngotHardwareSpec) (client.ObjectKey, *infrav1.IngotHost, error) {
	for _, name := range lifecycle.EnrolledNames(facts) {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		host := &infrav1.IngotHost{}
		err := r.Live.Get(ctx, key, host)
		if apierrors.IsNotFound(err) {
			return key, nil, nil
		}
		if err != nil {
			return key, nil, fmt.Errorf("host %s: %w", key, err)
		}
		boots := infrav1.IngotHardwareSpec{NICs: []infrav1.HardwareNIC{{MAC: host.Spec.BootMACAddress}}}
		if lifecycle.SharesNIC(boots, facts) {
			return key, host, nil
		}
	}
	return client.ObjectKey{}, nil, fmt.Errorf("%w: every name for the machine is another's, or it says nothing by which to name it", ErrRefused)
}

// complete makes the facts of a host whose enrolment was cut off between the two.
func (r *Registrar) complete(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec) error {
	if _, enrolled := host.Labels[infrav1.EnrolledLabel]; !enrolled || !host.DeletionTimestamp.IsZero() {
		return nil
	}
	object, err := hardware.New(host, r.Client.Scheme())
	if err != nil {
		return err
	}
	object.Spec = facts
	if err := r.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("hardware of %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return nil
}

// enrol makes the host, when it is its turn.
func (r *Registrar) enrol(ctx context.Context, network *infrav1.IngotNetwork, key client.ObjectKey, report Report) error {
	if err := r.turn(ctx, network, key); err != nil {
		return err
	}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{infrav1.EnrolledLabel: ""},
	}}
	if r.WatchFilterValue != "" {
		host.Labels[clusterv1.WatchLabel] = r.WatchFilterValue // or nobody looks after it (M41)
	}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = report.MAC, network.Name
	host.Spec.BootMode = report.Facts.Firmware
	err := r.Client.Create(ctx, host)
	switch {
	case apierrors.IsAlreadyExists(err):
		return later{soon, "another replica enrols the machine"}
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		r.Recorder.Eventf(network, nil, corev1.EventTypeWarning, infrav1.ReasonEnrolmentRefused, action,
			"The machine with MAC address %s could not be enrolled as IngotHost %s: %s. Correct spec.discover", report.MAC, key, err.Error())
		return fmt.Errorf("%w: %w", ErrRefused, err)
	case err != nil:
		return fmt.Errorf("make host %s: %w", key, err)
	}
	r.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonEnrolled, action,
		"An unknown machine (%s %s, serial number %s) booted from network %s: give it spec.bmc and the annotation %s, or delete it",
		orUnknown(report.Facts.System.Manufacturer), report.Facts.System.Product, orUnknown(report.Facts.System.SerialNumber), network.Name, inventory.CommandText(infrav1.ApproveAnnotation))
	return r.complete(ctx, host, report.Facts)
}

func orUnknown(text string) string {
	if text == "" {
		return "unknown"
	}
	return text
}

// turn takes the one place that there is at a time, before the host is made: the
// network's status says who was let in last, and changes by optimistic lock. So no
// two replicas count the same room.
func (r *Registrar) turn(ctx context.Context, network *infrav1.IngotNetwork, key client.ObjectKey) error {
	now := r.Clock.Now()
	waiting, last, err := r.waiting(ctx, network)
	if err != nil {
		return err
	}
	status := network.Status.Discovery
	pace := time.Minute / time.Duration(max(network.Spec.Discover.PerMinute, 1))
	switch {
	case waiting >= int(network.Spec.Discover.MaxHosts):
		return r.isFull(network, waiting)
	case status == nil, status.LastTime.Sub(now) > settling: // by a clock that was ahead then, or that is behind now
	case !last && status.LastHost != key.Name && now.Before(status.LastTime.Add(settling)):
		return later{soon, "another machine is being enrolled"}
	case status.LastHost != key.Name && now.Before(status.LastTime.Add(pace)):
		return later{max(status.LastTime.Add(pace).Sub(now), time.Second), "too many machines at once"}
	}
	base := network.DeepCopy()
	network.Status.Discovery = &infrav1.DiscoveryStatus{Waiting: ptr.To(int32(waiting + 1)), LastHost: key.Name, LastTime: metav1.NewMicroTime(now)}
	err = r.Client.Status().Patch(ctx, network, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return later{soon, "another machine is being enrolled"}
	case err != nil:
		return fmt.Errorf("status of network %s: %w", network.Name, err)
	}
	return nil
}

// room looks in the cache whether the network takes anybody in: while it does not, its
// machines come again and again. What the cache does not show yet, turn counts. A machine
// whose own host is among those that wait needs no room: its facts may be missing yet.
func (r *Registrar) room(ctx context.Context, network *infrav1.IngotNetwork, facts infrav1.IngotHardwareSpec) error {
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByEnrolment: network.Name}); err != nil {
		return fmt.Errorf("hosts that wait for approval: %w", err)
	}
	own := func(host infrav1.IngotHost) bool {
		return slices.ContainsFunc(facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == host.Spec.BootMACAddress })
	}
	if len(hosts.Items) >= int(network.Spec.Discover.MaxHosts) && !slices.ContainsFunc(hosts.Items, own) {
		return r.isFull(network, len(hosts.Items))
	}
	return nil
}

// isFull says so, to people once in a while.
func (r *Registrar) isFull(network *infrav1.IngotNetwork, waiting int) error {
	if r.Pace.tell(network.Name, r.Clock.Now()) {
		r.Recorder.Eventf(network, nil, corev1.EventTypeWarning, infrav1.ReasonEnrolmentRefused, action,
			"%d enrolled hosts wait for approval, as many as spec.discover.maxHosts allows: no other machine is enrolled. Approve or delete some, or raise it", waiting)
	}
	return later{full, "too many hosts wait for approval"}
}

// waiting counts the hosts of the network that wait for approval, and says whether the
// last one enrolled is there: it may have been deleted, or approved, since.
func (r *Registrar) waiting(ctx context.Context, network *infrav1.IngotNetwork) (count int, last bool, _ error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.Live.List(ctx, hosts, client.HasLabels{infrav1.EnrolledLabel}); err != nil {
		return 0, false, fmt.Errorf("hosts that wait for approval: %w", err)
	}
	for i := range hosts.Items {
		if hosts.Items[i].Spec.NetworkRef.Name == network.Name {
			count++
		}
		last = last || network.Status.Discovery != nil && hosts.Items[i].Name == network.Status.Discovery.LastHost
	}
	return count, last, nil
}
