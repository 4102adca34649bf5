// Package conformance compiles the official Gateway API conformance suite into
// one test binary. The suite takes its settings from the flags after the
// binary's name; see ../../conformance.ts.
package conformance

import (
	"testing"

	"sigs.k8s.io/gateway-api/conformance"
)

// TestConformance runs the suite against the cluster of KUBECONFIG.
func TestConformance(t *testing.T) { conformance.RunConformance(t) }
