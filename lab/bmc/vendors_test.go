// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/bmc/personality"
)

// startNamed starts the BMC of a personality and logs in.
func startNamed(t *testing.T, name string, change func(*bmc.Config)) (*bmc.BMC, *bmc.Bench, *client, bmc.Personality) {
	t.Helper()
	p, ok := personality.Named(name)
	if !ok {
		t.Fatalf("no personality %q", name)
	}
	b, bench, c := start(t, func(cfg *bmc.Config) {
		cfg.Personality = p
		cfg.System.Cores, cfg.System.MemoryBytes = 16, 64<<30
		if change != nil {
			change(cfg)
		}
	})
	if !p.Quirks.BasicOnly {
		c.login()
	}
	return b, bench, c, p
}

// step is a request and its exact answer.
type step struct {
	method, path, body string
	status             int
	// text is part of the body.
	text string
	// match is sent as If-Match; "current" means the current ETag of the resource.
	match string
}

func (s step) run(c *client, p bmc.Personality) answer {
	c.t.Helper()
	path := strings.NewReplacer("{S}", p.System(), "{M}", p.Manager(), "{C}", p.Chassis()).Replace(s.path)
	var header []string
	switch s.match {
	case "":
	case "current":
		header = []string{"If-Match", strings.Replace(c.want(200, "GET", path, "").header.Get("ETag"), "-gzip", "", 1)}
	case "as sent":
		header = []string{"If-Match", c.want(200, "GET", path, "").header.Get("ETag")}
	default:
		header = []string{"If-Match", s.match}
	}
	a := c.want(s.status, s.method, path, strings.ReplaceAll(s.body, "{S}", p.System()), header...)
	if !strings.Contains(fmt.Sprint(a.body), s.text) {
		c.t.Fatalf("%s %s: %v, want %q in it", s.method, path, a.body, s.text)
	}
	return a
}

const (
	reset  = "{S}/Actions/ComputerSystem.Reset"
	oncePX = `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe"}}`
	whole  = `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"UEFI"}}`
	legacy = `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Pxe","BootSourceOverrideMode":"Legacy"}}`
	uriOf  = `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"UefiHttp","HttpBootUri":"%s"}}`
	image  = `{"Image":"http://images.example/os.iso"}`
	onceCD = `{"Boot":{"BootSourceOverrideEnabled":"Once","BootSourceOverrideTarget":"Cd"}}`
)

// quirkCases are the answers of the personalities; the source of each is docs/field-notes.md or a
// public issue that the personality names.
var quirkCases = []struct {
	name, personality string
	steps             []step
}{
	{"iLO: empty HttpBootUri", "hpe-ilo6", []step{
		{"PATCH", "{S}", fmt.Sprintf(uriOf, ""), 400, "PropertyValueFormatError", ""},
		{"PATCH", "{S}", fmt.Sprintf(uriOf, "http://boot.example/x.efi"), 204, "", ""},
	}},
	{"standard: empty HttpBootUri", "standard", []step{{"PATCH", "{S}", fmt.Sprintf(uriOf, ""), 204, "", ""}}},
	{"iLO: enabled with None", "hpe-ilo5", []step{
		{"PATCH", "{S}", `{"Boot":{"BootSourceOverrideEnabled":"Disabled","BootSourceOverrideTarget":"None"}}`, 400, "PropertyValueConflict", ""},
		{"PATCH", "{S}", `{"Boot":{"BootSourceOverrideEnabled":"Disabled"}}`, 204, "", ""},
	}},
	{"iLO 5: the mode is fixed, even the same", "hpe-ilo5", []step{
		{"PATCH", "{S}", whole, 400, "PropertyNotWritable", ""},
		{"PATCH", "{S}", oncePX, 204, "", ""},
	}},
	{"iLO 6: the mode is not", "hpe-ilo6", []step{{"PATCH", "{S}", legacy, 204, "", ""}}},
	{"iLO: the state it has", "hpe-ilo5", []step{
		{"POST", reset, `{"ResetType":"ForceRestart"}`, 400, "InvalidOperationForSystemState", ""},
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
		{"POST", reset, `{"ResetType":"On"}`, 400, "InvalidOperationForSystemState", ""},
	}},
	{"Dell: the state it has", "dell-idrac9", []step{
		{"POST", reset, `{"ResetType":"ForceOff"}`, 409, "PSU501", ""},
	}},
	{"Dell: mode only by a job", "dell-idrac9", []step{
		{"PATCH", "{S}", legacy, 400, "SYS410", ""},
		{"PATCH", "{S}", whole, 204, "", ""}, // the same mode passes
	}},
	{"Dell: Cd is not the virtual drive", "dell-idrac9", []step{
		{"PATCH", "{S}", onceCD, 204, "", ""},
		{"GET", "{M}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", "", 200, "ServerBoot.1.FirstBootDevice:CD-DVD", ""},
		{"PATCH", "{M}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", `{"Attributes":{"ServerBoot.1.BootOnce":"Enabled","ServerBoot.1.FirstBootDevice":"VCD-DVD"}}`, 204, "", ""},
		{"GET", "{M}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", "", 200, "ServerBoot.1.BootOnce:Enabled ServerBoot.1.FirstBootDevice:VCD-DVD", ""},
		{"GET", "{S}", "", 200, "BootSourceOverrideTarget:None", ""},
		{"PATCH", "{M}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", `{"Attributes":{"ServerBoot.1.FirstBootDevice":"Tape"}}`, 400, "SYS428", ""},
		{"PATCH", "{S}", oncePX, 204, "", ""},
		{"GET", "{M}/Oem/Dell/DellAttributes/iDRAC.Embedded.1", "", 200, "ServerBoot.1.FirstBootDevice:PXE", ""},
	}},
	{"Dell: attributes before there was a link", "dell-idrac9-early", []step{
		{"PATCH", "{M}/Attributes", `{"Attributes":{"ServerBoot.1.FirstBootDevice":"VCD-DVD","ServerBoot.1.BootOnce":"Disabled"}}`, 204, "", ""},
		{"GET", "{M}/Attributes", "", 200, "ServerBoot.1.BootOnce:Disabled ServerBoot.1.FirstBootDevice:VCD-DVD", ""},
	}},
	{"Dell: SimpleUpdate with If-Match", "dell-idrac9", []step{
		{"POST", "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate", `{"ImageURI":"http://127.0.0.1:1/x"}`, 412, "PreconditionFailed", `"x"`},
	}},
	{"iDRAC10: Boot is read-only on the system", "dell-idrac10", []step{
		{"PATCH", "{S}", oncePX, 400, "The property Boot is a read-only property", ""},
		{"PATCH", "{S}/Settings", oncePX, 428, "PreconditionRequired", ""},
		{"PATCH", "{S}/Settings", oncePX, 412, "PreconditionFailed", "as sent"}, // with its -gzip
		{"PATCH", "{S}/Settings", oncePX, 204, "", "current"},
	}},
	{"iDRAC10: On right after ForceOff", "dell-idrac10", []step{
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
		{"POST", reset, `{"ResetType":"ForceOff"}`, 204, "", ""},
		{"POST", reset, `{"ResetType":"On"}`, 409, "ResourceInUse", ""},
		{"POST", reset, `{"ResetType":"On"}`, 409, "ResourceInUse", ""},
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
	}},
	{"Supermicro: Enabled always", "supermicro-x12", []step{
		{"PATCH", "{S}", `{"Boot":{"BootSourceOverrideTarget":"Pxe"}}`, 400, "BootSourceOverrideEnabled is missing", ""},
	}},
	{"Supermicro: the mode falls back", "supermicro-x11", []step{
		{"PATCH", "{S}", oncePX, 204, "", ""},
		{"GET", "{S}", "", 200, "BootSourceOverrideMode:Legacy", ""},
	}},
	{"Supermicro X11: no HttpBootUri", "supermicro-x11", []step{
		{"PATCH", "{S}", `{"Boot":{"BootSourceOverrideEnabled":"Once","HttpBootUri":"http://x/"}}`, 400, "PropertyUnknown", ""},
	}},
	{"Supermicro X11: Manager.Reset without a type", "supermicro-x11", []step{
		{"POST", "{M}/Actions/Manager.Reset", `{"ResetType":"GracefulRestart"}`, 400, "ActionParameterUnknown", ""},
		{"POST", "{M}/Actions/Manager.Reset", `{}`, 204, "", ""},
	}},
	{"Supermicro X11: the image stays on show", "supermicro-x11", []step{
		{"POST", "{M}/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia", `{"Image":"http://images.example/os.iso","Inserted":true}`, 400, "ActionParameterUnknown", ""},
		{"POST", "{M}/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia", `{"Image":"http://images.example/os.iso?token=1"}`, 400, "FormatError", ""},
		{"POST", "{M}/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia", image, 204, "", ""},
		{"POST", "{M}/VirtualMedia/CD1/Actions/VirtualMedia.EjectMedia", `{}`, 204, "", ""},
		{"GET", "{M}/VirtualMedia/CD1", "", 200, "ImageName:os.iso Inserted:false", ""},
	}},
	{"Lenovo: media by PATCH", "lenovo-xcc", []step{
		{"GET", "{M}/VirtualMedia/EXT1", "", 200, "Inserted:false", ""},
		{"POST", "{M}/VirtualMedia/EXT1/Actions/VirtualMedia.InsertMedia", image, 404, "ResourceMissingAtURI", ""},
		{"PATCH", "{M}/VirtualMedia/RDOC1", image, 404, "ActionNotSupported", ""},
		{"PATCH", "{M}/VirtualMedia/EXT1", image, 204, "", ""},
		{"GET", "{M}/VirtualMedia/EXT1", "", 200, "Inserted:true", ""},
		{"PATCH", "{M}/VirtualMedia/EXT1", `{"Image":null,"Inserted":false}`, 204, "", ""},
		{"GET", "{M}/VirtualMedia/EXT1", "", 200, "Inserted:false", ""},
	}},
	{"Lenovo: in POST", "lenovo-xcc", []step{
		{"PATCH", "{S}", oncePX, 204, "", ""},
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
		{"PATCH", "{S}", oncePX, 400, "in POST", ""},
		{"PATCH", "{S}", oncePX, 400, "in POST", ""},
		{"PATCH", "{S}", oncePX, 204, "", ""},
	}},
	{"OpenBMC: the first slot takes nothing", "openbmc", []step{
		{"POST", "{M}/VirtualMedia/Slot_0/Actions/VirtualMedia.InsertMedia", image, 405, "takes no image", ""},
		{"POST", "{M}/VirtualMedia/Slot_2/Actions/VirtualMedia.InsertMedia", image, 400, "ResourceAtUriInUnknownFormat", ""},
		{"POST", "{M}/VirtualMedia/Slot_2/Actions/VirtualMedia.InsertMedia", strings.Replace(image, "http:", "https:", 1), 204, "", ""},
	}},
	{"OpenBMC: transitional states", "openbmc", []step{
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
		{"GET", "{S}", "", 200, "PowerState:PoweringOn", ""},
		{"GET", "{S}", "", 200, "PowerState:On", ""},
		{"POST", reset, `{"ResetType":"GracefulShutdown"}`, 204, "", ""},
		{"GET", "{S}", "", 200, "PowerState:Off", ""},
	}},
	{"OpenBMC: no Bios", "openbmc", []step{{"GET", "{S}/Bios", "", 404, "", ""}, {"GET", "{S}/SecureBoot", "", 404, "", ""}}},
	{"AMI: future state", "ami", []step{
		{"PATCH", "{S}", whole, 400, "Ami.1.0.OperationSupportedInFutureStateURI", ""},
		{"PATCH", "{S}/SD", whole, 428, "PreconditionRequired", ""},
		{"PATCH", "{S}/SD", oncePX, 400, "go together", "current"},
		{"PATCH", "{S}/SD", whole, 204, "", "current"},
	}},
	{"AMI: settings with an ETag", "ami", []step{
		{"PATCH", "{S}/Bios/SD", `{"Attributes":{"QuietBoot":false}}`, 428, "PreconditionRequired", ""},
		{"PATCH", "{S}/Bios/SD", `{"Attributes":{"QuietBoot":false}}`, 412, "PreconditionFailed", `"other"`},
		{"PATCH", "{S}/Bios/SD", `{"Attributes":{"QuietBoot":false}}`, 204, "", "current"},
	}},
	{"AMI: a new password ends the session", "ami", []step{
		{"PATCH", "/redfish/v1/AccountService/Accounts/1", `{"Password":"new secret"}`, 204, "", ""},
		{"GET", "{S}", "", 401, "NoValidSession", ""},
	}},
	{"standard: it does not", "standard", []step{
		{"PATCH", "/redfish/v1/AccountService/Accounts/1", `{"Password":"new secret"}`, 204, "", ""},
		{"GET", "{S}", "", 200, "", ""},
	}},
	{"Supermicro: passwords of 20 bytes", "supermicro-x12", []step{
		{"PATCH", "/redfish/v1/AccountService/Accounts/2", `{"Password":"123456789012345678901"}`, 400, "PropertyValueFormatError", ""},
	}},
	{"Dell: empty accounts", "dell-idrac9", []step{
		{"GET", "/redfish/v1/AccountService/Accounts/1", "", 200, "UserName:]", ""},
		{"GET", "/redfish/v1/AccountService/Accounts/2", "", 200, "UserName:admin", ""},
	}},
	{"iLO: drives without a state", "hpe-ilo5", []step{{"GET", "{S}/Storage/1/Drives/1", "", 200, "Status:map[Health:OK]", ""}}},
	{"standard: drives with one", "standard", []step{{"GET", "{S}/Storage/1/Drives/1", "", 200, "State:Enabled", ""}}},
	{"Dell: media below the manager", "dell-idrac9", []step{{"GET", "{M}/VirtualMedia/CD", "", 200, "CD DVD", ""}, {"GET", "{S}/VirtualMedia", "", 404, "", ""}}},
	{"iDRAC10: media below the system", "dell-idrac10", []step{{"GET", "{S}/VirtualMedia/1", "", 200, "CD DVD", ""}, {"GET", "{M}/VirtualMedia", "", 404, "", ""}}},
	{"no sessions: Basic alone", "basic-only", []step{
		{"GET", "/redfish/v1/SessionService", "", 401, "", ""},
		{"POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`, 401, "", ""},
	}},
	{"iLO: in POST, by ID alone", "hpe-ilo6", []step{
		{"POST", reset, `{"ResetType":"On"}`, 204, "", ""},
		{"PATCH", "{S}", oncePX, 400, "UnableToModifyDuringSystemPOST", ""},
		{"PATCH", "{S}/SecureBoot", `{"SecureBootEnable":true}`, 400, "See @Message.ExtendedInfo", ""},
		{"PATCH", "{S}", oncePX, 204, "", ""},
	}},
	{"standard: accounts of Redfish", "standard", []step{{"GET", "/redfish/v1/AccountService/Accounts/1", "", 200, "AccountTypes:[Redfish]", ""}}},
	{"Dell: names of a registry differ in the version", "dell-idrac9", []step{
		{"GET", "{S}/Bios", "", 200, "AttributeRegistry:BiosAttributeRegistry.v1_0_3", ""},
		{"GET", "/redfish/v1/Registries/BiosAttributeRegistry.v1_0_0", "", 200, "Location", ""},
	}},
	{"Supermicro: the file has another name", "supermicro-x12", []step{
		{"GET", "{S}/Bios", "", 200, "AttributeRegistry:BiosAttributeRegistry.1.0.0", ""},
		{"GET", "/redfish/v1/Registries/BiosAttributeRegistry.v1_0_0", "", 200, "Registry:BiosAttributeRegistry1.0", ""},
	}},
	{"standard: members in one answer", "standard", []step{
		{"GET", "/redfish/v1/UpdateService/FirmwareInventory?$expand=.($levels=1)", "", 200, "Version:", ""},
	}},
	{"OpenBMC: the password of the factory", "openbmc-factory", []step{
		{"GET", "{S}", "", 403, "PasswordChangeRequired", ""},
		{"PATCH", "/redfish/v1/AccountService/Accounts/root", `{"Password":"new-secret-1"}`, 204, "", ""},
		{"GET", "{S}", "", 200, "", ""},
	}},
	{"AMI: weak tags", "ami-megarac", []step{
		{"PATCH", "{S}/SD", whole, 412, "", "as sent"},
	}},
	{"Supermicro X11: UUID in the other byte order", "supermicro-x11", []step{{"GET", "{S}", "", 200, "UUID:528A3B9F-1D0C-6F4E-8A7B-112233445566", ""}}},
	{"Dell: UUID in lower case", "dell-idrac9", []step{{"GET", "{S}", "", 200, "UUID:9f3b8a52-0c1d-4e6f-8a7b-112233445566", ""}}},
}

func TestQuirks(t *testing.T) {
	for _, tc := range quirkCases {
		t.Run(tc.name, func(t *testing.T) {
			_, _, c, p := startNamed(t, tc.personality, nil)
			for _, s := range tc.steps {
				s.run(c, p)
			}
		})
	}
}

// TestSingleQuirks checks quirks that no personality has, or that are clearer alone.
func TestSingleQuirks(t *testing.T) {
	for _, tc := range []struct {
		name  string
		set   func(*bmc.Quirks)
		steps []step
	}{
		{"Cisco: 400 from a slot", func(q *bmc.Quirks) { q.DumbSlots, q.DumbSlotStatus = 1, 400 }, []step{
			{"POST", "{S}/VirtualMedia/CD1/Actions/VirtualMedia.InsertMedia", image, 400, "takes no image", ""},
		}},
		{"a drive that cannot be read", func(q *bmc.Quirks) { q.BrokenDrive = true }, []step{
			{"GET", "{S}/Storage/1", "", 200, "Drives/1", ""}, {"GET", "{S}/Storage/1/Drives/1", "", 500, "InternalError", ""},
		}},
		{"an interface that cannot be read", func(q *bmc.Quirks) { q.BrokenInterface = true }, []step{
			{"GET", "{S}/EthernetInterfaces/1", "", 500, "InternalError", ""},
		}},
		{"no mode (Supermicro X10)", func(q *bmc.Quirks) { q.NoBootMode = true }, []step{
			{"PATCH", "{S}", whole, 400, "BootSourceOverrideMode is unknown", ""}, {"PATCH", "{S}", oncePX, 204, "", ""},
		}},
		{"several systems", func(q *bmc.Quirks) { q.Systems = 3 }, []step{
			{"GET", "/redfish/v1/Systems", "", 200, "Members@odata.count:3", ""}, {"GET", "/redfish/v1/Systems/other-2", "", 200, "PowerState:Off", ""},
			{"GET", "/redfish/v1/Systems/other-3", "", 404, "", ""},
			{"POST", "/redfish/v1/Systems/other-2/Actions/ComputerSystem.Reset", `{"ResetType":"On"}`, 405, "", ""},
		}},
		{"reset types in an ActionInfo", func(q *bmc.Quirks) { q.ResetTypesByActionInfo = true }, []step{
			{"GET", "{S}", "", 200, "ResetActionInfo", ""}, {"GET", "{S}/ResetActionInfo", "", 200, "ForceOff", ""},
		}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			_, _, c, _ := startNamed(t, "standard", func(cfg *bmc.Config) { tc.set(&cfg.Personality.Quirks) })
			for _, s := range tc.steps {
				s.run(c, personality.Standard())
			}
		})
	}
}

// TestNoDeadLinksOfPersonalities follows all references from the root of each personality.
func TestNoDeadLinksOfPersonalities(t *testing.T) {
	for _, p := range bmc.Personalities() {
		t.Run(p.Name, func(t *testing.T) {
			_, _, c, _ := startNamed(t, p.Name, nil)
			seen := map[string]bool{}
			var walk func(v any)
			walk = func(v any) {
				switch v := v.(type) {
				case []any:
					for _, e := range v {
						walk(e)
					}
				case map[string]any:
					for key, e := range v {
						path, ok := e.(string)
						if ok && (key == "@odata.id" || key == "@Redfish.ActionInfo" || key == "Uri") && !strings.Contains(path, "#") && !seen[path] {
							seen[path] = true
							walk(c.want(200, "GET", path, "").body)
						}
						walk(e)
					}
				}
			}
			walk(map[string]any{"@odata.id": "/redfish/v1/"})
			if len(seen) < 40 {
				t.Errorf("only %d resources found", len(seen))
			}
			if got := c.want(200, "GET", p.System(), "").body["Model"]; got != p.Model {
				t.Errorf("model %v, want %s", got, p.Model)
			}
		})
	}
}

func TestNamesAreUnique(t *testing.T) {
	want := []string{"standard", "dell-idrac9", "dell-idrac10", "hpe-ilo5", "hpe-ilo6", "supermicro-x11", "supermicro-x12", "lenovo-xcc", "openbmc", "ami",
		"dell-idrac9-early", "openbmc-early"}
	var got []string
	for _, p := range bmc.Personalities() {
		got = append(got, p.Name)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("names (-want +got):\n%s", diff)
	}
	if _, ok := personality.Named("unknown"); ok {
		t.Error("unknown name found")
	}
}

func TestSessionsOfPersonalities(t *testing.T) {
	t.Run("Dell has 8", func(t *testing.T) {
		_, _, c, _ := startNamed(t, "dell-idrac9", nil)
		for range 7 {
			c.login()
		}
		a := c.want(400, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
		if !strings.Contains(fmt.Sprint(a.body), "SessionLimitExceeded") {
			t.Errorf("answer %v", a.body)
		}
	})
	t.Run("Basic where it is accepted", func(t *testing.T) {
		for _, p := range bmc.Personalities() {
			b, _, c, _ := startNamed(t, p.Name, nil)
			c.token = ""
			want := 401
			if p.Basic {
				want = 200
			}
			c.want(want, "GET", p.System(), "", "Authorization", "Basic YWRtaW46c2VjcmV0")
			c.want(401, "GET", p.System(), "", "Authorization", "Basic YWRtaW46d3Jvbmc=")
			if n := b.BasicRequests(); (n == 2) != p.Basic {
				t.Errorf("%s: %d requests with Basic credentials", p.Name, n)
			}
		}
	})
}

// TestFullTableStatus checks the answer to a login if all sessions are in use.
func TestFullTableStatus(t *testing.T) {
	_, _, c, _ := startNamed(t, "standard", func(cfg *bmc.Config) {
		cfg.Personality.Quirks.FullTableStatus, cfg.MaxSessions = 503, 1
	})
	c.want(503, "POST", "/redfish/v1/SessionService/Sessions", `{"UserName":"admin","Password":"secret"}`)
}
