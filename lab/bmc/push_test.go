// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package bmc_test

import (
	"testing"

	"github.com/ingot-metal/ingot/lab/bmc/update"
)

// TestHTTPPush checks the push of a plain image, and of a form that needs the ETag of the
// inventory and is installed by SimpleUpdate.
func TestHTTPPush(t *testing.T) {
	line := string(update.Image("BIOS", "7.7"))
	b, bench, c, p := startNamed(t, "openbmc-early", nil)
	c.want(415, "POST", p.HTTPPush, line, "Content-Type", "multipart/form-data; boundary=x")
	c.want(400, "POST", p.HTTPPush, "no image\n", "Content-Type", "application/octet-stream")
	c.want(202, "POST", p.HTTPPush, line, "Content-Type", "application/octet-stream")
	until(t, c, "/redfish/v1/TaskService/Tasks/1", "TaskState", "Pending")
	boot(t, bench)
	c.want(200, "GET", "/redfish/v1", "")
	if bios, _ := b.Firmware(); bios != "7.7" {
		t.Errorf("version %s", bios)
	}
	c.token = "other"
	c.want(401, "POST", p.HTTPPush, line, "Content-Type", "application/octet-stream")

	b, bench, c, p = startNamed(t, "dell-idrac9-early", nil)
	const form = "multipart/form-data; boundary=x"
	part := func(name string) string {
		return "--x\r\nContent-Disposition: form-data; name=\"" + name + "\"; filename=\"f\"\r\n\r\n" + line + "\r\n--x--\r\n"
	}
	tag := c.want(200, "GET", p.HTTPPush, "").header.Get("ETag")
	c.want(415, "POST", p.HTTPPush, line, "Content-Type", "application/octet-stream", "If-Match", tag)
	c.want(412, "POST", p.HTTPPush, part("file"), "Content-Type", form)
	c.want(400, "POST", p.HTTPPush, part("other"), "Content-Type", form, "If-Match", tag)
	image := c.want(201, "POST", p.HTTPPush, part("file"), "Content-Type", form, "If-Match", tag).header.Get("Location")
	if got := c.want(200, "GET", image, "").body["Version"]; got != "7.7" {
		t.Errorf("the image is shown as %v", got)
	}
	const simple = "/redfish/v1/UpdateService/Actions/UpdateService.SimpleUpdate"
	c.want(400, "POST", simple, `{"ImageURI":"`+image+`-other"}`)
	task := c.want(202, "POST", simple, `{"ImageURI":"`+image+`"}`).header.Get("Location")
	c.want(404, "GET", image, "")
	until(t, c, task, "TaskState", "Starting")
	boot(t, bench)
	c.want(200, "GET", "/redfish/v1", "")
	if bios, _ := b.Firmware(); bios != "7.7" {
		t.Errorf("version %s", bios)
	}
}
