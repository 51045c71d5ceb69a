// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package idle

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
	"github.com/ingot-metal/ingot/lab/audit"
	"github.com/ingot-metal/ingot/lab/bmc"
	"github.com/ingot-metal/ingot/lab/management"
	"github.com/ingot-metal/ingot/test/lifecycle"
	"github.com/ingot-metal/ingot/test/needs"
	"github.com/ingot-metal/ingot/test/site"
)

const (
	// crowdHosts and crowdMinutes are the full size; INGOT_REST_HOSTS and
	// INGOT_REST_MINUTES ask for another one.
	crowdHosts, crowdMinutes = 1000, 10
	// crowdPassword of all BMCs, and the name of the objects that all hosts share.
	crowdPassword, shared = "a-password", "crowd"
	// crowdPatience bounds each wait before the rest.
	crowdPatience = 20 * time.Minute
)

// A crowd is many BMCs in this process, with nothing but a power switch behind each:
// a host at rest is asked, and does not boot. They are of all makers.
type crowd struct {
	site  *lifecycle.Site
	plane *lifecycle.Plane
	bmcs  map[string]*bmc.BMC
	names []string
}

// TestCrowdAtRest lets 1,000 free hosts rest for 10 minutes, with the waits of the
// manager as shipped. Free hosts are the worst case: provisioned ones are polled less.
func TestCrowdAtRest(t *testing.T) {
	hosts, minutes := asked("INGOT_REST_HOSTS", crowdHosts), asked("INGOT_REST_MINUTES", crowdMinutes)
	if !needs.IsFull() && hosts == crowdHosts {
		t.Skip("set INGOT_FULL=1, as make test-full does, or INGOT_REST_HOSTS=100 for fewer hosts")
	}
	c := newCrowd(t, hosts)
	c.site.StartManager(t, lifecycle.ManagerOptions{Name: "manager", Direct: true, Shorten: 1, Args: []string{"--leader-elect"}})
	c.site.CreateCluster(t)
	c.register(t)
	c.site.AwaitFor(t, crowdPatience, "free hosts", c.site.Free(c.names...))
	c.site.AwaitFor(t, crowdPatience, "silence", func(context.Context) (string, error) {
		writes, _, err := c.writes(time.Now().Add(-settled), time.Now())
		if len(writes) == 0 || err != nil {
			return "", err
		}
		time.Sleep(time.Second)
		return "silence after: " + site.Text(writes[len(writes)-1]), nil
	})

	counters := map[string]func() int{}
	for name, b := range c.bmcs {
		counters[name] = func() int { return b.Reads() + len(b.Writes()) }
	}
	m := startMeter(counters)
	w := window{from: time.Now()}
	time.Sleep(time.Duration(minutes) * time.Minute)
	w.to = time.Now()
	m.end()

	l := loadOf(m, c.names, w)
	t.Log(l.report(w))
	// What comes once a minute comes once more in a window with open ends.
	if limit := int(w.minutes()) + 1; l.most > limit || l.total == 0 {
		t.Errorf("the BMC of %s was asked %d times in %.1f minutes, want at most %d", l.busiest, l.most, w.minutes(), limit)
	}
	// Some requests at the ends of the window fall to its other side.
	if mean := float64(l.total) / float64(l.servers) / w.minutes(); mean > 1.005 {
		t.Errorf("%.2f requests per host and minute in the mean, want at most 1", mean)
	}
	c.quiet(t, w)
}

// asked is what a variable of the environment asks for, or the normal number.
func asked(variable string, normal int) int {
	if n, err := strconv.Atoi(os.Getenv(variable)); err == nil && n > 0 {
		return n
	}
	return normal
}

// newCrowd starts BMCs and a management cluster with an audit log.
func newCrowd(t *testing.T, hosts int) *crowd {
	t.Helper()
	plane := lifecycle.NewPlaneWith(t, lifecycle.PlaneOptions{Audit: true})
	c := &crowd{plane: plane, site: plane.NewSite(t, lifecycle.SiteOptions{Password: crowdPassword}), bmcs: map[string]*bmc.BMC{}}
	authority, err := bmc.NewAuthority()
	if err != nil {
		t.Fatal(err)
	}
	makers := bmc.Personalities()
	for i := range hosts {
		name := fmt.Sprintf("host-%04d", i)
		b, err := bmc.Start(bmc.Config{
			Authority: authority, Machine: &bmc.Bench{}, Username: "admin", Password: crowdPassword, Personality: makers[i%len(makers)],
			System: bmc.System{
				UUID: fmt.Sprintf("00000000-0000-4000-8000-%012d", i), Serial: name, MACs: []string{crowdMAC(i)},
				BMCUUID: fmt.Sprintf("00000000-0000-4000-9000-%012d", i),
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = b.Close() })
		c.names, c.bmcs[name] = append(c.names, name), b
	}
	for _, object := range []client.Object{
		&corev1.Secret{ObjectMeta: c.meta(shared), Data: map[string][]byte{
			infrav1.SecretKeyUsername: []byte("admin"), infrav1.SecretKeyPassword: []byte(crowdPassword),
		}},
		&corev1.ConfigMap{ObjectMeta: c.meta(shared), Data: map[string]string{infrav1.CAKey: string(authority.PEM())}},
	} {
		if err := c.site.Client.Create(t.Context(), object); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func crowdMAC(i int) string { return fmt.Sprintf("52:54:00:1c:%02x:%02x", i>>8, i&0xff) }

func (c *crowd) meta(name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Name: name, Namespace: c.site.Namespace}
}

// register makes the hosts, inspected in an earlier life, as a restore of a backup
// does (the administrator of the lab has the verb).
func (c *crowd) register(t *testing.T) {
	t.Helper()
	group, ctx := errgroup.WithContext(t.Context())
	group.SetLimit(8)
	for i, name := range c.names {
		group.Go(func() error {
			host := &infrav1.IngotHost{ObjectMeta: c.meta(name), Spec: infrav1.IngotHostSpec{
				BMC: &infrav1.BMC{
					Address: c.bmcs[name].Address() + c.bmcs[name].SystemPath(), CredentialsRef: infrav1.LocalReference{Name: shared},
					CABundleRef: &infrav1.CABundleReference{Name: shared},
				},
				BootMACAddress: crowdMAC(i), BootMode: infrav1.BootModeUEFI, NetworkRef: infrav1.NetworkReference{Name: c.site.Namespace},
				Record: &infrav1.HostRecord{InspectedTime: metav1.Now()},
			}}
			facts := &infrav1.IngotHardware{ObjectMeta: c.meta(name), Spec: infrav1.IngotHardwareSpec{
				Architecture: "amd64", MemoryBytes: 8 << 30,
				NICs:  []infrav1.HardwareNIC{{MAC: crowdMAC(i), Name: "eth0"}},
				Disks: []infrav1.HardwareDisk{{Name: "/dev/sda", SerialNumber: name, SizeBytes: ptr.To[int64](100_000_000_000)}},
			}}
			return errors.Join(c.site.Client.Create(ctx, host), c.site.Client.Create(ctx, facts))
		})
	}
	if err := group.Wait(); err != nil {
		t.Fatal(err)
	}
}

// writes are the manager's in a window; leases are counted apart.
func (c *crowd) writes(from, to time.Time) (writes []audit.Event, leases int, _ error) {
	events, err := audit.Read(c.plane.AuditLog())
	if err != nil {
		return nil, 0, err
	}
	for _, e := range events {
		switch {
		case e.User.Username != management.Username || !e.Changes() || e.Answered.Before(from) || e.Received.After(to):
		case e.Object.Resource == "leases":
			leases++
		default:
			writes = append(writes, e)
		}
	}
	return writes, leases, nil
}

// quiet: the manager wrote nothing in the window.
func (c *crowd) quiet(t *testing.T, w window) {
	t.Helper()
	writes, leases, err := c.writes(w.from, w.to)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("audit log of %.1f minutes with %d hosts: %d writes by Ingot, and %d renewals of its leader's lease, which do not count",
		w.minutes(), len(c.names), len(writes), leases)
	for _, e := range writes {
		t.Error(site.Text(e))
	}
	if leases == 0 {
		t.Error("the leader did not renew its lease: the audit log has nothing of Ingot")
	}
}
