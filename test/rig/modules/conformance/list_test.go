package conformance

import (
	"fmt"
	"os"
	"sort"
	"strings"
	"testing"

	"sigs.k8s.io/gateway-api/conformance/tests"
	"sigs.k8s.io/gateway-api/conformance/utils/suite"
)

// TestList prints the tests of the profile GATEWAY-HTTP with the features that
// select them; it runs only when LIST is set.
func TestList(t *testing.T) {
	if os.Getenv("LIST") == "" {
		t.Skip()
	}
	profile := suite.GatewayHTTPConformanceProfile
	var lines []string
	for _, each := range tests.ConformanceTests {
		level, inProfile := "core", true
		var names []string
		for _, f := range each.Features {
			names = append(names, string(f))
			if profile.CoreFeatures.Has(f) {
				continue
			}
			level = "extended"
			inProfile = inProfile && profile.ExtendedFeatures.Has(f)
		}
		if inProfile {
			lines = append(lines, fmt.Sprintf("%s %s {%s}", level, each.ShortName, strings.Join(names, ",")))
		}
	}
	sort.Strings(lines)
	fmt.Println(strings.Join(lines, "\n"))
}
