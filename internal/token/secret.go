// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package token

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Secret stores the keys of an installation.
type Secret struct {
	// Live reads from the API server, not from a cache.
	Live client.Reader
	// Writer creates the Secret.
	Writer client.Writer
	Key    client.ObjectKey
}

// Load returns the files of the Secret, and creates the Secret with new keys if it is missing. If
// two managers do so at once, one creates it and both use its keys. An existing Secret is never
// changed: installed systems use its keys.
func (s Secret) Load(ctx context.Context) (Files, error) {
	files, err := s.read(ctx)
	if apierrors.IsNotFound(err) {
		files, err = s.create(ctx)
	}
	if err != nil {
		return nil, fmt.Errorf("read agent keys from Secret %s: %w", s.Key, err)
	}
	if err := files.Check(); err != nil {
		return nil, fmt.Errorf("check agent keys of Secret %s: %w; correct the Secret, or delete it to get new keys: working agents then start over", s.Key, err)
	}
	return files, nil
}

// Publish creates or updates the Secret with what boot servers need of the files: the token key and
// the pins.
func (s Secret) Publish(ctx context.Context, files Files) error {
	want := map[string][]byte{FileHMAC: files[FileHMAC], FilePins: files[FilePins]}
	secret := &corev1.Secret{}
	err := s.Live.Get(ctx, s.Key, secret)
	switch {
	case apierrors.IsNotFound(err):
		err = s.Writer.Create(ctx, s.secret(want))
	case err == nil && !maps.EqualFunc(secret.Data, want, bytes.Equal):
		secret.Data = want
		err = s.Writer.Update(ctx, secret)
	}
	if err != nil {
		return fmt.Errorf("publish keys for boot servers in Secret %s: %w", s.Key, err)
	}
	return nil
}

func (s Secret) read(ctx context.Context) (Files, error) {
	secret := &corev1.Secret{}
	if err := s.Live.Get(ctx, s.Key, secret); err != nil {
		return nil, err
	}
	return Files(secret.Data), nil
}

func (s Secret) create(ctx context.Context) (Files, error) {
	files, err := NewFiles()
	if err != nil {
		return nil, err
	}
	err = s.Writer.Create(ctx, s.secret(files))
	if apierrors.IsAlreadyExists(err) {
		return s.read(ctx)
	}
	return files, err
}

// secret returns the object to create. It has no labels of clusterctl: an upgrade deletes and
// recreates labeled objects, and installed systems report with these keys for days.
func (s Secret) secret(data map[string][]byte) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: s.Key.Namespace, Name: s.Key.Name},
		Type:       corev1.SecretTypeOpaque,
		Data:       data,
	}
}
