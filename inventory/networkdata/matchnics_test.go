// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package networkdata

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Misfits lists every ethernet without an interface, and Fit reports the first.
func TestMisfitsListsEveryEthernet(t *testing.T) {
	data := func(nics ...infrav1.NICSelector) *infrav1.NetworkData {
		out := &infrav1.NetworkData{}
		for i, nic := range nics {
			out.Ethernets = append(out.Ethernets, ethernet("uplink"+string(rune('0'+i)), nic))
		}
		return out
	}
	tests := []struct {
		name string
		data *infrav1.NetworkData
		want []Misfit
	}{
		{"no data", nil, nil},
		{"all are there", data(port(1), port(2), boot), nil},
		{"one of three", data(port(1), infrav1.NICSelector{Driver: "mlx5_cor"}, boot), []Misfit{
			{1, "uplink1", "none of 4 interfaces have driver mlx5_cor"}}},
		{"two of three", data(infrav1.NICSelector{MAC: "52:54:00:00:00:99"}, port(2), infrav1.NICSelector{PCI: "0000:3b:00.*", Position: new(int32(3))}), []Misfit{
			{0, "uplink0", "none of 4 interfaces have MAC address 52:54:00:00:00:99"},
			{2, "uplink2", "position 3 of 2 interfaces that have bus address 0000:3b:00.*"}}},
		{"several, and one that is taken", data(infrav1.NICSelector{Driver: "mlx5_core"}, boot, infrav1.NICSelector{MAC: bootMAC}), []Misfit{
			{0, "uplink0", "2 interfaces have driver mlx5_core, and no position says which"},
			{2, "uplink2", "means interface " + bootMAC + " (eth1, 0000:02:00.0), as uplink1 does"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Misfits(tt.data, twoCards())); diff != "" {
				t.Errorf("misfits (-want +got):\n%s", diff)
			}
			var first Misfit
			err := Fit(tt.data, twoCards())
			switch {
			case len(tt.want) == 0:
				if err != nil {
					t.Error(err)
				}
			case !errors.Is(err, ErrMisfit) || !errors.As(err, &first) || first != tt.want[0]:
				t.Errorf("%v, want a misfit with %v", err, tt.want[0])
			}
		})
	}
}
