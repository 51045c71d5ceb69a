// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package httpd

import (
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/ingot-metal/ingot/pxe/collect"
)

type kind int

const (
	kindOther kind = iota
	kindScript
	kindFile
	kindImage
	kindLoader
	kindUnified
	kindMedia
	kinds
)

func (k kind) String() string {
	return [kinds]string{"other", "script", "file", "image", "loader", "unified", "disc"}[k]
}

func requestKind(part []string) kind {
	switch {
	case len(part) == 3 && part[0] == "boot" && part[2] == "agent.efi":
		return kindUnified
	case len(part) == 3 && part[0] == "boot", len(part) == 1 && part[0] == autoExec:
		return kindScript
	case len(part) == 3 && part[0] == "media":
		return kindMedia
	case len(part) == 3 && part[0] == "files":
		return kindFile
	case len(part) == 2 && part[0] == "images":
		return kindImage
	case len(part) == 1:
		return kindLoader
	}
	return kindOther
}

// classes is the number of classes of HTTP status codes, starting with 1xx.
const classes = 5

// Metrics count requests and bytes. No label comes from the network. Nil counts nothing.
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	running  prometheus.Gauge
	ended    [kinds][classes]prometheus.Counter
	sent     [kinds]prometheus.Counter
}

// NewMetrics registers the metrics, or reuses those of an earlier server of the process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_boot_http_requests_total",
			Help: "HTTP requests to the boot server, by kind and class of the status code."}, []string{"kind", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_boot_http_sent_bytes_total",
			Help: "Bytes of response bodies that the boot server sent by HTTP, by kind of request."}, []string{"kind"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_boot_http_requests_in_flight",
			Help: "HTTP requests that the boot server is answering."}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.requests), collect.RegisterOrGet(registry, &m.bytes), collect.RegisterOrGet(registry, &m.running)); err != nil {
		return nil, fmt.Errorf("register HTTP metrics: %w", err)
	}
	for k := range kinds {
		m.sent[k] = m.bytes.WithLabelValues(k.String())
		for c := range classes {
			m.ended[k][c] = m.requests.WithLabelValues(k.String(), fmt.Sprintf("%dxx", c+1))
		}
	}
	return m, nil
}

// measure returns a writer that counts the answer, and a function to defer for its end.
func (m *Metrics) measure(w http.ResponseWriter, k kind) (http.ResponseWriter, func()) {
	if m == nil {
		return w, func() {}
	}
	m.running.Inc()
	counting := &countingWriter{ResponseWriter: w}
	return counting, func() {
		m.running.Dec()
		m.sent[k].Add(float64(counting.bytes))
		class := max(counting.code, http.StatusOK)/100 - 1
		m.ended[k][min(class, classes-1)].Inc()
	}
}

type countingWriter struct {
	http.ResponseWriter
	code  int
	bytes int64
}

func (w *countingWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom preserves sendfile: without it io.Copy would copy through the process.
func (w *countingWriter) ReadFrom(src io.Reader) (int64, error) {
	from, ok := w.ResponseWriter.(io.ReaderFrom)
	if !ok {
		n, err := io.Copy(struct{ io.Writer }{w.ResponseWriter}, src)
		w.bytes += n
		return n, err
	}
	n, err := from.ReadFrom(src)
	w.bytes += n
	return n, err
}

func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
