// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

var secretKey = client.ObjectKey{Namespace: "ingot-system", Name: "ingot-agent-keys"}

func secretWith(files Files) *corev1.Secret {
	return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: secretKey.Namespace, Name: secretKey.Name}, Data: files}
}

// A Secret is made once, and kept as it is ever after.
func TestSecretLoad(t *testing.T) {
	c := fake.NewClientBuilder().Build()
	var seen []Files
	for range 2 {
		files, err := Secret{Live: c, Writer: c, Key: secretKey}.Load(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen = append(seen, files)
	}
	if !maps.EqualFunc(seen[0], seen[1], bytes.Equal) {
		t.Error("the second start has other keys")
	}
	stored := &corev1.Secret{}
	if err := c.Get(t.Context(), secretKey, stored); err != nil {
		t.Fatal(err)
	}
	if len(stored.Labels) != 0 {
		t.Errorf("labels %v: clusterctl upgrade deletes what bears its labels", stored.Labels)
	}
	if len(stored.Data) != 3 {
		t.Errorf("the Secret holds %d keys", len(stored.Data))
	}
}

// Two managers start at once: both see no Secret, one makes it, both have its keys.
func TestSecretLoadRace(t *testing.T) {
	var absent sync.WaitGroup
	absent.Add(2)
	c := fake.NewClientBuilder().WithInterceptorFuncs(interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			absent.Done() // each creates after both have read
			absent.Wait()
			return c.Create(ctx, o, opts...)
		},
	}).Build()
	type result struct {
		files Files
		err   error
	}
	results := make(chan result, 2)
	for range 2 {
		go func() {
			files, err := Secret{Live: c, Writer: c, Key: secretKey}.Load(t.Context())
			results <- result{files, err}
		}()
	}
	first, second := <-results, <-results
	if err := errors.Join(first.err, second.err); err != nil {
		t.Fatal(err)
	}
	if !maps.EqualFunc(first.files, second.files, bytes.Equal) {
		t.Error("two managers have different keys")
	}
}

// What is wrong is said, with the Secret's name and no key, and nothing is changed.
func TestSecretLoadRefuses(t *testing.T) {
	const canary = "do-not-print-this"
	forbidden := apierrors.NewForbidden(schema.GroupResource{Resource: "secrets"}, secretKey.Name, errors.New("no"))
	for name, tc := range map[string]struct {
		secret *corev1.Secret
		funcs  interceptor.Funcs
		want   string
	}{
		"incomplete": {secret: secretWith(Files{FileHMAC: []byte(canary + strings.Repeat("x", MinKeyBytes))}), want: FilePins},
		"no key":     {secret: secretWith(Files{FileHMAC: []byte(canary), FilePins: []byte("no-pin"), FileTLSKey: []byte(canary)}), want: "token key 1"},
		"cannot read": {funcs: interceptor.Funcs{Get: func(context.Context, client.WithWatch, client.ObjectKey, client.Object, ...client.GetOption) error {
			return forbidden
		}}, want: "forbidden"},
		"cannot create": {funcs: interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error {
			return forbidden
		}}, want: "forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			builder := fake.NewClientBuilder().WithInterceptorFuncs(tc.funcs)
			if tc.secret != nil {
				builder = builder.WithObjects(tc.secret)
			}
			c := builder.Build()
			files, err := Secret{Live: c, Writer: c, Key: secretKey}.Load(t.Context())
			if err == nil || files != nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), secretKey.String()) {
				t.Fatalf("Load = %v, want %q and the name of the Secret", err, tc.want)
			}
			if strings.Contains(err.Error(), canary) {
				t.Errorf("the error prints a key: %v", err)
			}
		})
	}
}

// Boot servers are given the token key and the pins, and no private key, in whatever state their
// Secret was.
func TestPublish(t *testing.T) {
	key := client.ObjectKey{Namespace: "boot", Name: "keys"}
	files := newFiles(t)
	for name, there := range map[string][]client.Object{
		"no Secret": nil,
		"the right one": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "boot", Name: "keys"},
			Data: map[string][]byte{FileHMAC: files[FileHMAC], FilePins: files[FilePins]}}},
		"an old key, and a private one": {&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "boot", Name: "keys"},
			Data: map[string][]byte{FileHMAC: []byte("old"), FileTLSKey: files[FileTLSKey]}}},
	} {
		t.Run(name, func(t *testing.T) {
			c := fake.NewClientBuilder().WithObjects(there...).Build()
			for range 2 {
				if err := (Secret{Live: c, Writer: c, Key: key}).Publish(t.Context(), files); err != nil {
					t.Fatal(err)
				}
			}
			got := &corev1.Secret{}
			if err := c.Get(t.Context(), key, got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(map[string][]byte{FileHMAC: files[FileHMAC], FilePins: files[FilePins]}, got.Data); diff != "" {
				t.Errorf("what boot servers are given (-want +got):\n%s", diff)
			}
		})
	}
}
