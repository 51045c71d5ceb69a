// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package sushy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/ingot-metal/ingot/lab/bmc/endpoint"
	"github.com/ingot-metal/ingot/lab/bmc/machine"
)

// Config describes one sushy-emulator.
type Config struct {
	// Machine is the server. Required.
	Machine machine.Machine
	// Authority signs the certificate; nil: HTTP without TLS, as without SUSHY_EMULATOR_SSL_CERT.
	Authority *endpoint.Authority
	// Username and Password of SUSHY_EMULATOR_AUTH_FILE; empty: no authentication.
	Username, Password string
	// UUID and Name of the system, MACs of its interfaces. UUID is required.
	UUID, Name string
	MACs       []string
	// Cores and Memory; 0: not shown, as with the fake driver.
	Cores, MemoryGiB int
	// BIOS enables the BIOS resource with the attributes of the libvirt driver; the fake driver has
	// none.
	BIOS bool
	// PowerDelay is the duration of a power action (1 to 11 seconds with the fake driver).
	PowerDelay time.Duration
	// Fetch fetches the image of an InsertMedia before the answer; nil: not fetched.
	Fetch func(ctx context.Context, url string) error
}

// Server is a running sushy-emulator. It is safe for concurrent use.
type Server struct {
	cfg      Config
	endpoint *endpoint.Endpoint
	switches sync.WaitGroup

	mu         sync.Mutex
	target     machine.Target
	mode       machine.Mode
	secureBoot bool
	led        string
	bios       map[string]string
	media      map[string]*medium
}

// medium is the content of one slot.
type medium struct {
	image, username, password string
	inserted, protected       bool
}

type object = map[string]any

// Start starts a server on a free port of 127.0.0.1. Close stops it.
func Start(cfg Config) (*Server, error) {
	if cfg.Machine == nil || cfg.UUID == "" {
		return nil, errors.New("start sushy-emulator: machine and UUID are required")
	}
	s := &Server{
		cfg: cfg, target: machine.TargetDisk, mode: machine.UEFI, led: "Lit",
		media: map[string]*medium{"Cd": {}, "Floppy": {}},
	}
	if cfg.BIOS {
		s.bios = biosDefaults()
	}
	ep := endpoint.Config{Authority: cfg.Authority, Handler: s, Plain: cfg.Authority == nil}
	if ep.Plain {
		ep.Authority = &endpoint.Authority{} // unused, but endpoint reads its certificate
	}
	var err error
	if s.endpoint, err = endpoint.Start(ep); err != nil {
		return nil, fmt.Errorf("start sushy-emulator: %w", err)
	}
	return s, nil
}

// Address returns redfish+http://host:port, or redfish://host:port with a certificate.
func (s *Server) Address() string {
	if s.cfg.Authority != nil {
		return "redfish://" + s.endpoint.Addr().String()
	}
	return "redfish+http://" + s.endpoint.Addr().String()
}

// SystemPath returns the path of the system.
func (s *Server) SystemPath() string { return root + "/Systems/" + s.cfg.UUID }

// Image returns the image in the CD drive; empty: none.
func (s *Server) Image() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.media["Cd"].image
}

// Close stops the server and waits for running power actions.
func (s *Server) Close() error {
	err := s.endpoint.Close()
	s.switches.Wait()
	return err
}

// answer is a status with a body: an object, or a text that is sent unchanged.
type answer struct {
	status   int
	body     any
	location string
}

func done() answer { return answer{status: http.StatusNoContent} }

// fail returns an error in sushy-tools' only format (templates/error.json).
func fail(status int, message string) answer {
	return answer{status: status, body: object{"error": object{
		"code": "Base.1.0.GeneralError", "message": message, "@Message.ExtendedInfo": []object{{
			"@odata.type": "/redfish/v1/$metadata#Message.1.0.0.Message", "MessageId": "Base.1.0.GeneralError",
		}},
	}}}
}

func missing() answer {
	return fail(http.StatusNotFound, "404 Not Found: The requested URL was not found on the server. "+
		"If you entered the URL manually please check your spelling and try again.")
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	path := "/" + strings.Trim(r.URL.Path, "/")
	a, ok := s.authenticate(r, path)
	if ok {
		a = s.route(r, path)
	}
	w.Header().Set("Connection", "close")
	w.Header().Set("Content-Type", "application/json")
	if a.location != "" {
		w.Header().Set("Location", a.location)
	}
	if a.status == http.StatusUnauthorized {
		w.Header().Set("WWW-Authenticate", `Basic realm="Baremetal API"`)
	}
	w.WriteHeader(a.status)
	switch body := a.body.(type) {
	case nil:
	case string:
		_, _ = io.WriteString(w, body)
	default:
		_ = json.NewEncoder(w).Encode(body)
	}
}

// authenticate is RedfishAuthMiddleware: the root needs no credentials.
func (s *Server) authenticate(r *http.Request, path string) (answer, bool) {
	if s.cfg.Password == "" || path == "/" || path == "/redfish" || path == root {
		return answer{}, true
	}
	header := r.Header.Get("Authorization")
	if header == "" {
		return fail(http.StatusUnauthorized, "Authorization required"), false
	}
	username, password, ok := r.BasicAuth()
	if !ok {
		kind, _, _ := strings.Cut(header, " ")
		return fail(http.StatusBadRequest, fmt.Sprintf("Unsupported authorization type %q", kind)), false
	}
	if username != s.cfg.Username || password != s.cfg.Password {
		return fail(http.StatusUnauthorized, "Incorrect username or password"), false
	}
	return answer{}, true
}

// decode decodes a body as Flask does: the Content-Type must be JSON.
func decode(r *http.Request, into any) (answer, bool) {
	if !strings.HasPrefix(r.Header.Get("Content-Type"), "application/json") {
		return fail(http.StatusUnsupportedMediaType, "415 Unsupported Media Type: Did not attempt to load JSON data because the request Content-Type was not 'application/json'."), false
	}
	if err := json.NewDecoder(io.LimitReader(r.Body, 1<<20)).Decode(into); err != nil {
		return fail(http.StatusBadRequest, "400 Bad Request: The browser (or proxy) sent a request that this server could not understand."), false
	}
	return answer{}, true
}

// power starts a power action.
func (s *Server) power(r *http.Request) answer {
	var body struct{ ResetType string }
	if a, ok := decode(r, &body); !ok {
		return a
	}
	action := map[string]machine.Action{
		"On": machine.On, "ForceOn": machine.On, "ForceOff": machine.Off, "GracefulShutdown": machine.Shutdown,
		"ForceRestart": machine.Reset, "GracefulRestart": machine.Reboot, "Nmi": "",
	}
	do, known := action[body.ResetType]
	if !known {
		return fail(http.StatusNotImplemented, "Power state "+body.ResetType+" is not supported")
	}
	if do == "" {
		return done()
	}
	if s.cfg.PowerDelay == 0 {
		_ = s.cfg.Machine.Power(r.Context(), do)
		return done()
	}
	s.switches.Go(func() {
		time.Sleep(s.cfg.PowerDelay)
		_ = s.cfg.Machine.Power(context.Background(), do)
	})
	return done()
}

// patchSystem changes the boot override and the indicator LED.
func (s *Server) patchSystem(r *http.Request) answer {
	var body struct {
		Boot *struct {
			Target      machine.Target `json:"BootSourceOverrideTarget"`
			Mode        machine.Mode   `json:"BootSourceOverrideMode"`
			HTTPBootURI string         `json:"HttpBootUri"`
		}
		IndicatorLED string
	}
	if a, ok := decode(r, &body); !ok {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if body.Boot == nil && body.IndicatorLED == "" {
		return answer{status: http.StatusBadRequest, body: "PATCH only works for Boot and IndicatorLED elements"}
	}
	if b := body.Boot; b != nil {
		if b.Target == "" && b.Mode == "" {
			return answer{status: http.StatusBadRequest, body: "Missing the BootSourceOverrideTarget and/or BootSourceOverrideMode and/or HttpBootUri element"}
		}
		if b.Target == machine.TargetHTTP { // a URL boots as CD, DHCP as PXE
			if b.Target = machine.TargetPXE; b.HTTPBootURI != "" {
				b.Target = machine.TargetCD
			}
		}
		if b.Target != "" {
			s.target = b.Target
		}
		if b.Mode != "" {
			s.mode = b.Mode
		}
		s.cfg.Machine.SetBoot(machine.Boot{Enabled: machine.Continuous, Target: s.target, Mode: s.mode})
	}
	switch body.IndicatorLED {
	case "":
	case "Lit", "Off", "Blinking":
		s.led = body.IndicatorLED
	default:
		return fail(http.StatusInternalServerError, "Unknown indicator state "+body.IndicatorLED+", ID "+s.cfg.UUID)
	}
	return done()
}

// insert inserts an image into a slot.
func (s *Server) insert(r *http.Request, slot string) answer {
	body := struct {
		Image                    string
		Inserted, WriteProtected *bool
		UserName, Password       string
	}{}
	if a, ok := decode(r, &body); !ok {
		return a
	}
	if (body.UserName == "") != (body.Password == "") {
		return fail(http.StatusBadRequest, "UserName and Password must be passed together")
	}
	if s.cfg.Fetch != nil {
		if err := s.cfg.Fetch(r.Context(), body.Image); err != nil {
			return fail(http.StatusInternalServerError, "Failed fetching image from URL "+body.Image+": "+err.Error())
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	isTrue := func(b *bool) bool { return b == nil || *b }
	s.media[slot] = &medium{
		image: body.Image, username: body.UserName, password: body.Password, inserted: isTrue(body.Inserted), protected: isTrue(body.WriteProtected),
	}
	return done()
}

func (s *Server) eject(slot string) answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.media[slot] = &medium{}
	return done()
}

// patchSecureBoot takes effect at once, as does patchBIOS.
func (s *Server) patchSecureBoot(r *http.Request) answer {
	var body struct{ SecureBootEnable bool }
	if a, ok := decode(r, &body); !ok {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.secureBoot = body.SecureBootEnable
	return done()
}

func (s *Server) patchBIOS(r *http.Request) answer {
	var body struct{ Attributes map[string]string }
	if a, ok := decode(r, &body); !ok {
		return a
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, value := range body.Attributes {
		s.bios[name] = value
	}
	return done()
}

func (s *Server) resetBIOS() answer {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.bios = biosDefaults()
	return done()
}

// biosDefaults returns DEFAULT_BIOS_ATTRIBUTES of the libvirt driver.
func biosDefaults() map[string]string {
	return map[string]string{
		"BootMode": "Uefi", "EmbeddedSata": "Raid", "L2Cache": "10x256 KB", "NicBoot1": "NetworkBoot", "NumCores": "10", "QuietBoot": "true",
		"ProcTurboMode": "Enabled", "SecureBootStatus": "Enabled", "SerialNumber": "QPX12345", "SysPassword": "",
	}
}
