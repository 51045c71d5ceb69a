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

// logoutTimeout bounds the logout when the context of the call has ended.
const logoutTimeout = 5 * time.Second

// conn is one session with one system of one BMC.
type conn struct {
	bmc.Unsupported

	target    bmc.Target
	transport *transport
	client    *gofish.APIClient
	root      rootResource
	// base is scheme://host[:port] of the BMC.
	base string
	// session is the path of the session; empty: none is open.
	session string
	// marked reports that the BMC stored the session's label. sessions is the path of the
	// session collection.
	marked   bool
	sessions string
	// streams are the open event streams by the path of their system.
	streams map[string]*eventStream
	// system is the path of the system.
	system string
	// traits are the known deviations of this BMC; learned: they are complete.
	traits  []trait
	learned bool
	// secrets are what errors must not show, in addition to password and token.
	secrets []bmc.Password
	// resetTypes are the ResetType values that the system allows; nil: not read yet.
	resetTypes []string
	// reading is the multi-resource read in progress, or nil. unfinished are the reads that
	// ran out of time.
	reading    *longRead
	unfinished longReads
	// mediaWait is the constant mediaWait; tests shorten it.
	mediaWait time.Duration
}

// Dial opens a session (DSP0266, Redfish session login authentication) and finds the system:
// the one in the address, or the only one. Without a session service in the service root, each
// request carries the credentials (Basic authentication).
//
// Errors wrap bmc.ErrAddress (also if the BMC has several systems and the address names none),
// ErrCertificate, ErrUnauthorized, ErrUnreachable, ErrTimeout, ErrBusy (a *bmc.BusyError; also
// if all sessions are in use), ErrNotSupported, ErrProtocol or the context's error. An error
// that leaves a session open is a *bmc.OrphanSessionError.
func Dial(ctx context.Context, target bmc.Target) (bmc.Conn, error) {
	ep, err := parseAddress(target.Address)
	if err == nil {
		err = ep.checkTrust(target)
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
	if err = c.connect(ctx, ep.base); err == nil {
		err = c.login()
	}
	if err != nil {
		t.CloseIdleConnections()
		return nil, err
	}
	if c.system == "" {
		// With ErrPasswordChange the session is still good for changing the password.
		if c.system, err = c.onlySystem(); err != nil && !errors.Is(err, bmc.ErrPasswordChange) {
			if err = errors.Join(err, c.Close(ctx)); c.MayBeOpen() {
				err = &bmc.OrphanSessionError{Conn: c, Err: err}
			}
			return nil, err
		}
	}
	return c, nil
}

// connect reads the service root, which needs no session. gofish does not export the links in
// it, so connect decodes a copy of the body.
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
	c.traits = product{vendor: strings.TrimSpace(c.root.Vendor)}.traits()
	return nil
}

// login opens a session, or falls back to Basic authentication.
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
		return fmt.Errorf("%s: %w: invalid path of the sessions: %q", what, bmc.ErrProtocol, c.short(path, 100))
	}
	c.sessions = path
	resp, err := c.postLogin(path, c.sessionLabel())
	if err != nil {
		return err
	}
	defer discard(resp)
	c.transport.token = resp.Header.Get("X-Auth-Token")
	if c.session = sessionPath(resp); c.session == "" || c.transport.token == "" {
		// The session cannot be ended; the BMC's own timeout ends it.
		c.transport.token = ""
		return fmt.Errorf("%s: %w: the answer has no session path or no token", what, bmc.ErrProtocol)
	}
	return nil
}

// loginBasic sends the credentials with each request and checks them with one read. It accepts
// any transport: with redfish+http:// or InsecureSkipVerify, a login would expose the password
// too.
func (c *conn) loginBasic() error {
	encoded := base64.StdEncoding.EncodeToString([]byte(c.target.Username + ":" + c.target.Password.Reveal()))
	c.secrets = append(c.secrets, bmc.Password(encoded))
	c.transport.basic = "Basic " + encoded
	bmc.ProtectNextRequest(c.transport.ctx)
	if c.root.Systems.ID == "" {
		return nil // onlySystem reports it
	}
	if _, err := c.fetch(c.root.Systems.ID); err != nil {
		return c.failure(session, "log in by Basic authentication", err)
	}
	return nil
}

// sessionPath returns the path of the new session: from the Location header (DSP0266), which
// may be an absolute URL, or else from the body. It is empty if there is none.
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

// locationPath returns the Location header as a path.
func locationPath(resp *http.Response) string {
	path := resp.Header.Get("Location")
	if u, err := url.Parse(path); err == nil && u.IsAbs() {
		path = u.EscapedPath()
	}
	return path
}

// Close implements bmc.Conn. It reaches the BMC even if ctx has ended. After a 401 the session
// counts as open: usually the BMC has forgotten it, but unhealthy BMCs answer 401 to every
// request.
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
		// An idle connection broke. Without another try the session would leak, and
		// ending a session twice is harmless.
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

// MayBeOpen implements bmc.MaybeOpen. Path and token stay, so that another Close can try again.
func (c *conn) MayBeOpen() bool { return c.session != "" }

// get reads and decodes one resource.
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
	// Writes are not redirected, so they go to the path that reads are redirected to
	// (sushy-tools redirects from the name of a system to its UUID).
	if final := strings.TrimRight(resp.Request.URL.EscapedPath(), "/"); path == c.system && final != path && isSystemPath(final) {
		c.system = final
	}
	return io.ReadAll(resp.Body)
}

// getLarge is get for large resources: registries, BIOS settings and logs.
func (c *conn) getLarge(path string, into any) error {
	c.transport.limit, c.transport.compressed = maxLargeBody, true
	defer func() { c.transport.limit, c.transport.compressed = maxBody, false }()
	return c.get(path, into)
}

// answer is the BMC's answer to a successful write.
type answer struct {
	status   int
	location string
	body     []byte
}

// send makes one write. Nothing below repeats it: net/http repeats a request that has a body
// only if no byte of it was sent.
func (c *conn) send(method, path string, body any, header map[string]string) error {
	_, err := c.sendAndRead(method, path, body, header)
	return err
}

// sendAndRead is send with the answer. A success status is a success, whatever the body says.
func (c *conn) sendAndRead(method, path string, body any, header map[string]string) (answer, error) {
	c.unfinished = nil // the write may change what was read
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
	return c.readAnswer(resp), nil
}

// readAnswer reads the answer to a successful write.
func (c *conn) readAnswer(resp *http.Response) answer {
	a := answer{status: resp.StatusCode, location: locationPath(resp)}
	a.body, _ = io.ReadAll(resp.Body) // bounded; a broken body is ignored
	discard(resp)
	return a
}

// patch changes a resource. If-Match is tag or, if tag is empty, the ETag that a read shows.
func (c *conn) patch(path, tag string, body any) error {
	if tag == "" {
		header, shown, err := c.tags(path)
		if err != nil && !errors.Is(err, bmc.ErrPasswordChange) { // before the change, an account may be unreadable
			return err
		}
		tag = cmp.Or(header, shown)
	}
	return c.patchTagged(path, tag, body)
}

// patchTagged changes a resource with If-Match: tag; empty: without. While the BMC refuses the
// precondition (412, or 428 without a tag), nothing was written, and the next tag is tried:
//   - the current ETag of the body, since the header's may belong to another resource or be
//     quoted twice; then that of the header;
//   - both without the weak mark, which If-Match never matches (RFC 9110 section 13.1.1);
//   - none, since some BMCs accept no tag (Gigabyte, see the history of sushy);
//   - "*".
func (c *conn) patchTagged(path, tag string, body any) error {
	err := c.patchWith(path, tag, body)
	if !isPreconditionFailed(err) {
		return err
	}
	var next []string
	if tag != "" {
		header, shown, readErr := c.tags(path)
		if readErr != nil {
			return readErr
		}
		strong := func(tag string) string { return strings.TrimPrefix(tag, "W/") }
		next = slices.DeleteFunc([]string{shown, header, strong(shown), strong(header)}, func(t string) bool { return t == "" })
	}
	tried := []string{tag}
	for _, tag := range append(next, "", "*") {
		if slices.Contains(tried, tag) {
			continue
		}
		tried = append(tried, tag)
		if err = c.patchWith(path, tag, body); !isPreconditionFailed(err) {
			return err
		}
	}
	return err
}

// tags reads a resource and returns the ETags of its header and of its body (DSP0266, ETags).
func (c *conn) tags(path string) (header, shown string, err error) {
	var r struct {
		Tag string `json:"@odata.etag"`
	}
	err = c.get(path, &r)
	return c.transport.last.etag, r.Tag, err
}

// patchWith sends a PATCH with If-Match: tag; empty: without.
func (c *conn) patchWith(path, tag string, body any) error {
	var header map[string]string
	if tag != "" {
		header = map[string]string{"If-Match": c.tagFor(tag)}
	}
	return c.send(http.MethodPatch, path, body, header)
}

// isPreconditionFailed reports whether the BMC refused the precondition of a write.
func isPreconditionFailed(err error) bool {
	e, ok := refusal(err)
	return ok && (e.status == http.StatusPreconditionFailed || e.status == http.StatusPreconditionRequired)
}

// members lists the paths of a collection, up to maxMembers, and follows nextLink. They are
// sorted, since some BMCs list in random order (field notes).
func (c *conn) members(path string) ([]string, error) { return c.membersUpTo(path, maxMembers) }

func (c *conn) membersUpTo(path string, limit int) ([]string, error) {
	var paths []string
	for page := 0; path != ""; page++ {
		if page > maxMembers {
			return nil, fmt.Errorf("read %s: %w: more than %d pages", c.short(path, 200), bmc.ErrProtocol, maxMembers)
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

// discard reads the rest of a body, so that the connection can be used again.
func discard(resp *http.Response) {
	_, _ = io.Copy(io.Discard, resp.Body) // bounded; an error only costs the connection
	_ = resp.Body.Close()
}

// decode reads JSON and leaves out fields of a wrong type, for which gofish would reject the
// whole resource.
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

// wrap adds what was attempted to an error.
func wrap(err *error, what string) {
	if *err != nil {
		*err = fmt.Errorf("%s: %w", what, *err)
	}
}

// Driver returns this driver with everything it can do. A BMC may support less.
func Driver() bmc.Driver {
	return bmc.Driver{Name: Scheme, Dial: Dial, Probe: Probe, TLS: true, Offers: []bmc.Capability{
		bmc.CapMedia, bmc.CapSettings, bmc.CapFirmware, bmc.CapFirmwareFetch, bmc.CapFirmwarePush, bmc.CapHealth, bmc.CapEventLog, bmc.CapAccounts,
		bmc.CapSecureBoot, bmc.CapReset, bmc.CapIndicator, bmc.CapEvents,
	}}
}

// PlainDriver returns the driver for HTTP without TLS. It has no Probe: Ingot uses it only for
// an address with that scheme.
func PlainDriver() bmc.Driver {
	d := Driver()
	d.Name, d.Probe, d.TLS = SchemeHTTP, nil, false
	return d
}
