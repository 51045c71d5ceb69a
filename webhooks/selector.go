// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// checkChangedSelector rejects an invalid selector if it differs from before.
func checkChangedSelector(path *field.Path, before, after *metav1.LabelSelector) field.ErrorList {
	if equality.Semantic.DeepEqual(before, after) {
		return nil
	}
	return checkLabelSelector(path, after)
}

// checkLabelSelector rejects an invalid selector. nil is valid.
func checkLabelSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return checkSelector(path, selector.MatchLabels, selector.MatchExpressions)
}

// checkHostSelector rejects an invalid selector. nil is valid.
func checkHostSelector(path *field.Path, selector *v1beta2.HostSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return append(checkSelector(path, selector.MatchLabels, selector.MatchExpressions),
		checkMinimum(path.Child("minimum"), selector.Minimum)...)
}

func checkSelector(path *field.Path, labels map[string]string, expressions []metav1.LabelSelectorRequirement) field.ErrorList {
	var errs field.ErrorList
	for _, key := range slices.Sorted(maps.Keys(labels)) {
		errs = append(errs, checkLabelKey(path.Child("matchLabels"), key)...)
		errs = append(errs, checkLabelValue(path.Child("matchLabels").Key(key), labels[key])...)
	}
	for i, e := range expressions {
		errs = append(errs, checkExpression(path.Child("matchExpressions").Index(i), e)...)
	}
	return errs
}

func checkExpression(path *field.Path, e metav1.LabelSelectorRequirement) field.ErrorList {
	errs := checkLabelKey(path.Child("key"), e.Key)
	values := path.Child("values")
	switch e.Operator {
	case metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn:
		if len(e.Values) == 0 {
			errs = append(errs, field.Invalid(values, e.Values,
				fmt.Sprintf("must contain at least one value with operator %s; add a value, or use Exists or DoesNotExist", e.Operator)))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(e.Values) > 0 {
			errs = append(errs, field.Invalid(values, e.Values,
				fmt.Sprintf("must be empty with operator %s; remove the values, or use In or NotIn", e.Operator)))
		}
	default:
		errs = append(errs, field.NotSupported(path.Child("operator"), e.Operator, []metav1.LabelSelectorOperator{
			metav1.LabelSelectorOpIn, metav1.LabelSelectorOpNotIn, metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist,
		}))
	}
	for i, value := range e.Values {
		errs = append(errs, checkLabelValue(values.Index(i), value)...)
	}
	return errs
}

func checkLabelKey(path *field.Path, key string) field.ErrorList {
	if why := validation.IsQualifiedName(key); len(why) > 0 {
		return field.ErrorList{field.Invalid(path, key, "must be a label key: "+strings.Join(why, "; "))}
	}
	return nil
}

func checkLabelValue(path *field.Path, value string) field.ErrorList {
	if why := validation.IsValidLabelValue(value); len(why) > 0 {
		return field.ErrorList{field.Invalid(path, value, "must be a label value: "+strings.Join(why, "; "))}
	}
	return nil
}
