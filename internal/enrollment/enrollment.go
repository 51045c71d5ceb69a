// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package enrollment

import (
	"cmp"
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

// eventAction is the action of this package's events.
const eventAction = "EnrollHost"

const (
	// enrollTimeout is how long one enrollment may take before the next machine stops waiting for
	// it: the replica that started it is gone.
	enrollTimeout = 30 * time.Second
	// retrySoon is the retry interval while another replica enrolls a machine.
	retrySoon = 2 * time.Second
	// retryFull is the retry interval while the network enrolls no machines.
	retryFull = time.Minute
)

// ErrRejected means that the report enrolls no host, now or later.
var ErrRejected = errors.New("not enrolled")

// retryError means that the machine may report again.
type retryError struct {
	after  time.Duration
	reason string
}

func (e retryError) Error() string { return "not enrolled yet: " + e.reason }

// RetryAfter returns how long to wait before the report is repeated, or false if err is another
// error.
func RetryAfter(err error) (time.Duration, bool) {
	e, ok := errors.AsType[retryError](err)
	return e.after, ok
}

// Report is what an unknown machine reports about itself.
type Report struct {
	// Network is the IngotNetwork on which it booted, MAC the address of the NIC that booted.
	Network, MAC string
	// Source is the client's address; zero if unknown.
	Source netip.Addr
	// Key is the hash of the client's TLS key.
	Key   string
	Facts infrav1.IngotHardwareSpec
}

// Registrar enrolls hosts. All fields but RateLimiter and WatchFilterValue are required.
type Registrar struct {
	// Client reads from a cache with the indexes of package index.
	Client client.Client
	// Live reads from the API server.
	Live     client.Reader
	Recorder events.EventRecorder
	Clock    clock.PassiveClock
	// RateLimiter limits the cost of reports; nil: there is no limit.
	RateLimiter *RateLimiter
	// WatchFilterValue is the watch-filter label of this manager's hosts; empty: it reconciles all.
	WatchFilterValue string
}

// Enroll returns the host of the machine that reports itself, and creates it if there is none. It
// returns ErrRejected with the reason, an error that RetryAfter knows, or one of the API server. It
// reads from the cache where it can: the network's status is written with optimistic locking, so
// that an old cache costs another try.
func (r *Registrar) Enroll(ctx context.Context, report Report) (client.ObjectKey, error) {
	if err := r.RateLimiter.checkReport(report, r.Clock.Now()); err != nil {
		return client.ObjectKey{}, err
	}
	network := &infrav1.IngotNetwork{}
	if err := r.Client.Get(ctx, client.ObjectKey{Name: report.Network}, network); err != nil {
		if apierrors.IsNotFound(err) {
			return client.ObjectKey{}, fmt.Errorf("%w: network %s does not exist", ErrRejected, report.Network)
		}
		return client.ObjectKey{}, fmt.Errorf("read network %s: %w", report.Network, err)
	}
	discover := network.Spec.Discover
	switch {
	case network.Spec.Mode != infrav1.DHCPModeDiscover || discover == nil:
		return client.ObjectKey{}, fmt.Errorf("%w: network %s no longer has mode Discover", ErrRejected, report.Network)
	case report.Source.IsValid() && !within(discover.Range, report.Source):
		return client.ObjectKey{}, fmt.Errorf("%w: %s is not an address for unknown machines", ErrRejected, report.Source)
	case !slices.ContainsFunc(report.Facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == report.MAC }):
		return client.ObjectKey{}, fmt.Errorf("%w: the machine reports no NIC with the MAC address %s that booted", ErrRejected, report.MAC)
	}
	known, err := r.findHost(ctx, report)
	if err != nil || known != nil {
		return ptr.Deref(known, client.ObjectKey{}), err
	}
	if err := r.checkCapacity(ctx, network, report.Facts); err != nil {
		return client.ObjectKey{}, err
	}
	if err := r.RateLimiter.checkRead(network.Name, discover.PerMinute, r.Clock.Now()); err != nil {
		return client.ObjectKey{}, err
	}
	key, existing, err := r.chooseName(ctx, discover.Namespace, report.Facts)
	if err != nil {
		return key, err
	}
	if existing != nil {
		return key, r.createHardware(ctx, existing, report.Facts)
	}
	return key, r.createHost(ctx, network, key, report)
}

func within(r infrav1.AddressRange, address netip.Addr) bool {
	first, firstErr := netip.ParseAddr(r.Start)
	last, lastErr := netip.ParseAddr(r.End)
	return firstErr == nil && lastErr == nil && !address.Less(first) && !last.Less(address)
}

// findHost returns the host of a registered machine, by a boot MAC address, a NIC, or UUID and
// serial number; nil if there is none.
func (r *Registrar) findHost(ctx context.Context, report Report) (*client.ObjectKey, error) {
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
		if key, err := r.findByFacts(ctx, index.HardwareByNIC, nic.MAC, r.trustsFacts(ctx, report.Facts)); key != nil || err != nil {
			return key, err
		}
	}
	if system := index.System(&infrav1.IngotHardware{Spec: report.Facts}); system != "" {
		return r.findByFacts(ctx, index.HardwareBySystem, system, r.trustsFacts(ctx, report.Facts))
	}
	return nil, nil
}

// findByFacts returns the first host whose facts have the value and for which counts is true.
func (r *Registrar) findByFacts(ctx context.Context, field, value string, counts func(client.ObjectKey) (bool, error)) (*client.ObjectKey, error) {
	facts := &infrav1.IngotHardwareList{}
	if err := r.Client.List(ctx, facts, client.MatchingFields{field: value}); err != nil {
		return nil, fmt.Errorf("list hardware by %s: %w", field, err)
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

// trustsFacts returns a function that reports whether a host's facts identify a machine with the
// given facts. Those of a host that waits for approval count only if the machine has the NIC that
// booted: such a machine may have made up its other NICs, UUID and serial number, and must not hide
// the machines to which they belong.
func (r *Registrar) trustsFacts(ctx context.Context, facts infrav1.IngotHardwareSpec) func(client.ObjectKey) (bool, error) {
	return func(key client.ObjectKey) (bool, error) {
		host := &infrav1.IngotHost{}
		err := r.Client.Get(ctx, key, host)
		if apierrors.IsNotFound(err) {
			return true, nil // its host is not created yet, or is gone
		}
		if err != nil {
			return false, fmt.Errorf("read host %s: %w", key, err)
		}
		if _, enrolled := host.Labels[infrav1.EnrolledLabel]; !enrolled {
			return true, nil
		}
		return hasNIC(facts, host.Spec.BootMACAddress), nil
	}
}

func hasNIC(facts infrav1.IngotHardwareSpec, mac string) bool {
	return slices.ContainsFunc(facts.NICs, func(nic infrav1.HardwareNIC) bool { return nic.MAC == mac })
}

// chooseName returns the first possible name of the machine's host that is free or, with the host
// itself, that is the machine's already.
func (r *Registrar) chooseName(ctx context.Context, namespace string, facts infrav1.IngotHardwareSpec) (client.ObjectKey, *infrav1.IngotHost, error) {
	for _, name := range lifecycle.EnrolledNames(facts) {
		key := client.ObjectKey{Namespace: namespace, Name: name}
		host := &infrav1.IngotHost{}
		err := r.Live.Get(ctx, key, host)
		if apierrors.IsNotFound(err) {
			return key, nil, nil
		}
		if err != nil {
			return key, nil, fmt.Errorf("read host %s: %w", key, err)
		}
		boots := infrav1.IngotHardwareSpec{NICs: []infrav1.HardwareNIC{{MAC: host.Spec.BootMACAddress}}}
		if lifecycle.SharesNIC(boots, facts) {
			return key, host, nil
		}
	}
	return client.ObjectKey{}, nil, fmt.Errorf("%w: other machines have all names for the machine, or it reports nothing to name it by", ErrRejected)
}

// createHardware creates the facts of a host. An earlier enrollment may have ended before it did.
func (r *Registrar) createHardware(ctx context.Context, host *infrav1.IngotHost, facts infrav1.IngotHardwareSpec) error {
	if _, enrolled := host.Labels[infrav1.EnrolledLabel]; !enrolled || !host.DeletionTimestamp.IsZero() {
		return nil
	}
	object, err := hardware.New(host, r.Client.Scheme())
	if err != nil {
		return err
	}
	object.Spec = facts
	if err := r.Client.Create(ctx, object); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("create hardware of host %s: %w", client.ObjectKeyFromObject(host), err)
	}
	return nil
}

// createHost creates the host and its facts, when it is the machine's turn.
func (r *Registrar) createHost(ctx context.Context, network *infrav1.IngotNetwork, key client.ObjectKey, report Report) error {
	if err := r.takeTurn(ctx, network, key); err != nil {
		return err
	}
	host := &infrav1.IngotHost{ObjectMeta: metav1.ObjectMeta{
		Namespace: key.Namespace, Name: key.Name, Labels: map[string]string{infrav1.EnrolledLabel: ""},
	}}
	if r.WatchFilterValue != "" {
		host.Labels[clusterv1.WatchLabel] = r.WatchFilterValue // else no manager reconciles the host (M41)
	}
	host.Spec.BootMACAddress, host.Spec.NetworkRef.Name = report.MAC, network.Name
	host.Spec.BootMode = report.Facts.BootMode
	err := r.Client.Create(ctx, host)
	switch {
	case apierrors.IsAlreadyExists(err):
		return retryError{retrySoon, "another replica enrolls the machine"}
	case apierrors.IsNotFound(err), apierrors.IsInvalid(err), apierrors.IsForbidden(err):
		r.Recorder.Eventf(network, nil, corev1.EventTypeWarning, infrav1.ReasonEnrollmentRejected, eventAction,
			"Could not enroll the machine with MAC address %s as IngotHost %s: %s. Correct spec.discover.", report.MAC, key, err.Error())
		return fmt.Errorf("%w: %w", ErrRejected, err)
	case err != nil:
		return fmt.Errorf("create host %s: %w", key, err)
	}
	r.Recorder.Eventf(host, nil, corev1.EventTypeNormal, infrav1.ReasonEnrolled, eventAction,
		"Enrolled an unknown machine (%s %s, serial number %s) from network %s. Set spec.bmc and annotate it %s, or delete it.",
		orUnknown(report.Facts.System.Manufacturer), report.Facts.System.Product, orUnknown(report.Facts.System.SerialNumber), network.Name, inventory.CommandText(infrav1.ApproveAnnotation))
	return r.createHardware(ctx, host, report.Facts)
}

func orUnknown(text string) string { return cmp.Or(text, "unknown") }

// takeTurn reserves the enrollment for the machine before its host is created. The network's status
// names the last enrolled host and is written with optimistic locking, so that two replicas never
// use the same capacity.
func (r *Registrar) takeTurn(ctx context.Context, network *infrav1.IngotNetwork, key client.ObjectKey) error {
	now := r.Clock.Now()
	waiting, lastExists, err := r.countWaiting(ctx, network)
	if err != nil {
		return err
	}
	status := network.Status.Discovery
	interval := time.Minute / time.Duration(max(network.Spec.Discover.PerMinute, 1))
	switch {
	case waiting >= int(network.Spec.Discover.MaxHosts):
		return r.rejectFull(network, waiting)
	case status == nil, status.LastEnrollmentTime.Sub(now) > enrollTimeout: // a future time: a clock was or is wrong
	case !lastExists && status.LastHostName != key.Name && now.Before(status.LastEnrollmentTime.Add(enrollTimeout)):
		return retryError{retrySoon, "another machine is being enrolled"}
	case status.LastHostName != key.Name && now.Before(status.LastEnrollmentTime.Add(interval)):
		return retryError{max(status.LastEnrollmentTime.Add(interval).Sub(now), time.Second), "too many machines at once"}
	}
	base := network.DeepCopy()
	network.Status.Discovery = &infrav1.DiscoveryStatus{WaitingHosts: ptr.To(int32(waiting + 1)), LastHostName: key.Name, LastEnrollmentTime: metav1.NewMicroTime(now)}
	err = r.Client.Status().Patch(ctx, network, client.MergeFromWithOptions(base, client.MergeFromWithOptimisticLock{}))
	switch {
	case apierrors.IsConflict(err):
		return retryError{retrySoon, "another machine is being enrolled"}
	case err != nil:
		return fmt.Errorf("write status of network %s: %w", network.Name, err)
	}
	return nil
}

// checkCapacity checks in the cache whether the network accepts machines, since waiting machines
// report again and again. takeTurn counts hosts that the cache does not show yet. A machine whose own
// host waits for approval is accepted: its facts may be missing yet.
func (r *Registrar) checkCapacity(ctx context.Context, network *infrav1.IngotNetwork, facts infrav1.IngotHardwareSpec) error {
	hosts := &infrav1.IngotHostList{}
	if err := r.Client.List(ctx, hosts, client.MatchingFields{index.HostByEnrollment: network.Name}); err != nil {
		return fmt.Errorf("list hosts that wait for approval: %w", err)
	}
	isOwn := func(host infrav1.IngotHost) bool { return hasNIC(facts, host.Spec.BootMACAddress) }
	if len(hosts.Items) >= int(network.Spec.Discover.MaxHosts) && !slices.ContainsFunc(hosts.Items, isOwn) {
		return r.rejectFull(network, len(hosts.Items))
	}
	return nil
}

// rejectFull reports that the network is full, at most one event per reportFullAgain.
func (r *Registrar) rejectFull(network *infrav1.IngotNetwork, waiting int) error {
	if r.RateLimiter.shouldReportFull(network.Name, r.Clock.Now()) {
		r.Recorder.Eventf(network, nil, corev1.EventTypeWarning, infrav1.ReasonEnrollmentRejected, eventAction,
			"%d enrolled hosts wait for approval, the maximum of spec.discover.maxHosts. Ingot enrolls no more machines until you approve or delete hosts, or raise the maximum.", waiting)
	}
	return retryError{retryFull, "too many hosts wait for approval"}
}

// countWaiting counts the network's hosts that wait for approval, and reports whether the host
// enrolled last exists: it may have been deleted, or approved, since.
func (r *Registrar) countWaiting(ctx context.Context, network *infrav1.IngotNetwork) (count int, lastExists bool, _ error) {
	hosts := &infrav1.IngotHostList{}
	if err := r.Live.List(ctx, hosts, client.HasLabels{infrav1.EnrolledLabel}); err != nil {
		return 0, false, fmt.Errorf("list hosts that wait for approval: %w", err)
	}
	for i := range hosts.Items {
		if hosts.Items[i].Spec.NetworkRef.Name == network.Name {
			count++
		}
		lastExists = lastExists || network.Status.Discovery != nil && hosts.Items[i].Name == network.Status.Discovery.LastHostName
	}
	return count, lastExists, nil
}
