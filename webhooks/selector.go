// Copyright The Ingot Authors.
// SPDX-License-Identifier: Apache-2.0

package webhooks

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/ingot-metal/ingot/api/v1beta2"
)

// checkLabelSelector refuses a selector that could never be used. nil is valid.
func checkLabelSelector(path *field.Path, selector *metav1.LabelSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return checkSelector(path, selector.MatchLabels, selector.MatchExpressions)
}

// checkHostSelector refuses a selector that could never be used. nil is valid.
func checkHostSelector(path *field.Path, selector *v1beta2.HostSelector) field.ErrorList {
	if selector == nil {
		return nil
	}
	return checkSelector(path, selector.MatchLabels, selector.MatchExpressions)
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
				fmt.Sprintf("must name at least one value with operator %s; add one, or use Exists or DoesNotExist", e.Operator)))
		}
	case metav1.LabelSelectorOpExists, metav1.LabelSelectorOpDoesNotExist:
		if len(e.Values) > 0 {
			errs = append(errs, field.Invalid(values, e.Values,
				fmt.Sprintf("must be left out with operator %s; remove them, or use In or NotIn", e.Operator)))
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
		return field.ErrorList{field.Invalid(path, key, "must be the key of a label: "+strings.Join(why, "; "))}
	}
	return nil
}

func checkLabelValue(path *field.Path, value string) field.ErrorList {
	if why := validation.IsValidLabelValue(value); len(why) > 0 {
		return field.ErrorList{field.Invalid(path, value, "must be the value of a label: "+strings.Join(why, "; "))}
	}
	return nil
}
