// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc

import (
	"io"
	"net/http"
	"strconv"
	"time"
)

// PowerLie is how a BMC misreports the power state.
type PowerLie string

// The lies.
const (
	// Stale tells the state of the moment in which the fault was set.
	Stale PowerLie = "Stale"
	// Opposite tells On for off and Off for on.
	Opposite PowerLie = "Opposite"
)

// Faults are what is wrong with a BMC. They may be changed at any time; requests
// that have begun keep the faults they began with. The zero value is health.
type Faults struct {
	// Match limits the faults to some requests; nil: all of them.
	Match func(method, path string) bool
	// Latency is added to each answer.
	Latency time.Duration
	// Status is answered instead of doing anything, for example 401 or 503; with
	// RetryAfter in whole seconds where that is not 0.
	Status     int
	RetryAfter time.Duration
	// Hang never answers; the request has no effect.
	Hang bool
	// LoseReply does what was asked, and then drops the connection.
	LoseReply bool
	// Body is sent with status 200 instead of the answer, whatever it is.
	Body string
	// Flood answers a GET with a JSON text that does not end.
	Flood bool
	// PowerLie misreports PowerState.
	PowerLie PowerLie
	// ForgetBoot accepts a boot override and drops it.
	ForgetBoot bool
	// ForgetSessions refuses every session opened before the fault was set, as
	// after a restart of the BMC.
	ForgetSessions bool
}

// Quirks are how a maker reads the standard. They are fixed for the life of a BMC.
type Quirks struct {
	// ResetTypes allowed; empty: all that the emulator knows.
	ResetTypes []string
	// ResetTypesByActionInfo tells them in an ActionInfo resource only.
	ResetTypesByActionInfo bool
	// NoAllowableValues tells them nowhere.
	NoAllowableValues bool
	// NoBootMode has no BootSourceOverrideMode and refuses one (Supermicro X10).
	NoBootMode bool
	// FixedBootMode refuses a change of the mode (some iLO 5).
	FixedBootMode bool
	// ForgetBootMode falls back to Legacy when the override is changed without a
	// mode (Supermicro).
	ForgetBootMode bool
	// NeedEnabled refuses an override without BootSourceOverrideEnabled.
	NeedEnabled bool
	// NeedWholeBoot refuses an override without mode, enabled and target (AMI).
	NeedWholeBoot bool
	// NoTargetNone refuses BootSourceOverrideEnabled with target None (iLO).
	NoTargetNone bool
	// BootSettingsURI makes Boot read-only on the system and writable on the
	// resource that @Redfish.Settings names (iDRAC10).
	BootSettingsURI bool
	// BootFutureState answers OperationSupportedInFutureStateURI on the system
	// and takes the override at <system>/SD with an ETag (AMI, ASRock).
	BootFutureState bool
	// ETag makes If-Match compulsory for PATCH; GzipETag adds "-gzip" to the tag
	// that is sent, but not to the one that is wanted (iDRAC).
	ETag, GzipETag bool
	// NoEthernetInterfaces has no such collection; NetworkAdapters shows the
	// addresses below NetworkInterfaces instead.
	NoEthernetInterfaces bool
	NetworkAdapters      bool
	// BrokenInterface makes the first interface answer 500.
	BrokenInterface bool
	// Systems is how many systems the BMC lists; 0 means 1. Only the first is real.
	Systems int
	// SystemID is the last segment of the system's path; empty: "1".
	SystemID string
}

// before applies the faults that come before the request is understood. It
// returns false when the request has been dealt with.
func (f Faults) before(w http.ResponseWriter, r *http.Request, closed <-chan struct{}) bool {
	if f.Latency > 0 {
		t := time.NewTimer(f.Latency)
		defer t.Stop()
		select {
		case <-t.C:
		case <-r.Context().Done():
			return false
		case <-closed:
			return false
		}
	}
	switch {
	case f.Hang:
		select {
		case <-r.Context().Done():
		case <-closed:
		}
		panic(http.ErrAbortHandler)
	case f.Status != 0:
		if f.RetryAfter > 0 {
			w.Header().Set("Retry-After", strconv.Itoa(int(f.RetryAfter/time.Second)))
		}
		writeError(w, f.Status, "Base.1.16.GeneralError", "fault")
		return false
	case f.Body != "":
		w.Header().Set("Content-Type", "application/json")
		_, _ = io.WriteString(w, f.Body)
		return false
	case f.Flood && r.Method == http.MethodGet:
		flood(w, r)
		return false
	}
	return true
}

// flood writes until the client has had enough.
func flood(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if _, err := io.WriteString(w, `{"Name":"`); err != nil {
		return
	}
	chunk := make([]byte, 64<<10)
	for i := range chunk {
		chunk[i] = 'A'
	}
	for r.Context().Err() == nil {
		if _, err := w.Write(chunk); err != nil {
			return
		}
	}
}
