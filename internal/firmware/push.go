// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package firmware

import (
	"context"
	"errors"
	"io"
	"net/url"
	"path"

	"k8s.io/apimachinery/pkg/types"
	ctrl "sigs.k8s.io/controller-runtime"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/bmc"
	"github.com/ingot-metal/ingot/inventory/lifecycle"
)

// startPush begins to push an image that was read. The ledger says so before the BMC
// hears of it: a manager that ends at any line after that leaves an update that nobody
// pushes, which the next one finds (inventory, rule cut-off) and does not push again
// before it knows what became of it (I17).
func (p *Preparer) startPush(ctx context.Context, v View, step lifecycle.StartUpdate, key imageKey) error {
	place := v.Target.Place()
	image, why := p.Works.take(key, place)
	if image == nil {
		p.await(v, why)
		return nil
	}
	if err := p.replaceLedger(ctx, v.Host, step.Ledger); err != nil {
		p.Works.giveBack(key, image, place, p)
		return err
	}
	component := ""
	if v.Memory.reading != nil {
		component = v.Memory.reading.IDs[step.Component.Component]
	}
	v.Forget()
	u := &push{place: place, size: image.size}
	update := bmc.Update{Size: image.size, Filename: fileName(step.Component.URL), Component: component}
	update.Image = &counted{io.NewSectionReader(image.file, 0, image.size), u}
	p.Works.begin(v.key(), u, func(works context.Context) {
		p.push(beside{Context: works, worker: ctx}, v.Host, v.Target, step, u, update)
		p.Works.giveBack(key, image, place, p)
		p.wake(v.key())
	})
	return nil
}

// beside is the context of a work that goes on beside the worker who began it: it ends with
// the works, and holds what the worker's holds: the logger, and by what the caller sees
// that the server is the one that was decided on.
type beside struct {
	context.Context
	worker context.Context // for its values only
}

// Value implements context.Context.
func (b beside) Value(key any) any {
	if value := b.Context.Value(key); value != nil {
		return value
	}
	return b.worker.Value(key)
}

// fileName is what the BMC is told: the last part of the URL's path.
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

// counted tells a push how much of its image was read.
type counted struct {
	io.Reader
	push *push
}

// Read implements io.Reader.
func (c *counted) Read(b []byte) (int, error) {
	n, err := c.Reader.Read(b)
	c.push.sent.Add(int64(n))
	return n, err
}

// begin lets a push go on beside the worker. It stays in the books until what became of
// it is noted.
func (w *Works) begin(host types.NamespacedName, u *push, work func(ctx context.Context)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pushes == nil {
		w.pushes, w.unsent = map[types.NamespacedName]*push{}, map[types.NamespacedName]unsentPush{}
	}
	ctx, cancel := context.WithCancel(w.base())
	u.cancel = cancel
	w.pushes[host] = u
	w.goes(func(context.Context) {
		defer cancel()
		work(ctx)
	})
}

// take has an image pushed once more, to the BMC at a place; nil: not now, and why.
func (w *Works) take(key imageKey, place string) (_ *image, why string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	i := w.images[key]
	switch {
	case i == nil || i.at.IsZero() || i.file == nil: // dropped since it was read, and perhaps being read for another
		return nil, "Ingot reads the image once more"
	case w.taken[place]: // it would wait in the time that it has for itself
		return nil, "Ingot pushes an image to another system of this BMC"
	case len(w.taken) >= pushesAtOnce:
		return nil, "Ingot pushes images to as many other BMCs as it does at once"
	case i.pushes > 0 && w.room+i.size > MaxDisk:
		return nil, "Ingot pushes images to other BMCs, and has no room for one more"
	}
	if i.pushes > 0 { // the first has its room since the image was read
		w.room += i.size
	}
	i.pushes++
	if w.taken == nil {
		w.taken = map[string]bool{}
	}
	w.taken[place] = true
	i.idle.Stop()
	return i, ""
}

// giveBack ends a take.
func (w *Works) giveBack(key imageKey, i *image, place string, p *Preparer) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.taken, place)
	if i.pushes--; i.pushes > 0 {
		w.room -= i.size
		return
	}
	w.rest(key, i, p.Timing.FirmwareResult)
}

// push is the one long call, and the note of what came of it. A push that was broken off,
// by Cancel or with the manager, notes nothing.
func (p *Preparer) push(ctx context.Context, host *infrav1.IngotHost, target bmc.Target, step lifecycle.StartUpdate, u *push, update bmc.Update) {
	key := types.NamespacedName{Namespace: host.Namespace, Name: host.Name}
	defer p.Works.end(key, u)
	log := ctrl.LoggerFrom(ctx)
	log.Info("Pushing an image of firmware", "component", step.Component.Component, "version", step.Component.Version, "bytes", u.size)
	var task bmc.Task
	err := p.BMC.DoWithin(bmc.Unhurried(ctx), target, p.Timing.FirmwarePush, func(ctx context.Context, conn bmc.Conn) (err error) {
		task, err = conn.UpdateFirmware(ctx, update)
		return err
	})
	if ctx.Err() != nil {
		log.Info("The push of an image was broken off", "component", step.Component.Component, "percent", u.percent())
		return
	}
	noted, verdict := step.Pushed(task.ID, p.Clock.Now()), verdictOf(err)
	if verdict == taken && u.sent.Load() == 0 {
		verdict = unsent
	}
	switch {
	case err == nil:
	case verdict == refused:
		noted = step.Refused(p.Stable(err.Error()))
	case verdict == unsent:
		noted = step.Unsent()
		why, least := p.restsFor(err)
		p.Works.note(ctx, key, unsentPush{why, least})
	default: // it may have taken it: the record stays, and is found to be nobody's
		log.Info("The push of an image ended without an answer", "component", step.Component.Component, "error", err.Error())
		return
	}
	save, cancel := context.WithTimeout(context.WithoutCancel(ctx), saveTime)
	defer cancel()
	for range 3 { // whoever writes the host's status meanwhile is in the way
		if err = p.noteUpdate(save, host, noted); err == nil || errors.Is(err, ErrStale) {
			break
		}
	}
	if err != nil {
		log.Error(err, "What became of the push of an image could not be noted")
	}
}

// note keeps what became of a push, unless that was cancelled meanwhile, as ctx tells.
func (w *Works) note(ctx context.Context, host types.NamespacedName, what unsentPush) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if ctx.Err() == nil {
		w.unsent[host] = what
	}
}

// wake ends what a host waits for, also where it is being looked at right now and would
// write what it knew before over that.
func (p *Preparer) wake(host types.NamespacedName) {
	p.Works.mu.Lock()
	if p.Works.woken == nil {
		p.Works.woken = map[types.NamespacedName]bool{}
	}
	p.Works.woken[host] = true
	p.Works.mu.Unlock()
	p.Wake(host)
}

// end strikes a push from the books.
func (w *Works) end(host types.NamespacedName, u *push) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.pushes[host] == u {
		delete(w.pushes, host)
	}
}

// hear takes that the host waits for nothing any more, and what became of a push that did
// not reach its BMC.
func (p *Preparer) hear(v View) {
	p.Works.mu.Lock()
	what, is := p.Works.unsent[v.key()]
	delete(p.Works.unsent, v.key())
	woken := p.Works.woken[v.key()]
	delete(p.Works.woken, v.key())
	p.Works.mu.Unlock()
	if woken {
		v.Memory.GoOn()
	}
	if is {
		p.putOffUpdate(v, what.why, what.least)
	}
}
