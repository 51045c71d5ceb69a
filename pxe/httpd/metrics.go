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

// kind is what a request asks for.
type kind int

const (
	kindOther kind = iota
	kindScript
	kindFile
	kindImage
	kindLoader
	kindUnified
	kindDisc
	kinds
)

func (k kind) String() string {
	return [kinds]string{"other", "script", "file", "image", "loader", "unified", "disc"}[k]
}

// requestKind tells by the elements of its path what a request asks for.
func requestKind(part []string) kind {
	switch {
	case len(part) == 3 && part[0] == "boot" && part[2] == "agent.efi":
		return kindUnified
	case len(part) == 3 && part[0] == "boot", len(part) == 1 && part[0] == autoExec:
		return kindScript
	case len(part) == 3 && part[0] == "media":
		return kindDisc
	case len(part) == 3 && part[0] == "files":
		return kindFile
	case len(part) == 2 && part[0] == "images":
		return kindImage
	case len(part) == 1:
		return kindLoader
	}
	return kindOther
}

// classes are those of HTTP's status codes, from 1xx on.
const classes = 5

// Metrics count what is asked for and sent. No label comes from the network.
type Metrics struct {
	requests *prometheus.CounterVec
	bytes    *prometheus.CounterVec
	running  prometheus.Gauge
	ended    [kinds][classes]prometheus.Counter
	sent     [kinds]prometheus.Counter
}

// NewMetrics registers the metrics, or takes over those of an earlier server of the
// process.
func NewMetrics(registry prometheus.Registerer) (*Metrics, error) {
	m := &Metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_boot_http_requests_total",
			Help: "Requests to the boot server's HTTP side, by what was asked for and the class of the answer's code."}, []string{"kind", "code"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{Name: "ingot_boot_http_sent_bytes_total",
			Help: "Bytes of bodies that the boot server's HTTP side has sent, by what was asked for."}, []string{"kind"}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "ingot_boot_http_requests_in_flight",
			Help: "Requests that the boot server's HTTP side answers now."}),
	}
	if err := errors.Join(collect.RegisterOrGet(registry, &m.requests), collect.RegisterOrGet(registry, &m.bytes), collect.RegisterOrGet(registry, &m.running)); err != nil {
		return nil, fmt.Errorf("register the metrics of HTTP: %w", err)
	}
	for k := range kinds {
		m.sent[k] = m.bytes.WithLabelValues(k.String())
		for c := range classes {
			m.ended[k][c] = m.requests.WithLabelValues(k.String(), fmt.Sprintf("%dxx", c+1))
		}
	}
	return m, nil
}

// measure returns a writer that counts what is answered, and what to call at the end,
// however that comes; nil Metrics count nothing.
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

// countingWriter counts what passes it.
type countingWriter struct {
	http.ResponseWriter
	code  int
	bytes int64
}

// WriteHeader implements http.ResponseWriter.
func (w *countingWriter) WriteHeader(code int) {
	if w.code == 0 {
		w.code = code
	}
	w.ResponseWriter.WriteHeader(code)
}

// Write implements http.ResponseWriter.
func (w *countingWriter) Write(b []byte) (int, error) {
	n, err := w.ResponseWriter.Write(b)
	w.bytes += int64(n)
	return n, err
}

// ReadFrom keeps the way open by which the kernel sends a file (sendfile): without it
// io.Copy would copy through the process.
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

// Unwrap is for http.ResponseController.
func (w *countingWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
