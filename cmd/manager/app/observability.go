// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/manager"

	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/internal/bootlog"
	"github.com/ingot-metal/ingot/inventory"
	"github.com/ingot-metal/ingot/pxe"
	pxebootlog "github.com/ingot-metal/ingot/pxe/bootlog"
	"github.com/ingot-metal/ingot/pxe/collect"
	"github.com/ingot-metal/ingot/pxe/dhcp"
	"github.com/ingot-metal/ingot/pxe/httpd"
	"github.com/ingot-metal/ingot/pxe/passthrough"
	"github.com/ingot-metal/ingot/pxe/tftp"
)

// bootMetrics are the metrics of the boot server.
type bootMetrics struct {
	dhcp  *dhcp.Metrics
	tftp  *tftp.Metrics
	http  *httpd.Metrics
	boots *pxebootlog.Metrics
}

// observability contains the metrics and the boot tracker of a boot server.
type observability struct {
	metrics bootMetrics
	tracker *pxebootlog.Tracker
}

func newBootMetrics(registry prometheus.Registerer) (m bootMetrics, _ error) {
	var errs [4]error
	m.dhcp, errs[0] = dhcp.NewMetrics(registry)
	m.tftp, errs[1] = tftp.NewMetrics(registry)
	m.http, errs[2] = httpd.NewMetrics(registry)
	m.boots, errs[3] = pxebootlog.NewMetrics(registry)
	return m, errors.Join(errs[:]...)
}

// newTracker returns a tracker that assembles the boot server's events into boots. It delivers them to
// the manager in this process, or through forwarder to another.
func newTracker(mgr manager.Manager, o *Options, id *identity, forwarder *passthrough.Forwarder, metrics *pxebootlog.Metrics) *pxebootlog.Tracker {
	deliver := bootRecorder(mgr).Record
	if forwarder != nil {
		deliver = bootlog.NewSender(bootlog.SenderConfig{Dial: forwarder.Dial, Pins: id.pins, Seal: id.keys.Seal, Now: time.Now}).Send
	}
	log := mgr.GetLogger().WithName("boot")
	return pxebootlog.New(pxebootlog.Options{
		Server: o.BootAddress, Timing: o.BootWaits, Metrics: metrics,
		Deliver: func(ctx context.Context, boots []pxebootlog.Boot) error {
			err := deliver(ctx, boots)
			if err != nil && ctx.Err() == nil {
				log.V(1).Info("Failed to record boots in their hosts; retrying", "boots", len(boots), "reason", err.Error())
			}
			return err
		},
	})
}

// observers combines several observers.
func observers(all ...pxe.Observer) pxe.Observer {
	return pxe.ObserverFunc(func(e pxe.BootEvent) {
		for _, o := range all {
			o.Observe(e)
		}
	})
}

// bootLog writes the steps of boots to the log.
func bootLog(log logr.Logger) pxe.Observer {
	log = log.V(1)
	return pxe.ObserverFunc(func(e pxe.BootEvent) {
		if !log.Enabled() {
			return // thousands per second when a datacenter powers on
		}
		client := "" // a DHCP client has no address before the offer
		if e.Client.IsValid() {
			client = e.Client.String()
		}
		log.Info("Boot", "stage", e.Stage, "host", e.Host, "mac", e.MAC.String(), "client", client,
			"detail", e.Detail, "port", e.Port.String())
	})
}

const bmcCallSeconds = "ingot_bmc_call_duration_seconds"

// bmcMetrics returns an observer that measures every BMC call. It reuses a metric that an earlier
// manager of this process registered.
func bmcMetrics(registry prometheus.Registerer) (bmc.Observer, error) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    bmcCallSeconds,
		Help:    "Duration of BMC calls in seconds, by call and outcome.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, // a call ends after 30 s
	}, []string{"call", "outcome"})
	if err := collect.RegisterOrGet(registry, &calls); err != nil {
		return nil, fmt.Errorf("register metric %s: %w", bmcCallSeconds, err)
	}
	return func(call bmc.Call) {
		calls.WithLabelValues(string(call.Name), string(call.Outcome)).Observe(call.Duration.Seconds())
	}, nil
}

// maxNote is the API server's limit on the note of an Event, in bytes. It rejects longer notes, and the
// recorder does not report that.
const maxNote = 1024

// truncatingManager is a manager whose event recorders truncate long notes.
type truncatingManager struct{ manager.Manager }

// GetEventRecorder implements manager.Manager.
func (m truncatingManager) GetEventRecorder(name string) events.EventRecorder {
	return truncatingRecorder{m.Manager.GetEventRecorder(name)}
}

type truncatingRecorder struct{ events.EventRecorder }

// Eventf implements events.EventRecorder.
func (r truncatingRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	r.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", inventory.TruncateBytes(fmt.Sprintf(note, args...), maxNote))
}
