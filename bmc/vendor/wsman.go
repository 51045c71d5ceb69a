// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package vendor

import (
	"context"
	"crypto/md5" //nolint:gosec // RFC 7616 section 3.3: MD5 is the only algorithm that AMT offers
	"crypto/rand"
	"encoding/hex"
	"encoding/xml"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"

	"github.com/ingot-metal/ingot/bmc"
)

// The namespaces and actions of WS-Management (DSP0226).
const (
	nsAddressing  = "http://schemas.xmlsoap.org/ws/2004/08/addressing"
	nsEnumeration = "http://schemas.xmlsoap.org/ws/2004/09/enumeration"
	nsWSMan       = "http://schemas.dmtf.org/wbem/wsman/1/wsman.xsd"

	actionEnumerate = nsEnumeration + "/Enumerate"
	actionPull      = nsEnumeration + "/Pull"
	actionGet       = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Get"
	actionPut       = "http://schemas.xmlsoap.org/ws/2004/09/transfer/Put"

	wsmanPath = "/wsman"
)

// errChallenge reports a service without Digest authentication.
var errChallenge = fmt.Errorf("%w: the service does not offer Digest authentication", bmc.ErrProtocol)

// wsman is a client of one WS-Management service with Digest authentication. It is not safe for
// concurrent use.
type wsman struct {
	client             *http.Client
	url                string
	username, password string

	// challenge is the last one of the service, and count is how often it was answered.
	challenge map[string]string
	count     int
	// accepted: the service has accepted the credentials, so a later 401 means that the
	// challenge has expired.
	accepted bool
	messages int
}

// Open gets a challenge. It sends no credentials.
func (w *wsman) Open(ctx context.Context) error {
	resp, err := w.post(ctx, "", "")
	if err != nil {
		return err
	}
	if resp.StatusCode != http.StatusUnauthorized {
		return fmt.Errorf("%w: status %d", errChallenge, resp.StatusCode)
	}
	return w.learn(resp)
}

// Close does nothing: each request has its own credentials.
func (w *wsman) Close(context.Context) error { return nil }

// call sends one message about a resource and returns the body of the answer.
func (w *wsman) call(ctx context.Context, action, resource, body string) (element, error) {
	w.messages++
	message := fmt.Sprintf(`<?xml version="1.0" encoding="UTF-8"?>`+
		`<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope" xmlns:a="%s" xmlns:w="%s"><s:Header>`+
		`<a:Action s:mustUnderstand="true">%s</a:Action><a:To s:mustUnderstand="true">%s</a:To>`+
		`<w:ResourceURI s:mustUnderstand="true">%s</w:ResourceURI><a:MessageID s:mustUnderstand="true">%d</a:MessageID>`+
		`<a:ReplyTo><a:Address>%s/role/anonymous</a:Address></a:ReplyTo></s:Header><s:Body>%s</s:Body></s:Envelope>`,
		nsAddressing, nsWSMan, action, w.url, resource, w.messages, nsAddressing, body)
	resp, err := w.post(ctx, message, w.authorization())
	if err == nil && resp.StatusCode == http.StatusUnauthorized {
		err = w.learn(resp)
		// Nothing was executed. Credentials that were never accepted are not sent twice,
		// since the service may lock the account.
		if err == nil && (w.accepted || strings.EqualFold(w.challenge["stale"], "true")) {
			resp, err = w.post(ctx, message, w.authorization())
		}
	}
	if err != nil {
		return element{}, err
	}
	text, err := io.ReadAll(resp.Body) // bounded by wire
	if err != nil {
		return element{}, err
	}
	var answer element
	parseErr := xml.Unmarshal(text, &answer)
	if resp.StatusCode != http.StatusOK {
		return element{}, fmt.Errorf("AMT answered %d %s", resp.StatusCode, answer.first("Text").value())
	}
	if parseErr != nil || answer.XMLName.Local != "Envelope" {
		return element{}, fmt.Errorf("%w: the answer of AMT is not a SOAP envelope", bmc.ErrProtocol)
	}
	w.accepted = true
	return answer.first("Body"), nil
}

// invoke calls a method of a class and checks its ReturnValue.
func (w *wsman) invoke(ctx context.Context, class, method, parameters string) error {
	body, err := w.call(ctx, class+"/"+method, class, fmt.Sprintf(`<p:%s_INPUT xmlns:p="%s">%s</p:%s_INPUT>`, method, class, parameters, method))
	if err != nil {
		return err
	}
	switch value := body.first("ReturnValue").value(); value {
	case returnedDone, returnedJobRun:
		return nil
	case returnedInUse:
		return fmt.Errorf("%w: AMT answered ReturnValue %s to %s", bmc.ErrBusy, value, method)
	case "":
		return fmt.Errorf("%w: AMT answered %s without ReturnValue", bmc.ErrProtocol, method)
	default:
		return fmt.Errorf("%w: AMT answered ReturnValue %s to %s", bmc.ErrNotSupported, value, method)
	}
}

// maxPulls bounds how often an enumeration is continued.
const maxPulls = 8

// instance returns the first instance of a class.
func (w *wsman) instance(ctx context.Context, class string) (element, error) {
	name := class[strings.LastIndex(class, "/")+1:]
	body, err := w.call(ctx, actionEnumerate, class, fmt.Sprintf(`<n:Enumerate xmlns:n="%s"/>`, nsEnumeration))
	for range maxPulls {
		if err != nil {
			return element{}, err
		}
		if found := body.first(name); found.XMLName.Local != "" {
			return found, nil
		}
		next := body.first("EnumerationContext").value()
		if next == "" {
			break
		}
		body, err = w.call(ctx, actionPull, class, fmt.Sprintf(`<n:Pull xmlns:n="%s"><n:EnumerationContext>%s</n:EnumerationContext></n:Pull>`,
			nsEnumeration, escaped(next)))
	}
	if err != nil {
		return element{}, err
	}
	return element{}, fmt.Errorf("%w: AMT has no instance of %s", bmc.ErrProtocol, name)
}

func (w *wsman) post(ctx context.Context, message, authorization string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, w.url, strings.NewReader(message))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/soap+xml; charset=utf-8")
	if authorization != "" {
		r.Header.Set("Authorization", authorization)
	}
	return w.client.Do(r) // wire has read the body
}

// field is one parameter of a challenge.
var field = regexp.MustCompile(`(\w+)\s*=\s*(?:"([^"]*)"|([^",\s]+))`)

// learn reads the challenge of a 401 (RFC 7616 section 3.3).
func (w *wsman) learn(resp *http.Response) error {
	for _, text := range resp.Header.Values("WWW-Authenticate") {
		scheme, rest, _ := strings.Cut(text, " ")
		if !strings.EqualFold(scheme, "Digest") {
			continue
		}
		c := map[string]string{}
		for _, m := range field.FindAllStringSubmatch(rest, -1) {
			c[strings.ToLower(m[1])] = m[2] + m[3]
		}
		if c["nonce"] == "" || c["algorithm"] != "" && !strings.EqualFold(c["algorithm"], "MD5") {
			continue
		}
		w.challenge, w.count = c, 0
		return nil
	}
	return errChallenge
}

// authorization answers the challenge (RFC 7616 section 3.4; without qop: RFC 2069).
func (w *wsman) authorization() string {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	w.count++
	c, cnonce, nc := w.challenge, hex.EncodeToString(random[:]), fmt.Sprintf("%08x", w.count)
	ha1 := hashed(w.username + ":" + c["realm"] + ":" + w.password)
	ha2 := hashed(http.MethodPost + ":" + wsmanPath)
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`)
	out := fmt.Sprintf(`Digest username="%s", realm="%s", nonce="%s", uri="%s"`, quoted.Replace(w.username), c["realm"], c["nonce"], wsmanPath)
	if c["opaque"] != "" {
		out += fmt.Sprintf(`, opaque="%s"`, c["opaque"])
	}
	if c["qop"] == "" {
		return out + fmt.Sprintf(`, response="%s"`, hashed(ha1+":"+c["nonce"]+":"+ha2))
	}
	response := hashed(strings.Join([]string{ha1, c["nonce"], nc, cnonce, "auth", ha2}, ":"))
	return out + fmt.Sprintf(`, qop=auth, nc=%s, cnonce="%s", response="%s"`, nc, cnonce, response)
}

func hashed(text string) string {
	sum := md5.Sum([]byte(text)) //nolint:gosec // as above
	return hex.EncodeToString(sum[:])
}

// element is one element of an answer.
type element struct {
	XMLName  xml.Name
	Attrs    []xml.Attr `xml:",any,attr"`
	Children []element  `xml:",any"`
	Text     string     `xml:",chardata"`
}

// first returns the first element with a local name at or below e, or the zero element.
func (e element) first(name string) element {
	if e.XMLName.Local == name {
		return e
	}
	for _, child := range e.Children {
		if found := child.first(name); found.XMLName.Local != "" {
			return found
		}
	}
	return element{}
}

func (e element) value() string { return strings.TrimSpace(e.Text) }

// reference returns a parameter that refers to an instance of a class by one of its keys.
func reference(parameter, class, key, value string) string {
	return fmt.Sprintf(`<p:%s><a:Address>%s/role/anonymous</a:Address><a:ReferenceParameters><w:ResourceURI>%s</w:ResourceURI>`+
		`<w:SelectorSet><w:Selector Name="%s">%s</w:Selector></w:SelectorSet></a:ReferenceParameters></p:%s>`,
		parameter, nsAddressing, class, key, value, parameter)
}

func escaped(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a Builder never fails
	return b.String()
}
