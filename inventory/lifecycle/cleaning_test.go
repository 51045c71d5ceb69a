// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package lifecycle

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/resource"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/ingot-metal/ingot/agentapi"
	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/inventory"
)

func TestCleaningOfDisk(t *testing.T) {
	spins := infrav1.HardwareDisk{Name: "/dev/sdb", SerialNumber: "S2", SizeBytes: new(int64(8e12)), Rotational: new(true)}
	single := []infrav1.DiskCleaning{
		{Hints: infrav1.RootDeviceHints{SerialNumber: "S2"}, Mode: infrav1.CleaningFull},
		{Hints: infrav1.RootDeviceHints{Rotational: new(true)}, Mode: infrav1.CleaningMetadata},
	}
	for _, c := range []struct {
		name   string
		disk   infrav1.HardwareDisk
		single []infrav1.DiskCleaning
		want   infrav1.CleaningMode
	}{
		{"none of its own", spins, nil, infrav1.CleaningFull},
		{"the first that holds", spins, single, infrav1.CleaningFull},
		{"the second", spins, single[1:], infrav1.CleaningMetadata},
		{"none that holds", infrav1.HardwareDisk{Name: "/dev/sda", SerialNumber: "S1", Rotational: new(false)}, single, infrav1.CleaningFull},
		{"not known whether it spins", infrav1.HardwareDisk{Name: "/dev/sda"}, single[1:], infrav1.CleaningFull},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got := CleaningOfDisk(c.disk, infrav1.CleaningFull, c.single); got != c.want {
				t.Errorf("%s, want %s", got, c.want)
			}
		})
	}
}

// Storage that the agent did not see is reported as not cleaned. The host is used nevertheless.
func TestUnseenStorageIsNotCleaned(t *testing.T) {
	for name, tc := range map[string]struct {
		blind  []infrav1.HardwareController
		status metav1.ConditionStatus
		reason string
		says   string
	}{
		"all was seen": {nil, metav1.ConditionTrue, infrav1.ReasonCleaned, "confirmed the cleaning"},
		"one was not seen": {[]infrav1.HardwareController{{Address: "0000:3b:00.0", ID: "1000:0073"}},
			metav1.ConditionFalse, infrav1.ReasonStorageWithoutDriver, "not cleaned behind 1000:0073 at"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newScene(func(s *scene) {
				s.host.Spec.Record.SanitizedTime, s.host.Spec.Record.UncleanedStorage = metav1.Time{Time: day()}, tc.blind
			})
			s.obs.StorageWithoutDriver = []infrav1.HardwareController{{Address: "seen since"}}
			decision := Next(s.host, s.obs, DefaultPolicy())
			c := meta.FindStatusCondition(Conditions(s.host, s.obs, decision), infrav1.HostCleanedCondition)
			if c == nil || c.Status != tc.status || c.Reason != tc.reason || !strings.Contains(c.Message, tc.says) {
				t.Errorf("condition %+v", c)
			}
			if decision.Reason != infrav1.ReasonAvailable {
				t.Errorf("the host is %s", decision.Reason)
			}
		})
	}
}

// The record of unseen storage lasts until the next install.
func TestUncleanedStorageIsKeptUntilInstall(t *testing.T) {
	blind := []infrav1.HardwareController{{Address: "0000:3b:00.0", ID: "1000:0073"}}
	s := newScene(func(s *scene) {
		s.host.Spec.Claim = fencedClaim()
		s.host.Spec.Order = &infrav1.HostOrder{Kind: infrav1.OrderClean, ID: "x", CreationTime: metav1.Time{Time: day()},
			Result: &infrav1.OrderResult{Outcome: infrav1.OrderSucceeded, CompletionTime: metav1.Time{Time: day()}}}
		s.obs.StorageWithoutDriver = blind
	})
	save, saves := concludeWipe(&input{host: s.host, obs: s.obs, claim: s.host.Spec.Claim, record: s.host.Spec.Record, order: s.host.Spec.Order}).Step.(SaveLedger)
	if !saves {
		t.Fatal("nothing is saved")
	}
	if diff := cmp.Diff(blind, save.Ledger.Record.UncleanedStorage); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	save.Ledger.forgetCleaning()
	if save.Ledger.Record.UncleanedStorage != nil {
		t.Error("it outlives the next install")
	}
}

func TestCleanedDisks(t *testing.T) {
	good := agentapi.CleanedDisk{
		Disk: agentapi.DiskRef{Serial: "S1", SizeBytes: 1e12}, Mode: "Full", Method: "ATASecureErase",
		ErasedBytes: 1e12, VerifiedBytes: 4 << 20, FailedBefore: "ATAEnhancedSecureErase: aborted",
	}
	kept := infrav1.CleanedDisk{
		Disk: infrav1.DiskReference{SerialNumber: "S1", SizeBytes: new(int64(1e12))}, Mode: infrav1.CleaningFull, Method: "ATASecureErase",
		ErasedBytes: new(int64(1e12)), VerifiedBytes: new(int64(4 << 20)), FailedMethods: "ATAEnhancedSecureErase: aborted",
	}
	change := func(how func(*agentapi.CleanedDisk)) []agentapi.CleanedDisk {
		c := good
		how(&c)
		return []agentapi.CleanedDisk{c}
	}
	for _, c := range []struct {
		name string
		in   []agentapi.CleanedDisk
		want []infrav1.CleanedDisk
	}{
		{"none", nil, nil},
		{"one", []agentapi.CleanedDisk{good}, []infrav1.CleanedDisk{kept}},
		{"a mode that is none", change(func(c *agentapi.CleanedDisk) { c.Mode = "None" }), nil},
		{"no method", change(func(c *agentapi.CleanedDisk) { c.Method = "" }), nil},
		{"no name", change(func(c *agentapi.CleanedDisk) { c.Disk = agentapi.DiskRef{Serial: strings.Repeat("x", 300)} }), nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, CleanedDisks(c.in)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The record has every disk that a host can have. With many disks each has shorter texts.
func TestCleanedDisksAreCompleteForManyDisks(t *testing.T) {
	for _, c := range []struct{ reported, kept, words int }{
		{1, 1, 512}, {64, 64, 512}, {90, 90, 364}, {inventory.MaxDisks, inventory.MaxDisks, 128}, {inventory.MaxDisks + 1, inventory.MaxDisks, 128},
	} {
		t.Run(fmt.Sprint(c.reported), func(t *testing.T) {
			many := make([]agentapi.CleanedDisk, c.reported)
			for i := range many {
				many[i] = agentapi.CleanedDisk{Disk: agentapi.DiskRef{Serial: fmt.Sprint(i)}, Mode: "Full", Method: "Overwrite", FailedBefore: strings.Repeat("é", 2000)}
			}
			kept := CleanedDisks(many)
			if len(kept) != c.kept {
				t.Errorf("%d disks kept, want %d", len(kept), c.kept)
			}
			for _, disk := range kept {
				if n := len([]rune(disk.FailedMethods)); n != c.words {
					t.Fatalf("%d characters kept of each, want %d", n, c.words)
				}
			}
		})
	}
}

// A host with the maximum number of disks, with names and texts of maximum length in the report and
// in the record, fits into etcd (1.5 MiB, with room for the rest of the object).
func TestCleanedDisksFitIntoEtcd(t *testing.T) {
	many := make([]agentapi.CleanedDisk, inventory.MaxDisks)
	for i := range many {
		name := strings.Repeat("x", maxDiskName)
		many[i] = agentapi.CleanedDisk{Disk: agentapi.DiskRef{Serial: name, WWN: name, Path: name + name, SizeBytes: 1 << 60}, Mode: "Metadata",
			Method: strings.Repeat("x", maxMethod), ErasedBytes: 1 << 60, VerifiedBytes: 1 << 60, FailedBefore: strings.Repeat("\x01", maxFailedBefore)}
	}
	host := &infrav1.IngotHost{}
	kept := CleanedDisks(many)
	host.Spec.Record = &infrav1.HostRecord{CleanedDisks: kept}
	host.Spec.Order = &infrav1.HostOrder{Result: &infrav1.OrderResult{CleanedDisks: kept}}
	text, err := json.Marshal(host)
	if err != nil {
		t.Fatal(err)
	}
	if len(text) > 1<<20 {
		t.Errorf("%d bytes", len(text))
	}
}

// Each hint alone, for a disk that meets it and for one that does not.
func TestEveryHint(t *testing.T) {
	wanted := infrav1.HardwareDisk{
		Name: "/dev/sdb", HCTL: "2:0:1:0", Model: "PERC H755 Front", Vendor: "DELL", SerialNumber: "00b1", Rotational: new(false),
		WWN: "0x6f4ee080123456782d1a000012345678", SizeBytes: new(int64(960e9)),
	}
	other := infrav1.HardwareDisk{
		Name: "/dev/sda", HCTL: "2:0:0:0", Model: "ST8000NM", Vendor: "SEAGATE", SerialNumber: "ZA1", Rotational: new(true),
		WWN: "0x5000c500a1b2c3d4", SizeBytes: new(int64(8e12)),
	}
	for name, hints := range map[string]infrav1.RootDeviceHints{
		"deviceName":         {DeviceName: "/dev/sdb"},
		"hctl":               {HCTL: "2:0:1:0"},
		"model":              {Model: "perc"},
		"vendor":             {Vendor: "dell"},
		"serialNumber":       {SerialNumber: "00b1"},
		"wwn whole":          {WWN: "0x6F4EE080123456782D1A000012345678"},
		"wwn":                {WWN: "0x6f4ee08012345678"},
		"wwnWithExtension":   {WWNWithExtension: "0x6f4ee080123456782d1a000012345678"},
		"wwnVendorExtension": {WWNVendorExtension: "0x2D1A000012345678"},
		"maxSize":            {MaxSize: new(resource.MustParse("960G"))},
		"rotational":         {Rotational: new(false)},
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := inventory.SelectRootDisk([]infrav1.HardwareDisk{other, wanted}, &hints); err != nil || got.Name != wanted.Name {
				t.Errorf("%s, %v", got.Name, err)
			}
			if _, err := inventory.SelectRootDisk([]infrav1.HardwareDisk{other}, &hints); err == nil || !strings.Contains(err.Error(), strings.Fields(name)[0]) {
				t.Errorf("no disk suits: %v", err)
			}
		})
	}
	minimum := infrav1.RootDeviceHints{MinSize: new(resource.MustParse("961G"))}
	if got, err := inventory.SelectRootDisk([]infrav1.HardwareDisk{other, wanted}, &minimum); err != nil || got.Name != other.Name {
		t.Errorf("minSize: %s, %v", got.Name, err)
	}
	short := infrav1.RootDeviceHints{WWNWithExtension: "0x5000c500a1b2c3d4"}
	if got, err := inventory.SelectRootDisk([]infrav1.HardwareDisk{other, wanted}, &short); err != nil || got.Name != other.Name {
		t.Errorf("wwnWithExtension without one: %s, %v", got.Name, err)
	}
}

func TestMissingDisks(t *testing.T) {
	a, b := disk("/dev/sda", 100, "S1"), disk("/dev/sdb", 200, "S2")
	byPath := infrav1.HardwareDisk{Name: "/dev/vda", Path: "pci-0000:00:04.0"}
	moved := disk("/dev/sda", 50, "S2") // another name, another size
	root := []infrav1.DiskReference{{SerialNumber: "S2"}}
	for _, c := range []struct {
		name         string
		known, found []infrav1.HardwareDisk
		root         []infrav1.DiskReference
		want         []string
	}{
		{name: "nothing known, nothing found"},
		{name: "all", known: []infrav1.HardwareDisk{a, b}, found: []infrav1.HardwareDisk{b, a}, root: root},
		{name: "known by its serial number", known: []infrav1.HardwareDisk{b}, found: []infrav1.HardwareDisk{moved}},
		{name: "another disk in the same place", known: []infrav1.HardwareDisk{a}, found: []infrav1.HardwareDisk{moved}, want: []string{"S1"}},
		{name: "another path", known: []infrav1.HardwareDisk{byPath}, found: []infrav1.HardwareDisk{{Path: "pci-0000:00:05.0"}}, want: []string{"pci-0000:00:04.0"}},
		{name: "none found", known: []infrav1.HardwareDisk{a, b}, want: []string{"S1", "S2"}},
		{name: "the root disk is told once", known: []infrav1.HardwareDisk{a, b}, found: []infrav1.HardwareDisk{a}, root: root, want: []string{"S2"}},
		{name: "the other disk of a mirror", found: []infrav1.HardwareDisk{a}, root: []infrav1.DiskReference{{SerialNumber: "S1"}, {SerialNumber: "S3"}}, want: []string{"S3"}},
		{name: "the root disk alone", found: []infrav1.HardwareDisk{a}, root: root, want: []string{"S2"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			var got []string
			for _, ref := range MissingDisks(c.known, c.found, c.root) {
				got = append(got, ref.SerialNumber+ref.Path)
			}
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A cleaning waits for a removed disk until an operator requests an inspection, which therefore
// precedes the cleaning.
func TestInspectionPrecedesCleaning(t *testing.T) {
	asked := map[string]string{infrav1.InspectAnnotation: givenAt(day())}
	due := &infrav1.HostRecord{CleaningDue: infrav1.CleaningMetadata}
	for _, c := range []struct {
		name        string
		annotations map[string]string
		record      *infrav1.HostRecord
		claim       *infrav1.HostClaim
		want        infrav1.OrderKind
	}{
		{name: "due", record: due, want: infrav1.OrderClean},
		{name: "due, and asked to inspect", annotations: asked, record: due, want: infrav1.OrderInspect},
		{name: "being released", annotations: asked, record: due, claim: &infrav1.HostClaim{State: infrav1.ClaimReleasing}, want: infrav1.OrderClean},
		{name: "a machine's", annotations: asked, claim: &infrav1.HostClaim{State: infrav1.ClaimProvisioning}, want: infrav1.OrderInstall},
	} {
		t.Run(c.name, func(t *testing.T) {
			host := &infrav1.IngotHost{}
			host.Annotations, host.Spec.Claim, host.Spec.Record = c.annotations, c.claim, c.record
			in := &input{host: host, claim: c.claim, record: c.record}
			decision := createOrder(in)
			save, ok := decision.Step.(SaveLedger)
			if !ok || save.Ledger.Order == nil || save.Ledger.Order.Kind != c.want {
				t.Fatalf("%+v, want an order to %s", decision, c.want)
			}
			if c.claim == nil && (save.Ledger.Record == nil || save.Ledger.Record.CleaningDue != infrav1.CleaningMetadata) {
				t.Error("the cleaning is not due any more")
			}
		})
	}
}

// The instance whose marker is on the disks is known until they are cleaned. Otherwise neither the
// cleaning nor the next install could start (I8).
func TestLastInstanceIsKnownUntilCleaned(t *testing.T) {
	for name, c := range map[string]struct {
		attempt  int32
		cleaning infrav1.CleaningMode
		want     string
		earlier  []string
	}{
		"cleaning is due":       {1, infrav1.CleaningMetadata, "i2", []string{"i0", "i1"}},
		"no cleaning was asked": {1, infrav1.CleaningNone, "i2", []string{"i0", "i1"}},
		"never installed":       {0, infrav1.CleaningMetadata, "i1", []string{"i0"}},
	} {
		t.Run(name, func(t *testing.T) {
			ledger := Ledger{
				Claim:  &infrav1.HostClaim{InstanceID: "i2", ClusterName: "c", Attempt: c.attempt, Cleaning: c.cleaning},
				Record: &infrav1.HostRecord{LastInstanceID: "i1", EarlierInstanceIDs: []string{"i0"}},
			}
			ledger.endClaim()
			if ledger.Record.LastInstanceID != c.want {
				t.Errorf("%q, want %q", ledger.Record.LastInstanceID, c.want)
			}
			if diff := cmp.Diff(c.earlier, ledger.Record.EarlierInstanceIDs); diff != "" {
				t.Errorf("earlier (-want +got):\n%s", diff)
			}
			host := &infrav1.IngotHost{}
			host.Spec.Record = ledger.Record
			if diff := cmp.Diff(append(slices.Clone(c.earlier), c.want), ReleasedInstances(host)); diff != "" {
				t.Errorf("released (-want +got):\n%s", diff)
			}
			host.Spec.Record, host.Spec.Order = ledger.Record, &infrav1.HostOrder{Kind: infrav1.OrderClean, Result: &infrav1.OrderResult{}}
			decision := concludeWipe(&input{host: host, record: host.Spec.Record, order: host.Spec.Order})
			if save, ok := decision.Step.(SaveLedger); !ok || save.Ledger.Record.LastInstanceID != "" || save.Ledger.Record.EarlierInstanceIDs != nil {
				t.Errorf("%+v: after the cleaning nothing of an instance is left", decision)
			}
		})
	}
}

// The list of earlier instances is bounded, and keeps the one that wrote the disk for long.
func TestEarlierInstancesAreBounded(t *testing.T) {
	record := &infrav1.HostRecord{}
	for i := range 3 * maxEarlierInstances {
		rememberInstance(record, fmt.Sprint(i))
		rememberInstance(record, fmt.Sprint(i)) // a claim that ended twice
	}
	last := 3*maxEarlierInstances - 1
	want := []string{fmt.Sprint(last - maxEarlierInstances), fmt.Sprint(last - 1), fmt.Sprint(last)}
	got := record.EarlierInstanceIDs
	if len(got) != maxEarlierInstances || !slices.Equal(want, []string{got[0], got[len(got)-1], record.LastInstanceID}) {
		t.Errorf("%v, last %s, want %d from %s to %s, last %s", got, record.LastInstanceID, maxEarlierInstances, want[0], want[1], want[2])
	}
	rememberInstance(record, got[0])
	if got := record.EarlierInstanceIDs; slices.Contains(got, record.LastInstanceID) || len(got) != maxEarlierInstances {
		t.Errorf("%v besides the last, %s", got, record.LastInstanceID)
	}
}

// Both disks of a mirror are cleaned. The next claim may use one disk, and the other would start next
// to it.
func TestMirrorIsAlwaysCleaned(t *testing.T) {
	mirror := []infrav1.DiskReference{{SerialNumber: "B"}}
	for name, c := range map[string]struct {
		cleaning infrav1.CleaningMode
		mirror   []infrav1.DiskReference
		attempt  int32
		want     infrav1.CleaningMode
		cluster  string
	}{
		"a mirror, None":                  {infrav1.CleaningNone, mirror, 1, infrav1.CleaningMetadata, ""},
		"a mirror, Full":                  {infrav1.CleaningFull, mirror, 1, infrav1.CleaningFull, ""},
		"a mirror that was not installed": {infrav1.CleaningNone, mirror, 0, "", ""},
		"one disk, None":                  {infrav1.CleaningNone, nil, 1, "", "c"},
	} {
		t.Run(name, func(t *testing.T) {
			claim := &infrav1.HostClaim{InstanceID: "i", ClusterName: "c", Attempt: c.attempt, Cleaning: c.cleaning, MirrorDisks: c.mirror}
			if got := (&input{claim: claim}).nothingToClean(); got != (c.want == "") {
				t.Errorf("nothing to clean: %t", got)
			}
			ledger := Ledger{Claim: claim}
			ledger.endClaim()
			if ledger.Record.CleaningDue != c.want || ledger.Record.LastClusterName != c.cluster {
				t.Errorf("%+v", ledger.Record)
			}
		})
	}
}

func TestNotCleaned(t *testing.T) {
	a, b := agentapi.DiskRef{Serial: "A"}, agentapi.DiskRef{Serial: "B"}
	full := func(d agentapi.DiskRef) agentapi.CleanedDisk {
		return agentapi.CleanedDisk{Disk: d, Mode: "Full", Method: "Overwrite"}
	}
	for _, c := range []struct {
		name   string
		order  agentapi.CleanOrder
		report agentapi.Report
		want   []infrav1.DiskReference
	}{
		{name: "nothing ordered"},
		{name: "wiped", order: agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{a, b}}, report: agentapi.Report{CleanedDisks: []agentapi.DiskRef{b, a}}},
		{name: "more than ordered", order: agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{a}}, report: agentapi.Report{Cleaned: []agentapi.CleanedDisk{full(a)}}},
		{name: "erased", order: agentapi.CleanOrder{Mode: "Full", Disks: []agentapi.DiskRef{a, b}}, report: agentapi.Report{Cleaned: []agentapi.CleanedDisk{full(b), full(a)}}},
		{
			name: "one left out", order: agentapi.CleanOrder{Mode: "Metadata", Disks: []agentapi.DiskRef{a, b}}, report: agentapi.Report{CleanedDisks: []agentapi.DiskRef{a}},
			want: []infrav1.DiskReference{{SerialNumber: "B"}},
		},
		{
			name:   "wiped, and was to be erased",
			order:  agentapi.CleanOrder{Mode: "Full", Modes: []string{"Metadata", "Full"}, Disks: []agentapi.DiskRef{a, b}},
			report: agentapi.Report{CleanedDisks: []agentapi.DiskRef{a, b}, Cleaned: []agentapi.CleanedDisk{full(a)}},
			want:   []infrav1.DiskReference{{SerialNumber: "B"}},
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, NotCleaned(c.order, c.report)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func disk(name string, gigabytes int64, serial string) infrav1.HardwareDisk {
	return infrav1.HardwareDisk{Name: name, SerialNumber: serial, SizeBytes: new(gigabytes * inventory.BytesPerGB), Rotational: new(false)}
}
