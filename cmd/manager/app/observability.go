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

// bootMetrics are those of the boot server.
type bootMetrics struct {
	dhcp  *dhcp.Metrics
	tftp  *tftp.Metrics
	http  *httpd.Metrics
	boots *pxebootlog.Metrics
}

// seen is how a boot server is seen.
type seen struct {
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

// newTracker makes what puts the boot server's events together to boots, and hands
// them to whoever writes: the manager of this process, or another by way of forwarder.
func newTracker(mgr manager.Manager, o *Options, id *identity, forwarder *passthrough.Forwarder, metrics *pxebootlog.Metrics) *pxebootlog.Tracker {
	deliver := bootRecorder(mgr).Record
	if forwarder != nil {
		deliver = bootlog.NewSender(bootlog.SenderConfig{Dial: forwarder.Dial, Pins: id.pins, Seal: id.keys.Seal, Now: time.Now}).Send
	}
	log := mgr.GetLogger().WithName("boot")
	return pxebootlog.New(pxebootlog.Options{
		Server: o.BootAddress, Waits: o.BootWaits, Metrics: metrics,
		Deliver: func(ctx context.Context, boots []pxebootlog.Boot) error {
			err := deliver(ctx, boots)
			if err != nil && ctx.Err() == nil {
				log.V(1).Info("Boots could not be shown in their hosts yet", "boots", len(boots), "reason", err.Error())
			}
			return err
		},
	})
}

// observers tells several.
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
			return // thousands a second when a data centre comes up
		}
		log.Info("Boot", "stage", e.Stage, "host", e.Host, "mac", e.MAC.String(), "client", e.Client.String(),
			"detail", e.Detail, "port", e.Port.String())
	})
}

// bmcCallSeconds is the histogram of BMC calls, by call and outcome.
const bmcCallSeconds = "ingot_bmc_call_duration_seconds"

// bmcMetrics makes an observer that measures every call to a BMC. A registry that
// has the metric already, of an earlier manager in this process, is used on.
func bmcMetrics(registry prometheus.Registerer) (bmc.Observer, error) {
	calls := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name:    bmcCallSeconds,
		Help:    "Duration of calls to BMCs in seconds, by call and outcome.",
		Buckets: []float64{.01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}, // a call ends after 30 s
	}, []string{"call", "outcome"})
	if err := collect.RegisterOrGet(registry, &calls); err != nil {
		return nil, fmt.Errorf("metric %s: %w", bmcCallSeconds, err)
	}
	return func(call bmc.Call) {
		calls.WithLabelValues(string(call.Name), string(call.Outcome)).Observe(call.Duration.Seconds())
	}, nil
}

// maxNote is how long the note of an Event may be, in bytes: the API server refuses the
// Event otherwise, and whoever records it does not hear of that.
const maxNote = 1024

// noting is a manager whose event recorders cut their notes.
type noting struct{ manager.Manager }

// GetEventRecorder returns a recorder for whoever asks.
func (m noting) GetEventRecorder(name string) events.EventRecorder {
	return notes{m.Manager.GetEventRecorder(name)}
}

// notes cuts what does not fit into an Event. Messages are bounded by characters, and what
// to do is said after them.
type notes struct{ events.EventRecorder }

// Eventf records an event.
func (n notes) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	n.EventRecorder.Eventf(regarding, related, kind, reason, action, "%s", inventory.TruncateBytes(fmt.Sprintf(note, args...), maxNote))
}
