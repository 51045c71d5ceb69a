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

// Placeholder is the image in the templates of the ClusterClass: a template must have
// one, and the patches replace it.
const Placeholder = "chosen-by-ingot-runtime-extension"

// validate answers ValidateTopology: what is wrong with variables and templates, all
// at once and in an order that stays. It never says that hosts are missing.
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
		if !t.ours(kindMachineTemplate) {
			continue
		}
		holder := item.HolderReference.Kind + " " + item.HolderReference.Name
		for _, fault := range validateMachine(t) {
			faults = append(faults, holder+": "+fault)
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

// validateMachine looks at a template as it is after all patches.
func validateMachine(t *template) []string {
	data, err := json.Marshal(t.Spec.Template.Spec)
	if err != nil {
		return []string{"spec.template.spec is no object"}
	}
	var spec infrav1.IngotMachineSpec
	if err := json.Unmarshal(data, &spec); err != nil {
		return []string{"spec.template.spec does not have the form of an IngotMachine's"}
	}
	var faults []string
	if spec.Image.URL == "" && spec.Live == nil && (spec.ImageRef == nil || spec.ImageRef.Name == Placeholder) {
		faults = append(faults, "no image was chosen; the ClusterClass must name the extension's generate-patches")
	}
	if spec.Image.URL != "" && spec.ImageRef != nil {
		faults = append(faults, "image and imageRef are both set; leave one of them out of the patches")
	}
	if spec.Live != nil && (spec.Image.URL != "" || spec.ImageRef != nil) {
		faults = append(faults, "live is set beside image or imageRef; leave one of them out of the patches")
	}
	if spec.Hostname != "" {
		faults = append(faults, fmt.Sprintf("hostname %q would be that of every machine; leave it out", spec.Hostname))
	}
	if selector := spec.HostSelector; selector != nil {
		if _, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchLabels: selector.MatchLabels, MatchExpressions: selector.MatchExpressions}); err != nil {
			faults = append(faults, "hostSelector is not a selector of labels: "+err.Error())
		}
	}
	return faults
}
