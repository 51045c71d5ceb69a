// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendorbmc

import (
	"context"
	"crypto/md5" // RFC 2617 Digest, which AMT uses
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"

	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

// The namespaces and classes.
const (
	nsSOAP     = "http://www.w3.org/2003/05/soap-envelope"
	nsAddress  = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
	nsEnum     = "http://schemas.xmlsoap.org/ws/2004/09/enumeration"
	nsTransfer = "http://schemas.xmlsoap.org/ws/2004/09/transfer"
	nsWSMAN    = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"
	nsCIM      = "http://schemas.dmtf.org/wbem/wscim/1/cim-schema/2/"
	nsAMT      = "http://intel.com/wbem/wscim/1/amt-schema/1/"

	classPower      = nsCIM + "CIM_AssociatedPowerManagementService"
	classService    = nsCIM + "CIM_PowerManagementService"
	classSystem     = nsCIM + "CIM_ComputerSystem"
	classBootConfig = nsCIM + "CIM_BootConfigSetting"
	classBootSource = nsCIM + "CIM_BootSourceSetting"
	classBoot       = nsCIM + "CIM_BootService"
	classBootData   = nsAMT + "AMT_BootSettingData"

	configName = "Intel(r) AMT: Boot Configuration 0"
	pxeName    = "Intel(r) AMT: Force PXE Boot"
	realm      = "Digest:A4070000000000000000000000000000"
	nonce      = "bGFiLW5vbmNlLW9mLWFtdA"
)

// StartAMT starts the AMT of a machine: WS-Management (DSP0226) at /wsman.
func StartAMT(cfg Config) (*Server, error) { return start(cfg, &amt{cfg: cfg}) }

// amt is the state of AMT in addition to the machine's.
type amt struct {
	cfg Config

	mu sync.Mutex
	// single reports that SetBootConfigRole selected the configuration for the next boot.
	single bool
	// nonces counts the nonces, uses the requests with the last one, and count is the client's count
	// of the last request.
	nonces, uses int
	count        uint64
}

// envelope is the used part of a request, by local names.
type envelope struct {
	Header struct {
		Action      string
		ResourceURI string
		MessageID   string
	}
	Body struct {
		Inner string `xml:",innerxml"`
	}
}

func (a *amt) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost || r.URL.Path != "/wsman" {
		http.NotFound(w, r)
		return
	}
	if !a.authorized(r) {
		w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Digest realm="%s", nonce="%s",stale="false",qop="auth"`, realm, a.nonce()))
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	text, err := io.ReadAll(r.Body) // bounded by Server
	var in envelope
	if err != nil || xml.Unmarshal(text, &in) != nil {
		http.Error(w, "no envelope", http.StatusBadRequest)
		return
	}
	body, ok := a.answer(r.Context(), strings.TrimSpace(in.Header.Action), strings.TrimSpace(in.Header.ResourceURI), in.Body.Inner)
	if !ok {
		http.Error(w, "DestinationUnreachable", http.StatusBadRequest)
		return
	}
	w.Header().Set("Content-Type", "application/soap+xml; charset=UTF-8")
	_, _ = fmt.Fprintf(w, `<?xml version="1.0" encoding="UTF-8"?><a:Envelope xmlns:a=%q xmlns:b=%q xmlns:c=%q xmlns:d=%q>`+
		`<a:Header><b:Action a:mustUnderstand="true">%sResponse</b:Action><b:RelatesTo>%s</b:RelatesTo></a:Header><a:Body>%s</a:Body></a:Envelope>`,
		nsSOAP, nsAddress, nsWSMAN, nsEnum, strings.TrimSpace(in.Header.Action), strings.TrimSpace(in.Header.MessageID), body)
}

// nonce returns the current nonce, or a new one if that is used up.
func (a *amt) nonce() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.cfg.NonceUses > 0 && a.uses >= a.cfg.NonceUses {
		a.nonces, a.uses, a.count = a.nonces+1, 0, 0
	}
	return a.current()
}

func (a *amt) current() string { return fmt.Sprintf("%s%d", nonce, a.nonces) }

// authorized checks Digest credentials (RFC 2617 §3.2.2, MD5, qop "auth"): the count must grow
// with each use of a nonce.
func (a *amt) authorized(r *http.Request) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	nonce := a.current()
	fields := map[string]string{}
	for _, f := range strings.Split(strings.TrimPrefix(r.Header.Get("Authorization"), "Digest "), ",") {
		if key, value, ok := strings.Cut(strings.TrimSpace(f), "="); ok {
			fields[key] = strings.Trim(value, `"`)
		}
	}
	ha1 := digest(a.cfg.Username + ":" + realm + ":" + a.cfg.Password)
	ha2 := digest(r.Method + ":" + fields["uri"])
	want := digest(strings.Join([]string{ha1, nonce, fields["nc"], fields["cnonce"], "auth", ha2}, ":"))
	count, err := strconv.ParseUint(fields["nc"], 16, 32)
	if fields["username"] != a.cfg.Username || fields["nonce"] != nonce || fields["uri"] != r.URL.Path || fields["response"] != want ||
		err != nil || count <= a.count || a.cfg.NonceUses > 0 && a.uses >= a.cfg.NonceUses {
		return false
	}
	a.uses, a.count = a.uses+1, count
	return true
}

func digest(text string) string {
	sum := md5.Sum([]byte(text))
	return hex.EncodeToString(sum[:])
}

var (
	enumContext = regexp.MustCompile(`EnumerationContext[^>]*>\s*([^<\s]+)\s*<`)
	powerState  = regexp.MustCompile(`PowerState[^>]*>\s*(\d+)\s*<`)
	role        = regexp.MustCompile(`Role[^>]*>\s*(\d+)\s*<`)
)

// answer returns the body of the answer to an action.
func (a *amt) answer(ctx context.Context, action, resource, body string) (string, bool) {
	switch action {
	case nsEnum + "/Enumerate":
		// The class is the context of its enumeration.
		return fmt.Sprintf(`<c:EnumerateResponse xmlns:c=%q><c:EnumerationContext>%s</c:EnumerationContext></c:EnumerateResponse>`, nsEnum, resource), true
	case nsEnum + "/Pull":
		m := enumContext.FindStringSubmatch(body)
		if m == nil {
			return "", false
		}
		items, ok := a.items(m[1])
		return fmt.Sprintf(`<c:PullResponse xmlns:c=%q><c:Items>%s</c:Items><c:EndOfSequence/></c:PullResponse>`, nsEnum, items), ok
	case nsEnum + "/Release":
		return "", true
	case nsTransfer + "/Get":
		return fmt.Sprintf(`<g:AMT_BootSettingData xmlns:g=%q><g:BIOSPause>false</g:BIOSPause><g:BIOSSetup>false</g:BIOSSetup>`+
			`<g:BootMediaIndex>0</g:BootMediaIndex><g:BIOSLastStatus>2</g:BIOSLastStatus><g:UseIDER>true</g:UseIDER><g:UseSOL>true</g:UseSOL></g:AMT_BootSettingData>`, classBootData), resource == classBootData
	case nsTransfer + "/Put":
		return fmt.Sprintf(`<g:AMT_BootSettingData xmlns:g=%q/>`, classBootData), resource == classBootData &&
			!strings.Contains(body, "BIOSLastStatus") && strings.Contains(body, "UseIDER>false<") && strings.Contains(body, "UseSOL>true<")
	case classService + "/RequestPowerStateChange":
		return output(classService, "RequestPowerStateChange", a.power(ctx, body)), true
	case classBoot + "/SetBootConfigRole":
		return output(classBoot, "SetBootConfigRole", a.setRole(body)), true
	case classBootConfig + "/ChangeBootOrder":
		return output(classBootConfig, "ChangeBootOrder", a.setOrder(body)), true
	}
	return "", false
}

func output(class, method string, value int) string {
	return fmt.Sprintf(`<g:%s_OUTPUT xmlns:g=%q><g:ReturnValue>%d</g:ReturnValue></g:%s_OUTPUT>`, method, class, value, method)
}

// items returns the instances of a class or references to them.
func (a *amt) items(class string) (string, bool) {
	switch class {
	case classPower:
		var b strings.Builder
		fmt.Fprintf(&b, `<g:CIM_AssociatedPowerManagementService xmlns:g=%q>`, classPower)
		for _, s := range a.states() {
			fmt.Fprintf(&b, `<g:AvailableRequestedPowerStates>%d</g:AvailableRequestedPowerStates>`, s)
		}
		state := stateOff
		if a.cfg.Machine.Powered() {
			state = stateOn
		}
		fmt.Fprintf(&b, `<g:PowerState>%d</g:PowerState><g:RequestedPowerState>%d</g:RequestedPowerState></g:CIM_AssociatedPowerManagementService>`, state, state)
		return b.String(), true
	case classSystem:
		return reference(class, "Name", "Intel(r) AMT Subsystem") + reference(class, "Name", "ManagedSystem"), true
	case classBootConfig:
		return reference(class, "InstanceID", configName), true
	case classBootSource:
		return reference(class, "InstanceID", "Intel(r) AMT: Force Hard-drive Boot") + reference(class, "InstanceID", pxeName), true
	}
	return "", false
}

func reference(class, selector, value string) string {
	return fmt.Sprintf(`<b:EndpointReference><b:Address>default</b:Address><b:ReferenceParameters><d:ResourceURI>%s</d:ResourceURI>`+
		`<d:SelectorSet><d:Selector Name=%q>%s</d:Selector></d:SelectorSet></b:ReferenceParameters></b:EndpointReference>`, class, selector, value)
}

// The power states (CIM_PowerManagementService.RequestPowerStateChange).
const (
	stateOn         = 2
	stateOff        = 8
	stateCycle      = 5
	stateReset      = 10
	stateSoftOff    = 12
	stateSoftReset  = 14
	returnedOK      = 0
	returnedInvalid = 5
)

// states returns the states that may be requested: graceful ones only while an agent runs.
func (a *amt) states() []int {
	switch {
	case !a.cfg.Machine.Powered():
		return []int{stateOn}
	case a.cfg.Agent:
		return []int{stateSoftOff, stateSoftReset, stateOff, stateCycle, stateReset}
	}
	return []int{stateOff, stateCycle, stateReset}
}

func (a *amt) power(ctx context.Context, body string) int {
	m := powerState.FindStringSubmatch(body)
	if m == nil || !strings.Contains(body, `<w:Selector Name="Name">ManagedSystem</w:Selector>`) {
		return returnedInvalid
	}
	for _, s := range a.states() {
		if fmt.Sprint(s) != m[1] {
			continue
		}
		action := map[int]machine.Action{
			stateOn: machine.On, stateOff: machine.Off, stateCycle: machine.Reset, stateReset: machine.Reset,
			stateSoftOff: machine.Shutdown, stateSoftReset: machine.Reboot,
		}[s]
		if a.cfg.Machine.Power(ctx, action) != nil {
			return returnedInvalid
		}
		return returnedOK
	}
	return returnedInvalid
}

// setRole selects the configuration for the next boot only.
func (a *amt) setRole(body string) int {
	m := role.FindStringSubmatch(body)
	if m == nil || m[1] != "1" || !strings.Contains(body, configName) {
		return returnedInvalid
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.single = true
	return returnedOK
}

func (a *amt) setOrder(body string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	if !a.single || !strings.Contains(body, pxeName) {
		return returnedInvalid
	}
	a.single = false
	boot := a.cfg.Machine.Boot()
	boot.Enabled, boot.Target = machine.Once, machine.TargetPXE
	a.cfg.Machine.SetBoot(boot)
	return returnedOK
}
