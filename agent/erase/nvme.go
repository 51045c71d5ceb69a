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
	// CDW10 and CDW11 are the command's double words; the following ones are 0.
	CDW10, CDW11 uint32
	// Data is filled by the controller; nil: none.
	Data []byte
	// Timeout is the kernel's limit for the command.
	Timeout time.Duration
}

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
	// Actions of a sanitize command. After a failure the controller accepts sanitizeExit only
	// if sanitizeMayFail was set, and otherwise nothing but another sanitize.
	sanitizeExit    = 1
	sanitizeBlock   = 2
	sanitizeKey     = 4
	sanitizeMayFail = 1 << 3
	formatUser      = 1
	formatKey       = 2
)

const adminTimeout = time.Minute

// nvme describes a controller and this namespace.
type nvme struct {
	namespace uint32
	// alone is set if the controller has no other namespace.
	alone bool
	// canFormat: the controller can format, formatByKey: by discarding its key, formatAll:
	// a format or erase of one namespace affects all.
	canFormat, formatByKey, formatAll bool
	sanitizeByBlock, sanitizeByKey    bool
	// layout are the bits of a format command that keep the namespace's layout.
	layout uint32
}

// nvmeMethods returns the controller's methods without those that affect other namespaces.
// The text states why methods are left out.
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
		return list, "NVMe sanitize: it would erase the controller's other namespaces as well"
	}
	return list, ""
}

// identifyNVMe queries the controller (section 5.17).
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
	if oacs&(1<<3) != 0 { // namespace management: namespaces may be attached elsewhere
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

func (e *eraser) identify(ctx context.Context, structure, namespace uint32) ([]byte, error) {
	data := make([]byte, 4096)
	err := e.Commands.NVMe(ctx, NVMeCommand{
		Opcode: nvmeIdentify, Namespace: namespace, CDW10: structure, Data: data, Timeout: adminTimeout,
	})
	if err != nil {
		return nil, fmt.Errorf("identify: %w", err)
	}
	return data, nil
}

// formatLayout returns the low bits of a format command's CDW10 for a namespace's FLBAS and
// DPS: LBA format, metadata position, protection (NVM Command Set Specification 1.0, section
// 4.1.5.1; Base Specification 2.0, figure 330).
func formatLayout(flbas, dps uint8) uint32 {
	layout := uint32(flbas & 0x0f)
	layout |= uint32(flbas>>4&1) << 4
	layout |= uint32(dps&7) << 5
	layout |= uint32(dps>>3&1) << 8
	return layout | uint32(flbas>>5&3)<<12
}

// format erases the namespace and keeps its layout. The command ends when the erase is done.
func (e *eraser) format(ctx context.Context, n nvme, how uint32) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	limit := deadline(0)
	defer e.beat(ctx, limit)()
	err := e.detached(ctx, limit, func() error {
		return e.Commands.NVMe(ctx, NVMeCommand{
			Opcode: nvmeFormat, Namespace: n.namespace, CDW10: n.layout | how<<9, Timeout: limit,
		})
	})
	if err != nil {
		return fmt.Errorf("format: %w", err)
	}
	return nil
}

// sanitizeStatus is the sanitize log page (Base Specification 2.0, section 5.16.1.25).
type sanitizeStatus struct {
	// state is 0: never, 1 and 4: done, 2: running, 3: failed.
	state   int
	percent int
	// estimate of the slowest action; 0: unknown.
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

// sanitize starts the command and waits for its end. A sanitize survives a reset: one that an
// earlier run started ended before the canaries were planted (see settleSanitize).
func (e *eraser) sanitize(ctx context.Context, action uint32) error {
	before, err := e.sanitizeLog(ctx)
	if err != nil {
		return err
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	e.sanitizing = true
	err = e.sendSanitize(ctx, action|sanitizeMayFail)
	if errors.Is(err, ErrNotSupported) { // firmware without support for the bit; see sanitizeAgain
		err = e.sendSanitize(ctx, action)
	}
	if err != nil { // not ErrNotSupported: the controller claims support, so this is a failure
		return errors.New("sanitize: " + err.Error())
	}
	return e.awaitSanitize(ctx, deadline(before.estimate))
}

func (e *eraser) sendSanitize(ctx context.Context, action uint32) error {
	return e.Commands.NVMe(ctx, NVMeCommand{Opcode: nvmeSanitize, CDW10: action, Timeout: adminTimeout})
}

// leaveFailure makes the controller accept other commands after a failed sanitize.
func (e *eraser) leaveFailure(ctx context.Context) error {
	if err := e.sendSanitize(ctx, sanitizeExit); err != nil {
		return fmt.Errorf("leave the sanitize failure mode: %w", err)
	}
	return nil
}

// ErrStuck reports that the controller stays in the state of a failed sanitize. Nothing on
// the disk is readable, and the controller accepts only another sanitize.
var ErrStuck = errors.New("an earlier sanitize failed, and the controller accepts only another sanitize")

// sanitizeAgain recovers a stuck controller. If a sanitize without sanitizeMayFail failed
// (started by other software, or by firmware that does not know the bit), the controller
// accepts only another such sanitize (Base Specification 2.0, section 8.21, "Restricted
// Failure"). The disk is erased again afterwards, with verification.
func (e *eraser) sanitizeAgain(ctx context.Context) error {
	n, err := e.identifyNVMe(ctx)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStuck, err)
	}
	action := uint32(sanitizeBlock)
	switch {
	case !n.alone:
		return fmt.Errorf("%w, which would erase the controller's other namespaces as well", ErrStuck)
	case !n.sanitizeByBlock && !n.sanitizeByKey:
		return fmt.Errorf("%w, which it does not support", ErrStuck)
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
	e.opts.Log("erase: %s is stuck after a failed sanitize; sanitizing again", e.Target.Disk.Name)
	if err := e.sendSanitize(ctx, action); err != nil {
		return fmt.Errorf("%w: %w", ErrStuck, err)
	}
	return e.awaitSanitize(ctx, deadline(status.estimate))
}

// settleSanitize waits for a sanitize of an earlier run or method that may still be running:
// until its end the disk accepts no writes. The content is then erased again, since only a
// complete run can be verified.
func (e *eraser) settleSanitize(ctx context.Context) error {
	var status sanitizeStatus
	var err error
	if e.sanitizing {
		if status, err = e.retryLog(ctx, Progress{}); err != nil {
			return err
		}
	} else if status, err = e.sanitizeLog(ctx); err != nil { // no log, so no sanitize is running
		return nil
	}
	switch status.state {
	case 3:
		if err := e.leaveFailure(ctx); err != nil {
			return fmt.Errorf("%w: %w", ErrStuck, err)
		}
	case 2:
		e.opts.Log("erase: %s is still executing an earlier sanitize; waiting", e.Target.Disk.Name)
		if err := e.awaitSanitize(ctx, deadline(status.estimate)); err != nil {
			return fmt.Errorf("wait for an earlier sanitize: %w", err)
		}
	}
	return nil
}

// errAtWork reports that the end of a sanitize was not seen. The controller may still be
// executing it, and accepts nothing else until then.
var errAtWork = errors.New("the controller may still be sanitizing, so it gets no other command")

func (e *eraser) awaitSanitize(ctx context.Context, limit time.Duration) error {
	start := e.opts.Now()
	var last Progress
	for {
		status, err := e.retryLog(ctx, last)
		if err != nil {
			return err
		}
		working := e.opts.Now().Sub(start)
		switch {
		case status.state == 1 || status.state == 4:
			return nil
		case status.state != 2:
			return errors.Join(fmt.Errorf("sanitize: the controller reports a failure (status %d)", status.state), e.leaveFailure(ctx))
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

// retryLog reads the log, with retries for logPatience: a controller that is reset drops the
// command and continues the sanitize. It reports progress meanwhile.
func (e *eraser) retryLog(ctx context.Context, last Progress) (sanitizeStatus, error) {
	start := e.opts.Now()
	for first := true; ; first = false {
		status, err := e.sanitizeLog(ctx)
		switch {
		case err == nil:
			return status, nil
		case ctx.Err() != nil:
			return status, context.Cause(ctx)
		case e.opts.Now().Sub(start) > logPatience: // hides ErrNotSupported: the disk supports the log
			return status, fmt.Errorf("%w: %s", errAtWork, err.Error())
		case first:
			e.opts.Log("erase: %s: %v; retrying for %s", e.Target.Disk.Name, err, logPatience)
		}
		if err := e.opts.Sleep(ctx, sanitizePoll); err != nil {
			return status, err
		}
		e.opts.OnProgress(Progress{Percent: last.Percent, Working: last.Working + e.opts.Now().Sub(start)})
	}
}

const (
	sanitizePoll = 5 * time.Second
	// logPatience exceeds the kernel's limit for the reset of a controller.
	logPatience = 10 * time.Minute
)
