// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package erase

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"
)

// NVMeCommand is an admin command (NVM Express Base Specification 2.0, section 5).
type NVMeCommand struct {
	Opcode    uint8
	Namespace uint32
	// CDW10 and CDW11 are the command's own double words; those after it are 0.
	CDW10, CDW11 uint32
	// Data is what the controller fills; nil for none.
	Data []byte
	// Timeout after which the kernel gives the command up.
	Timeout time.Duration
}

// Opcodes and what goes with them.
const (
	nvmeGetLogPage = 0x02
	nvmeIdentify   = 0x06
	nvmeFormat     = 0x80
	nvmeSanitize   = 0x84

	cnsNamespace  = 0x00
	cnsController = 0x01
	cnsActive     = 0x02
	cnsAllocated  = 0x10

	logSanitize = 0x81
	everywhere  = 0xffffffff
	// Actions of a sanitize command; with sanitizeMayFail the controller can be brought
	// back by sanitizeExit should it fail, and else takes nothing but another one.
	sanitizeExit    = 1
	sanitizeBlock   = 2
	sanitizeKey     = 4
	sanitizeMayFail = 1 << 3
	formatUser      = 1
	formatKey       = 2
)

const adminTimeout = time.Minute

// nvme is what a controller says of itself and of this namespace.
type nvme struct {
	namespace uint32
	// alone: the controller has no other namespace.
	alone bool
	// canFormat, and whether it can by throwing its key away; formatAll: formatting or
	// erasing one namespace does the same to all.
	canFormat, formatByKey, formatAll bool
	sanitizeByBlock, sanitizeByKey    bool
	// layout is what a format command must repeat to keep the namespace as it is.
	layout uint32
}

// nvmeMethods are those of the controller. Those that would reach other namespaces
// are left out, with the reason.
func (e *eraser) nvmeMethods(ctx context.Context) ([]method, string) {
	n, err := e.identifyNVMe(ctx)
	if err != nil {
		if errors.Is(err, ErrNotSupported) {
			return nil, ""
		}
		return nil, fmt.Sprintf("NVMe: %v", err)
	}
	var list []method
	add := func(has bool, name string, run func(context.Context) error) {
		if has {
			list = append(list, method{name: name, run: run})
		}
	}
	sanitize := func(action uint32) func(context.Context) error {
		return func(ctx context.Context) error { return e.sanitize(ctx, action) }
	}
	format := func(how uint32) func(context.Context) error {
		return func(ctx context.Context) error { return e.format(ctx, n, how) }
	}
	formats := n.canFormat && (n.alone || !n.formatAll)
	add(n.sanitizeByBlock && n.alone, NVMeSanitizeBlock, sanitize(sanitizeBlock))
	add(n.sanitizeByKey && n.alone, NVMeSanitizeCrypto, sanitize(sanitizeKey))
	add(formats && n.formatByKey, NVMeFormatCrypto, format(formatKey))
	add(formats, NVMeFormat, format(formatUser))
	if !n.alone && (n.sanitizeByBlock || n.sanitizeByKey) {
		return list, "NVMe sanitize: the controller has other namespaces, which it would erase as well"
	}
	return list, ""
}

// identifyNVMe asks the controller (section 5.17).
func (e *eraser) identifyNVMe(ctx context.Context) (nvme, error) {
	number, err := e.Commands.Namespace()
	if err != nil {
		return nvme{}, err
	}
	n := nvme{namespace: number}
	controller, err := e.identify(ctx, cnsController, 0)
	if err != nil {
		return nvme{}, err
	}
	oacs := binary.LittleEndian.Uint16(controller[256:])
	sanicap := binary.LittleEndian.Uint32(controller[328:])
	fna := controller[524]
	n.canFormat = oacs&(1<<1) != 0
	n.formatAll, n.formatByKey = fna&3 != 0, fna&(1<<2) != 0
	n.sanitizeByKey, n.sanitizeByBlock = sanicap&1 != 0, sanicap&2 != 0
	kind := uint32(cnsActive)
	if oacs&(1<<3) != 0 { // namespaces may be there that are attached elsewhere
		kind = cnsAllocated
	}
	list, err := e.identify(ctx, kind, 0)
	if err != nil {
		return nvme{}, err
	}
	n.alone = binary.LittleEndian.Uint32(list) == number && binary.LittleEndian.Uint32(list[4:]) == 0
	space, err := e.identify(ctx, cnsNamespace, number)
	if err != nil {
		return nvme{}, err
	}
	n.layout = formatLayout(space[26], space[29])
	return n, nil
}

func (e *eraser) identify(ctx context.Context, what, namespace uint32) ([]byte, error) {
	data := make([]byte, 4096)
	err := e.Commands.NVMe(ctx, NVMeCommand{
		Opcode: nvmeIdentify, Namespace: namespace, CDW10: what, Data: data, Timeout: adminTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("identify: %w", err)
	}
	return data, nil
}

// formatLayout makes the low bits of a format command's CDW10 from the namespace's
// FLBAS and DPS (NVM Command Set Specification 1.0, section 4.1.5.1; Base
// Specification 2.0, figure 330): LBA format, where metadata is, protection.
func formatLayout(flbas, dps uint8) uint32 {
	layout := uint32(flbas & 0x0f)
	layout |= uint32(flbas>>4&1) << 4
	layout |= uint32(dps&7) << 5
	layout |= uint32(dps>>3&1) << 8
	return layout | uint32(flbas>>5&3)<<12
}

// format erases the namespace and leaves its form as it is. The command ends when it
// is done.
func (e *eraser) format(ctx context.Context, n nvme, how uint32) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	limit := deadline(0)
	defer e.beat(ctx, limit)()
	err := e.aside(ctx, limit, func() error {
		return e.Commands.NVMe(ctx, NVMeCommand{
			Opcode: nvmeFormat, Namespace: n.namespace, CDW10: n.layout | how<<9, Timeout: limit,
		})
	})
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}

// sanitizeStatus of the log page (Base Specification 2.0, section 5.16.1.25).
type sanitizeStatus struct {
	// state: 1 and 4 are done, 2 at work, 3 failed, 0 never.
	state int
	// percent that is done.
	percent int
	// estimate of the longest kind, 0 where the controller makes none.
	estimate time.Duration
}

func parseSanitizeLog(b []byte) sanitizeStatus {
	le := binary.LittleEndian
	s := sanitizeStatus{state: int(le.Uint16(b[2:]) & 7), percent: int(le.Uint16(b)) * 100 / 65536}
	for _, at := range []int{8, 12, 16} {
		if seconds := le.Uint32(b[at:]); seconds != everywhere {
			s.estimate = max(s.estimate, time.Duration(seconds)*time.Second)
		}
	}
	return s
}

func (e *eraser) sanitizeLog(ctx context.Context) (sanitizeStatus, error) {
	data := make([]byte, 512)
	err := e.Commands.NVMe(ctx, NVMeCommand{
		Opcode: nvmeGetLogPage, Namespace: everywhere, Data: data, Timeout: adminTimeout,
		CDW10: logSanitize | uint32(len(data)/4-1)<<16,
	})
	if err != nil {
		return sanitizeStatus{}, fmt.Errorf("read the sanitize log: %w", err)
	}
	return parseSanitizeLog(data), nil
}

// sanitize starts the work and waits until the controller says that it is done. It
// goes on over a reset: one that an earlier run began was waited for before canaries
// were planted (see settleSanitize).
func (e *eraser) sanitize(ctx context.Context, action uint32) error {
	before, err := e.sanitizeLog(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.told = true
	err = e.sendSanitize(ctx, action|sanitizeMayFail)
	if errors.Is(err, ErrNotSupported) { // firmware that does not know the bit; see sanitizeAgain
		err = e.sendSanitize(ctx, action)
	}
	if err != nil { // the controller says that it can, so this is a failure and no lack
		return errors.New("sanitize: " + err.Error())
	}
	return e.awaitSanitize(ctx, deadline(before.estimate))
}

func (e *eraser) sendSanitize(ctx context.Context, action uint32) error {
	return e.Commands.NVMe(ctx, NVMeCommand{Opcode: nvmeSanitize, CDW10: action, Timeout: adminTimeout})
}

// leaveFailure lets the controller take other commands again after a sanitize that
// failed.
func (e *eraser) leaveFailure(ctx context.Context) error {
	if err := e.sendSanitize(ctx, sanitizeExit); err != nil {
		return fmt.Errorf("leave the failure mode: %w", err)
	}
	return nil
}

// ErrStuck: a sanitize has failed, and the controller does not leave that state. Nothing
// on the disk can be read any more, and a sanitize is all that it takes.
var ErrStuck = errors.New("a sanitize failed before this boot, and the controller takes nothing but another one")

// sanitizeAgain brings a controller back that is stuck. One whose sanitize was begun
// without sanitizeMayFail, by somebody else or because its firmware does not know the
// bit, takes another one without it and nothing else (Base Specification 2.0, section
// 8.21, "Restricted Failure"). What that erases is erased again, with proof.
func (e *eraser) sanitizeAgain(ctx context.Context) error {
	n, err := e.identifyNVMe(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStuck, err)
	}
	action := uint32(sanitizeBlock)
	switch {
	case !n.alone:
		return fmt.Errorf("%w, which would erase its other namespaces as well", ErrStuck)
	case !n.sanitizeByBlock && !n.sanitizeByKey:
		return fmt.Errorf("%w, which it says that it cannot do", ErrStuck)
	case !n.sanitizeByBlock:
		action = sanitizeKey
	}
	status, err := e.sanitizeLog(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.opts.Log("erase: %s is in failure since a sanitize of before, and is sanitized again", e.Target.Disk.Name)
	if err := e.sendSanitize(ctx, action); err != nil {
		return fmt.Errorf("%w: %w", ErrStuck, err)
	}
	return e.awaitSanitize(ctx, deadline(status.estimate))
}

// settleSanitize waits for one that was begun and is not known to have ended, by an
// earlier run or by a method before: until then the disk takes no writes. What it has
// erased is erased again, because only then it can be proven.
func (e *eraser) settleSanitize(ctx context.Context) error {
	var status sanitizeStatus
	var err error
	if e.told {
		if status, err = e.patientLog(ctx, Progress{}); err != nil {
			return err
		}
	} else if status, err = e.sanitizeLog(ctx); err != nil { // a controller without the log has no sanitize at work
		return nil
	}
	switch status.state {
	case 3:
		if err := e.leaveFailure(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrStuck, err)
		}
	case 2:
		e.opts.Log("erase: %s is being sanitized since before; waiting for it", e.Target.Disk.Name)
		if err := e.awaitSanitize(ctx, deadline(status.estimate)); err != nil {
			return fmt.Errorf("wait for what was begun before: %w", err)
		}
	}
	return nil
}

// errAtWork: a sanitize was begun, and its end was not seen. The controller may be at it,
// and takes nothing else until then.
var errAtWork = errors.New("the controller may be at a sanitize still, and is told nothing else")

func (e *eraser) awaitSanitize(ctx context.Context, limit time.Duration) error {
	began := e.opts.Now()
	var last Progress
	for {
		status, err := e.patientLog(ctx, last)
		if err != nil {
			return err
		}
		working := e.opts.Now().Sub(began)
		switch {
		case status.state == 1 || status.state == 4:
			return nil
		case status.state != 2:
			return errors.Join(fmt.Errorf("sanitize: the controller says that it failed (status %d)", status.state), e.leaveFailure(ctx))
		case working > limit:
			return fmt.Errorf("%w: sanitize: not done after %s", errAtWork, limit)
		}
		last = Progress{Percent: status.percent, Working: working}
		e.opts.OnProgress(last)
		if err := e.opts.Sleep(ctx, sanitizePoll); err != nil {
			return err
		}
	}
}

// patientLog reads the log again for some minutes when that fails: a controller that is
// reset loses the command and goes on with the sanitize. It tells of the disk meanwhile.
func (e *eraser) patientLog(ctx context.Context, last Progress) (sanitizeStatus, error) {
	began := e.opts.Now()
	for first := true; ; first = false {
		status, err := e.sanitizeLog(ctx)
		switch {
		case err == nil:
			return status, nil
		case ctx.Err() != nil:
			return status, context.Cause(ctx)
		case e.opts.Now().Sub(began) > logPatience: // and not as what the disk does not know: it did
			return status, fmt.Errorf("%w: %s", errAtWork, err.Error())
		case first:
			e.opts.Log("erase: %s: %v; trying again for %s", e.Target.Disk.Name, err, logPatience)
		}
		if err := e.opts.Sleep(ctx, sanitizePoll); err != nil {
			return status, err
		}
		e.opts.OnProgress(Progress{Percent: last.Percent, Working: last.Working + e.opts.Now().Sub(began)})
	}
}

const (
	sanitizePoll = 5 * time.Second
	// logPatience: the kernel gives a reset of a controller up after less.
	logPatience = 10 * time.Minute
)
