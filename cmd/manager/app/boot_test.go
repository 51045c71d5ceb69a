// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/go-logr/logr/funcr"
)

// --agent-image-dir needs kernel and initramfs. The log reports other missing files.
func TestAgentFiles(t *testing.T) {
	const noStub, noShim = "hosts cannot boot by HTTP", "hosts with Secure Boot cannot boot by PXE"
	for name, tc := range map[string]struct {
		files []string
		fails string
		says  []string
	}{
		"kernel and initramfs":     {[]string{agentKernel, agentInitramfs}, "", []string{noStub, noShim}},
		"Secure Boot's loaders":    {[]string{agentKernel, agentInitramfs, agentShim, agentGRUB}, "", []string{noStub}},
		"no kernel":                {[]string{agentInitramfs}, agentKernel, nil},
		"no initramfs":             {[]string{agentKernel}, agentInitramfs, nil},
		"one loader alone":         {[]string{agentKernel, agentInitramfs, agentShim}, agentGRUB, []string{noStub}},
		"a stub that is not one":   {[]string{agentKernel, agentInitramfs, agentStub}, "--agent-image-dir", nil},
		"a signed image of no one": {[]string{agentKernel, agentInitramfs, agentUKI}, agentUKI, nil},
	} {
		t.Run(name, func(t *testing.T) {
			o := &Options{AgentImageDir: t.TempDir(), ImageCacheDir: t.TempDir()}
			for _, file := range tc.files {
				if err := os.WriteFile(filepath.Join(o.AgentImageDir, file), []byte(file), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			var told strings.Builder
			log := funcr.New(func(_, args string) { told.WriteString(args + "\n") }, funcr.Options{})
			out, err := agentFiles(o, &identity{}, log)
			if (err != nil) != (tc.fails != "") || err != nil && !strings.Contains(err.Error(), tc.fails) {
				t.Fatalf("error %v, want %q in it", err, tc.fails)
			}
			if strings.Count(told.String(), "\n") != len(tc.says) {
				t.Errorf("told %q, want %q", told.String(), tc.says)
			}
			for _, want := range tc.says {
				if !strings.Contains(told.String(), want) {
					t.Errorf("told %q, want %q in it", told.String(), want)
				}
			}
			if err == nil && (out.kernel.Name != agentKernel || out.initramfs.Name != agentInitramfs || out.hasUKI) {
				t.Errorf("files %+v", out)
			}
		})
	}
}
