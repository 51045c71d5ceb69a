// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path"
	"time"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// startPush starts to push an image. It writes the host's record before the BMC is called. If the
// manager ends later, the next one finds an update that no process pushes (inventory, rule cut-off), and
// does not push again before it knows the outcome (I17).
func (p *Preparer) startPush(ctx context.Context, v View, step lifecycle.StartUpdate, key imageKey) error {
	target := v.Target.Origin()
	image, reason := p.Jobs.acquireImage(key, target)
	if image == nil {
		p.awaitJob(v, reason)
		return nil
	}
	if err := p.saveLedger(ctx, v.Host, step.Ledger); err != nil {
		p.Jobs.releaseImage(key, image, target, p.Timing.FirmwareResult)
		return err
	}
	component := ""
	if v.Memory.reading != nil {
		component = v.Memory.reading.IDs[step.Component.Component]
	}
	v.Forget()
	u := &push{target: target, size: image.size}
	update := bmc.Update{Size: image.size, Filename: fileName(step.Component.URL), Component: component}
	update.Image = &countingReader{io.NewSectionReader(image.file, 0, image.size), u}
	p.Jobs.startPush(v.key(), u, func(job context.Context) {
		p.push(jobContext{Context: job, values: ctx}, v.Host, v.Target, step, u, update)
		p.Jobs.releaseImage(key, image, target, p.Timing.FirmwareResult)
		p.wake(v.key())
	})
	return nil
}

// jobContext ends with a job, and holds the values of the reconcile that started the job: the logger,
// and the caller's check that the server is the one that was decided on.
type jobContext struct {
	context.Context
	values context.Context
}

func (c jobContext) Value(key any) any {
	if value := c.Context.Value(key); value != nil {
		return value
	}
	return c.values.Value(key)
}

// fileName returns the name that the BMC gets: the last part of the URL's path.
func fileName(text string) string {
	address, err := url.Parse(text)
	if err != nil {
		return ""
	}
	if name := path.Base(address.Path); name != "." && name != "/" {
		return name
	}
	return ""
}

// countingReader counts what a push has read of its image.
type countingReader struct {
	io.Reader
	push *push
}

func (c *countingReader) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.push.sent.Add(int64(n))
	return n, err
}

// startPush runs a push in the background. The push is registered until its outcome is recorded.
func (w *Jobs) startPush(host types.NamespacedName, u *push, job func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pushes == nil {
		w.pushes, w.unsent = map[types.NamespacedName]*push{}, map[types.NamespacedName]unsentPush{}
	}
	ctx, cancel := context.WithCancel(w.jobContext())
	u.cancel = cancel
	w.pushes[host] = u
	w.start(func(context.Context) {
		defer cancel()
		job(ctx)
	})
}

// acquireImage reserves an image and its target for a push. It returns nil and the reason if the push
// must wait.
func (w *Jobs) acquireImage(key imageKey, target string) (_ *image, reason string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.images[key]
	switch {
	case i == nil || i.at.IsZero() || i.file == nil: // dropped since it was read; maybe another host has it read again
		return nil, "Ingot reads the image again"
	case w.pushTargets[target]: // the wait would count as time of the push
		return nil, "Ingot pushes an image to another system of this BMC"
	case len(w.pushTargets) >= pushesAtOnce:
		return nil, "Ingot already pushes images to the maximum number of BMCs"
	case i.pushes > 0 && w.diskUsed+i.size > MaxDisk:
		return nil, "images for other BMCs use the disk space"
	}
	if i.pushes > 0 { // the first push uses the reservation of the image
		w.diskUsed += i.size
	}
	i.pushes++
	if w.pushTargets == nil {
		w.pushTargets = map[string]bool{}
	}
	w.pushTargets[target] = true
	i.idle.Stop()
	return i, ""
}

// releaseImage ends an acquireImage. It keeps the image for some time.
func (w *Jobs) releaseImage(key imageKey, i *image, target string, keep time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.pushTargets, target)
	if i.pushes--; i.pushes > 0 {
		w.diskUsed -= i.size
		return
	}
	w.scheduleDrop(key, i, keep)
}

// push pushes the image in one long call, and records the outcome. A push that Cancel or the end of
// the manager interrupted records nothing.
func (p *Preparer) push(ctx context.Context, host *infrav1.IngotHost, target bmc.Target, step lifecycle.StartUpdate, u *push, update bmc.Update) {
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
	defer p.Jobs.removePush(key, u)
	log := ctrl.LoggerFrom(ctx)
	log.Info("Pushing firmware image", "component", step.Component.Component, "version", step.Component.Version, "bytes", u.size)
	var task bmc.Task
	err := p.BMC.DoWithin(bmc.WithoutWorker(ctx), target, p.Timing.FirmwarePush, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.UpdateFirmware(ctx, update)
		return err
	})
	if ctx.Err() != nil {
		log.Info("Firmware push was canceled", "component", step.Component.Component, "percent", u.percent())
		return
	}
	ledger, result := step.Pushed(task.ID, p.Clock.Now()), outcomeOf(err)
	if result == accepted && u.sent.Load() == 0 {
		result = unsent
	}
	switch {
	case err == nil:
	case result == rejected:
		ledger = step.Refused(p.Stable(err.Error()))
	case result == unsent:
		ledger = step.Unsent()
		reason, minDelay := p.unsentReason(err)
		p.Jobs.recordUnsent(ctx, key, unsentPush{reason, minDelay})
	default: // the BMC may have the image: the record stays, and the next reconcile finds it
		log.Info("Firmware push ended without an answer", "component", step.Component.Component, "error", err.Error())
		return
	}
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	for range 3 { // other writers of the host's status cause conflicts
		if err = p.saveUpdate(save, host, ledger); err == nil || errors.Is(err, ErrStale) {
			break
		}
	}
	if err != nil {
		log.Error(err, "Could not record the result of a firmware push")
	}
}

// recordUnsent remembers a push that did not reach its BMC, unless ctx was canceled.
func (w *Jobs) recordUnsent(ctx context.Context, host types.NamespacedName, p unsentPush) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.unsent[host] = p
	}
}

// wake ends a host's wait. A running reconcile, which may overwrite the host's Memory, finds the host
// in woken the next time.
func (p *Preparer) wake(host types.NamespacedName) {
	p.Jobs.mu.Lock()
	if p.Jobs.woken == nil {
		p.Jobs.woken = map[types.NamespacedName]bool{}
	}
	p.Jobs.woken[host] = true
	p.Jobs.mu.Unlock()
	p.Wake(host)
}

// removePush unregisters a push.
func (w *Jobs) removePush(host types.NamespacedName, u *push) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pushes[host] == u {
		delete(w.pushes, host)
	}
}

// applyJobResults ends the wait of a woken host, and defers the update if a push did not reach its
// BMC.
func (p *Preparer) applyJobResults(v View) {
	p.Jobs.mu.Lock()
	failed, found := p.Jobs.unsent[v.key()]
	delete(p.Jobs.unsent, v.key())
	woken := p.Jobs.woken[v.key()]
	delete(p.Jobs.woken, v.key())
	p.Jobs.mu.Unlock()
	if woken {
		v.Memory.EndWait()
	}
	if found {
		p.deferUpdate(v, failed.reason, failed.minDelay)
	}
}
