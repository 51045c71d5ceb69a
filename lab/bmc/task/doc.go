// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package task is an emulated BMC's task service (DSP0266, asynchronous
// operations): tasks with progress, their monitors, and, where a maker has one,
// the manager's job queue, which shows the same tasks.
//
// It must not know what a task does: the one who starts it says what it waits
// for and what happens at its end. It has no clock and no goroutine: a task takes
// a number of steps, and each read of a task or of the firmware inventory is one,
// so that tests need not wait.
//
//	tasks := task.New(task.Config{Steps: 3})
//	t := tasks.Start(task.Options{Name: "BIOS update", Until: task.Boot, Done: install})
//	tasks.Happened(task.Boot)
package task
