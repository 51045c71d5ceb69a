// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

// Package task is the task service of an emulated BMC (DSP0266, asynchronous operations): tasks with
// progress, their monitors, and the manager's job queue if the personality has one, which shows the same
// tasks. The caller that starts a task defines its condition and its effect. There is no clock and no
// goroutine: each read of a task or of the firmware inventory is a step, so tests need not wait.
//
//	tasks := task.New(task.Config{Steps: 3})
//	t := tasks.Start(task.Options{Name: "BIOS update", Until: task.Boot, Done: install})
//	tasks.Signal(task.Boot)
package task
