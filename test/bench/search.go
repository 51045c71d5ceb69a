// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bench

const (
	// fineness is the part of a rate that is not halved any more: less is noise.
	fineness = 1. / 80
	// maxSteps bounds how far a Search goes from where it begins: to a sixth, or four
	// times as much.
	maxSteps = 8
)

// Search tries rates until it knows up to which they are good: it goes up or down from the
// first by a fifth until the outcome changes, and then halves the step until it is about
// a hundredth. The first error of try ends it.
func Search(first int, try func(rate int) (good bool, err error)) error {
	good, err := try(first)
	if err != nil {
		return err
	}
	low, high, changed := first, first, false
	for step := 0; step < maxSteps && !changed; step++ {
		next := high + max(high/5, 1)
		if !good {
			next = max(low-max(low/5, 1), 1)
		}
		ok, err := try(next)
		if err != nil {
			return err
		}
		switch changed = ok != good; {
		case !changed:
			low, high = next, next
		case good:
			high = next
		default:
			low = next
		}
	}
	for float64(high-low) > max(fineness*float64(high), 1) {
		middle := (low + high) / 2
		ok, err := try(middle)
		if err != nil {
			return err
		}
		if ok {
			low = middle
		} else {
			high = middle
		}
	}
	return nil
}
