// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package redfish

import (
	"bytes"
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/stmcginnis/gofish"

	"github.com/ingot-metal/ingot/bmc"
)

// logoutTimeout bounds the end of a session when the call's context has ended.
const logoutTimeout = 5 * time.Second

// conn is one session with one system of one BMC.
type conn struct {
	bmc.Unsupported

	target    bmc.Target
	transport *transport
	client    *gofish.APIClient
	root      rootResource
	// base is scheme://host[:port].
	base string
	// session is the path to end it at; empty: none.
	session string
	// marked: the BMC keeps the session's mark. sessions is where it lists them.
	marked   bool
	sessions string
	// streams of events that were opened, by the system they were opened for.
	streams map[string]*eventStream
	// system is the path of the system.
	system string
	// traits are the maker's, as far as learned.
	traits  []trait
	learned bool
	// secrets beside the password and the token that no error may show.
	secrets []bmc.Password
	// resetTypes is what the system allows once it is known.
	resetTypes []string
	// reading is the read of many resources in progress; nil: none is. unfinished are those
	// that were cut off.
	reading    *longRead
	unfinished longReads
	// mediaWait is the constant, but for tests.
	mediaWait time.Duration
}

// Dial opens a session (DSP0266, Redfish session login authentication) and finds the
// system: the one that the address names, or the only one. A BMC whose service root has no
// session service gets the credentials with each request (Basic authentication).
//
// Errors wrap bmc.ErrAddress (also when the BMC lists several systems and the
// address names none), ErrCertificate, ErrUnauthorized, ErrUnreachable,
// ErrTimeout, ErrBusy (a *bmc.BusyError; also when all sessions are taken),
// ErrNotSupported or ErrProtocol, or are the context's. One that leaves a session open is a
// *bmc.LeftOpen.
func Dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	ep, err := parseAddress(target.Address)
	if err == nil {
		err = ep.trustFits(target)
	}
	if err != nil {
		return nil, err
	}
	t, err := newTransport(target, ep)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", ep.base, err)
	}
	c := &conn{target: target, transport: t, base: ep.base, system: ep.system, mediaWait: mediaWait}
	t.begin(ctx)
	if err := c.connect(ctx, ep.base); err != nil {
		t.CloseIdleConnections()
		return nil, err
	}
	if err := c.login(); err != nil {
		t.CloseIdleConnections()
		return nil, err
	}
	if c.system == "" {
		// A password that has to be changed first can be, on this session.
		if c.system, err = c.onlySystem(); err != nil && !errors.Is(err, bmc.ErrPasswordChange) {
			if err = errors.Join(err, c.Close(ctx)); c.Lingers() {
				err = &bmc.LeftOpen{Conn: c, Err: err}
			}
			return nil, err
		}
	}
	return c, nil
}

// connect reads the service root, which needs no session. gofish keeps the links
// in it to itself: they are read from a copy.
func (c *conn) connect(ctx context.Context, base string) error {
	var body bytes.Buffer
	c.transport.copy = &body
	client, err := gofish.ConnectContext(context.WithoutCancel(ctx), gofish.ClientConfig{
		Endpoint:   base,
		HTTPClient: &http.Client{Transport: c.transport, CheckRedirect: checkRedirect},
	})
	c.transport.copy = nil
	if err != nil {
		return c.failure(read, "read service root of "+base, err)
	}
	c.client = client
	if err := decode(body.Bytes(), &c.root); err != nil {
		return fmt.Errorf("read service root of %s: %w", base, err)
	}
	c.traits = maker{vendor: strings.TrimSpace(c.root.Vendor)}.traits()
	return nil
}

// login opens the session.
func (c *conn) login() error {
	const what = "open session"
	path := c.root.Links.Sessions.ID
	if path == "" && c.root.SessionService.ID == "" {
		return c.loginBasic()
	}
	if path == "" {
		path = serviceRoot + "/SessionService/Sessions"
	}
	if !isLink(path) {
		return fmt.Errorf("%s: %w: sessions at %q", what, bmc.ErrProtocol, c.short(path, 100))
	}
	c.sessions = path
	resp, err := c.postLogin(path, c.mark())
	if err != nil {
		return err
	}
	defer discard(resp)
	c.transport.token = resp.Header.Get("X-Auth-Token")
	if c.session = sessionPath(resp); c.session == "" || c.transport.token == "" {
		// Nothing to end it with: it runs into the BMC's own session timeout.
		c.transport.token = ""
		return fmt.Errorf("%s: %w: no session path or no token in the answer", what, bmc.ErrProtocol)
	}
	return nil
}

// loginBasic has the credentials sent with each request, and asks whether they hold. It
// does so whatever the transport: redfish+http:// and InsecureSkipVerify expose the password
// by a login as well (decision 0346).
func (c *conn) loginBasic() error {
	const what = "log in by Basic authentication"
	encoded := base64.StdEncoding.EncodeToString([]byte(c.target.Username + ":" + c.target.Password.Reveal()))
	c.secrets = append(c.secrets, bmc.Password(encoded))
	c.transport.basic = "Basic " + encoded
	bmc.Committed(c.transport.ctx)
	if c.root.Systems.ID == "" {
		return nil // the search for the system says so
	}
	if _, err := c.fetch(c.root.Systems.ID); err != nil {
		return c.failure(session, what, err)
	}
	return nil
}

// sessionPath is where the session can be ended: the Location header (DSP0266),
// which may be an absolute URL, or the body where a BMC leaves that out.
func sessionPath(resp *http.Response) string {
	path := locationPath(resp)
	if path == "" {
		var body link
		if data, err := io.ReadAll(resp.Body); err == nil && json.Unmarshal(data, &body) == nil {
			path = body.ID
		}
	}
	if !isLink(path) {
		return ""
	}
	return path
}

// locationPath is the Location header as a path.
func locationPath(resp *http.Response) string {
	path := resp.Header.Get("Location")
	if u, err := url.Parse(path); err == nil && u.IsAbs() {
		path = u.EscapedPath()
	}
	return path
}

// Close implements bmc.Conn. It also reaches the BMC when ctx has ended. A 401 means
// most often that the BMC has forgotten the session, and not always: some answer so to
// all while they are ill.
func (c *conn) Close(ctx context.Context) error {
	defer c.transport.CloseIdleConnections()
	for _, stream := range c.streams {
		_ = stream.Close()
	}
	clear(c.streams)
	if c.session == "" {
		return nil
	}
	path := c.session
	if ctx.Err() != nil {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), logoutTimeout)
		defer cancel()
	}
	c.begin(ctx)
	_, err := c.client.Delete(path)
	if last := c.transport.last; err != nil && last.connected && last.status == 0 && ctx.Err() == nil {
		// The connection broke, as those that were idle do, and with it a session would
		// be lost. A second end of it changes nothing.
		_, err = c.client.Delete(path)
	}
	if err != nil {
		err = c.failure(session, "end session", err)
	}
	switch {
	case err == nil, isMissing(err):
		c.session, c.transport.token = "", ""
	case !errors.Is(err, bmc.ErrUnauthorized): // see Lingers
		return err
	}
	return nil
}

// Lingers implements bmc.Lingerer. Path and token stay for another try.
func (c *conn) Lingers() bool { return c.session != "" }

// get reads one resource.
func (c *conn) get(path string, into any) error {
	body, err := c.read(path)
	if err != nil {
		return err
	}
	if err := decode(body, into); err != nil {
		return fmt.Errorf("read %s: %w", c.short(path, 200), err)
	}
	return nil
}

func (c *conn) read(path string) ([]byte, error) {
	what := "read " + c.short(path, 200)
	if !isLink(path) {
		return nil, fmt.Errorf("%s: %w: not a path of this BMC", c.clean(what), bmc.ErrProtocol)
	}
	if k, ok := c.known(path); ok {
		return k.body, k.err
	}
	body, err := c.fetch(path)
	if err != nil {
		body, err = nil, c.failure(read, what, err)
	}
	c.keep(path, body, err)
	return body, err
}

func (c *conn) fetch(path string) ([]byte, error) {
	resp, err := c.client.Get(path)
	if err != nil {
		return nil, err
	}
	defer discard(resp)
	// Writes are not redirected: those to the system go where its reads lead (sushy-tools,
	// from the name of a system to its UUID).
	if final := strings.TrimRight(resp.Request.URL.EscapedPath(), "/"); path == c.system && final != path && isSystemPath(final) {
		c.system = final
	}
	return io.ReadAll(resp.Body)
}

// getLarge is get for what is large by nature: registries, BIOS settings and logs.
func (c *conn) getLarge(path string, into any) error {
	c.transport.limit, c.transport.compressed = maxLargeBody, true
	defer func() { c.transport.limit, c.transport.compressed = maxBody, false }()
	return c.get(path, into)
}

// answer is what a write was answered with.
type answer struct {
	status   int
	location string
	body     []byte
}

// send makes one write. It is not repeated by anybody below: net/http repeats
// requests that have a body only if not a byte of them was sent.
func (c *conn) send(method, path string, body any, header map[string]string) error {
	_, err := c.ask(method, path, body, header)
	return err
}

// ask is send for those whom the answer's body interests; a success is one,
// whatever its body says.
func (c *conn) ask(method, path string, body any, header map[string]string) (answer, error) {
	c.unfinished = nil // what was read may change
	what := strings.ToLower(method) + " " + c.short(path, 200)
	if !isLink(path) {
		return answer{}, fmt.Errorf("%s: %w: not a path of this BMC", c.clean(what), bmc.ErrProtocol)
	}
	call := c.client.PostWithHeaders
	if method == http.MethodPatch {
		call = c.client.PatchWithHeaders
	}
	resp, err := call(path, body, header)
	if err != nil {
		return answer{}, c.failure(write, what, err)
	}
	return c.answered(resp), nil
}

// answered reads what came with a success.
func (c *conn) answered(resp *http.Response) answer {
	a := answer{status: resp.StatusCode, location: locationPath(resp)}
	a.body, _ = io.ReadAll(resp.Body) // bounded; a broken one tells nothing
	discard(resp)
	return a
}

// patch changes a resource, with its ETag where it has one: tag, or where that is empty
// the one that a read shows.
func (c *conn) patch(path, tag string, body any) error {
	if tag == "" {
		header, shown, err := c.tags(path)
		if err != nil && !errors.Is(err, bmc.ErrPasswordChange) { // an account may show nothing before the change
			return err
		}
		tag = cmp.Or(header, shown)
	}
	return c.patchTagged(path, tag, body)
}

// patchTagged changes a resource with a tag; empty: without. While the BMC refuses the
// precondition (412, or 428 without one), nothing was written, and the next is sent: the tag
// as it is now, from the body, which tells the truth where the header is another's or quoted
// twice; from the header; both without the mark of a weak tag, which If-Match never matches
// (RFC 9110 section 13.1.1); none, since some take none at all (Gigabyte's, in sushy's
// history); and any.
func (c *conn) patchTagged(path, tag string, body any) error {
	err := c.patchWith(path, tag, body)
	if !isStale(err) {
		return err
	}
	var next []string
	if tag != "" {
		header, shown, readErr := c.tags(path)
		if readErr != nil {
			return readErr
		}
		next = slices.DeleteFunc([]string{shown, header, strong(shown), strong(header)}, func(t string) bool { return t == "" })
	}
	tried := []string{tag}
	for _, tag := range append(next, "", "*") {
		if slices.Contains(tried, tag) {
			continue
		}
		tried = append(tried, tag)
		if err = c.patchWith(path, tag, body); !isStale(err) {
			return err
		}
	}
	return err
}

// strong is a tag without the mark of a weak one.
func strong(tag string) string { return strings.TrimPrefix(tag, "W/") }

// tags reads the ETag of a resource: of the header, and of the body (DSP0266, ETags).
func (c *conn) tags(path string) (header, shown string, err error) {
	var r struct {
		Tag string `json:"@odata.etag"`
	}
	err = c.get(path, &r)
	return c.transport.last.etag, r.Tag, err
}

// patchWith sends a PATCH with a tag; empty: without.
func (c *conn) patchWith(path, tag string, body any) error {
	var header map[string]string
	if tag != "" {
		header = map[string]string{"If-Match": c.tagFor(tag)}
	}
	return c.send(http.MethodPatch, path, body, header)
}

// isStale reports that a tag was refused, or that there was none.
func isStale(err error) bool {
	e, ok := refusal(err)
	return ok && (e.status == http.StatusPreconditionFailed || e.status == http.StatusPreconditionRequired)
}

// members lists a collection, sorted, since some BMCs list in random order (field
// notes). It follows Members@odata.nextLink up to maxMembers.
func (c *conn) members(path string) ([]string, error) { return c.membersUpTo(path, maxMembers) }

func (c *conn) membersUpTo(path string, limit int) ([]string, error) {
	var paths []string
	for page := 0; path != ""; page++ {
		if page > maxMembers {
			return nil, fmt.Errorf("read %s: %w: pages without end", c.short(path, 200), bmc.ErrProtocol)
		}
		var collection collectionResource
		if err := c.get(path, &collection); err != nil {
			return nil, err
		}
		for _, m := range collection.Members {
			if m.ID != "" {
				paths = append(paths, m.ID)
			}
		}
		if len(paths) > limit {
			return nil, fmt.Errorf("read %s: %w: more than %d members", c.short(path, 200), bmc.ErrProtocol, limit)
		}
		path = collection.Next
	}
	slices.Sort(paths)
	return slices.Compact(paths), nil
}

// discard makes the connection fit for the next request.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body) // bounded; an error costs the connection only
	_ = resp.Body.Close()
}

// decode reads JSON and forgives a wrong type in a field: that field is then as
// if it were absent, the others hold. gofish gives up the whole resource.
func decode(body []byte, into any) error {
	err := json.Unmarshal(body, into)
	var wrongType *json.UnmarshalTypeError
	if errors.As(err, &wrongType) && wrongType.Field != "" {
		return nil
	}
	if err != nil {
		return fmt.Errorf("%w: not a JSON object", bmc.ErrProtocol)
	}
	return nil
}

// Driver is this driver and what it can at best; a BMC may offer less.
func Driver() bmc.Driver {
	return bmc.Driver{Name: Scheme, Dial: Dial, Probe: Probe, TLS: true, Offers: []bmc.Capability{
		bmc.CapMedia, bmc.CapSettings, bmc.CapFirmware, bmc.CapFirmwareFetch, bmc.CapFirmwarePush, bmc.CapHealth, bmc.CapEventLog, bmc.CapAccounts,
		bmc.CapSecureBoot, bmc.CapReset, bmc.CapIndicator, bmc.CapEvents,
	}}
}

// PlainDriver is the same in clear, which is never looked for: only an address that
// says so gets it.
func PlainDriver() bmc.Driver {
	d := Driver()
	d.Name, d.Probe, d.TLS = SchemeHTTP, nil, false
	return d
}
