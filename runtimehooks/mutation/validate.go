// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package mutation

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	runtimehooksv1 "sigs.k8s.io/cluster-api/api/runtime/hooks/v1alpha1"

	infrav1 "github.com/ingot-metal/ingot/api/v1beta2"
)

// Placeholder is the image in the templates of the ClusterClass, which must have one. The patches
// replace it.
const Placeholder = "chosen-by-ingot-runtime-extension"

// validate implements ValidateTopology: it reports all faults of variables and templates in a
// fixed order. It never reports missing hosts.
func validate(request *runtimehooksv1.ValidateTopologyRequest) error {
	var faults []string
	for _, item := range request.Items {
		if item == nil {
			continue
		}
		t, err := readTemplate(item.Object.Raw)
		if err != nil {
			faults = append(faults, err.Error())
			continue
		}
		if !t.isIngot(kindMachineTemplate) {
			continue
		}
		owner := item.HolderReference.Kind + " " + item.HolderReference.Name
		for _, fault := range validateMachine(t) {
			faults = append(faults, owner+": "+fault)
		}
		if err := merged(request.Variables, item.Variables).check(); err != nil {
			faults = append(faults, err.Error())
		}
	}
	slices.Sort(faults)
	faults = slices.Compact(faults)
	if len(faults) == 0 {
		return nil
	}
	return errors.New(strings.Join(faults, "; "))
}

// validateMachine checks a template after all patches.
func validateMachine(t *template) []string {
	data, err := json.Marshal(t.Spec.Template.Spec)
	if err != nil {
		return []string{"spec.template.spec is not a JSON object"}
	}
	var spec infrav1.IngotMachineSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		return []string{"spec.template.spec is not the spec of an IngotMachine"}
	}
	var faults []string
	if spec.Image.URL == "" && spec.Live == nil && (spec.ImageRef == nil || spec.ImageRef.Name == Placeholder) {
		faults = append(faults, "no image is set; add the extension's generate-patches to the patches of the ClusterClass")
	}
	if spec.Image.URL != "" && spec.ImageRef != nil {
		faults = append(faults, "image and imageRef are both set; remove one of them from the patches")
	}
	if spec.Live != nil && (spec.Image.URL != "" || spec.ImageRef != nil) {
		faults = append(faults, "live and image or imageRef are both set; remove one of them from the patches")
	}
	if spec.Hostname != "" {
		faults = append(faults, fmt.Sprintf("every machine would have the hostname %q; remove it", spec.Hostname))
	}
	if selector := spec.HostSelector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: selector.MatchLabels, MatchExpressions: selector.MatchExpressions}); err != nil {
			faults = append(faults, "hostSelector is not a valid label selector: "+err.Error())
		}
	}
	return faults
}
