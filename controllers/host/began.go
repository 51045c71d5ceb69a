// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package host

import (
	"sync"
	"time"
)

// beginning is when the reconciler came to its first host: after the manager's start, and
// after it was elected, which may be long after that. Agents may have had nobody to report
// to before. The zero value: it has not begun.
type beginning struct {
	once sync.Once
	at   time.Time
}

// of is when it began; it begins now where it had not.
func (b *beginning) of(now time.Time) time.Time {
	b.once.Do(func() { b.at = now })
	return b.at
}
