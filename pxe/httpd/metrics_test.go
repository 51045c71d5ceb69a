// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/ingot-metal/ingot/pxe/httpd"
)

// Metrics have labels for kind and class, but not for path or address. Files are still sent by
// sendfile.
func TestRequestsAreCounted(t *testing.T) {
	h, file, _, _ := newHandler(t)
	registry := prometheus.NewRegistry()
	for range 2 { // a second server of the process uses the same metrics
		var err error
		if h.Metrics, err = httpd.NewMetrics(registry); err != nil {
			t.Fatal(err)
		}
	}
	var sendfile int
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h.ServeHTTP(&watched{ResponseWriter: w, used: &sendfile}, r)
	}))
	defer srv.Close()
	size := 0
	for _, path := range []string{file.Path(), file.Path(), "/files/00/none", "/boot/52:54:00:00:00:ff/script.ipxe", "/a/b/c/d"} {
		res, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil {
			t.Fatal(err)
		}
		if path == file.Path() {
			size += len(content)
		}
	}
	if sendfile != 2 {
		t.Errorf("%d files were sent by the kernel's way, want 2", sendfile)
	}
	gathered, err := registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, family := range gathered {
		for _, metric := range family.GetMetric() {
			var labels []string
			for _, label := range metric.GetLabel() {
				labels = append(labels, label.GetValue())
			}
			got[family.GetName()+" "+strings.Join(labels, " ")] = metric.GetCounter().GetValue() + metric.GetGauge().GetValue()
		}
	}
	for series, want := range map[string]float64{
		"ingot_boot_http_requests_total 2xx file": 2, "ingot_boot_http_requests_total 4xx file": 1,
		"ingot_boot_http_requests_total 4xx script": 1, "ingot_boot_http_requests_total 4xx other": 1,
		"ingot_boot_http_requests_total 5xx file": 0, "ingot_boot_http_requests_in_flight ": 0,
	} {
		if value, ok := got[series]; !ok || value != want {
			t.Errorf("%s is %v (%v), want %v", series, value, ok, want)
		}
	}
	if bytes := got["ingot_boot_http_sent_bytes_total file"]; bytes < float64(size) {
		t.Errorf("%v bytes of files were counted, %d were sent", bytes, size)
	}
	if n, err := testutil.GatherAndCount(registry, "ingot_boot_http_requests_total"); err != nil || n > 40 {
		t.Errorf("%d series, %v", n, err)
	}
}

// watched counts how often the server gets the file itself.
type watched struct {
	http.ResponseWriter
	used *int
}

func (w *watched) ReadFrom(src io.Reader) (int64, error) {
	*w.used++
	return w.ResponseWriter.(io.ReaderFrom).ReadFrom(src)
}

func (w *watched) Unwrap() http.ResponseWriter { return w.ResponseWriter }
