import { describe, expect, test } from "vitest";
import type { KubeObject } from "../kube/object.ts";
import type { DefinedKind, Definition, Definitions } from "./definitions.ts";
import { permittedFeatures, supportedFeatures } from "./supported-features.ts";

const definition = (versions: readonly string[], spec: KubeObject = {}): Definition => ({
  ...{ bundleVersion: "v1.7.0", channel: "standard", versions, spec, status: {} },
});

const definitions = (...all: readonly (readonly [DefinedKind, Definition])[]): Definitions => new Map(all);

const object = (properties: KubeObject): KubeObject => ({ type: "object", properties });
const array = (properties: KubeObject): KubeObject => ({ type: "array", items: object(properties) });

test("the features are sorted and unique", () => {
  expect(supportedFeatures).toEqual([...new Set(supportedFeatures)].sort());
});

test("definitions that cannot be read permit all features", () => {
  expect(permittedFeatures(definitions())).toEqual(supportedFeatures);
});

describe("a feature needs", () => {
  test("the definition of its kind", () => {
    const found = permittedFeatures(definitions(["Gateway", definition(["v1"])], ["TCPRoute", definition(["v1"])]));
    expect(found).toEqual(expect.arrayContaining(["Gateway", "TCPRoute"]));
    expect(found).not.toContain("HTTPRoute");
    expect(found).not.toContain("UDPRoute");
  });

  test.each([
    ["TLSRoute", ["v1alpha2"], true],
    ["BackendTLSPolicy", ["v1alpha3"], false],
  ] as const)("a version of %s that is read; it has %j: %s", (kind, versions, isPermitted) => {
    expect(permittedFeatures(definitions([kind, definition(versions)])).includes(kind)).toBe(isPermitted);
  });

  test.each([
    ["no retry", {}, []],
    ["retry without codes", { retry: object({}) }, ["HTTPRouteRetryConnectionError"]],
    [
      "retry with codes",
      { retry: object({ codes: array({}) }) },
      ["HTTPRouteRetryCodes", "HTTPRouteRetryConnectionError"],
    ],
  ])("its field in the items of lists: %s", (_, rule, expected) => {
    const spec = object({ rules: array(rule) });
    const found = permittedFeatures(definitions(["HTTPRoute", definition(["v1"], spec)]));
    expect(found.filter((name) => name.includes("Retry"))).toEqual(expected);
  });

  test.each([
    [{ enum: [301, 302] }, []],
    [{ enum: [301, 302, 303] }, ["HTTPRoute303RedirectStatusCode"]],
    [{}, [303, 307, 308].map((code) => `HTTPRoute${code}RedirectStatusCode`)],
  ])("its value to be accepted: %j", (statusCode, expected) => {
    const filter = object({ statusCode: { type: "integer", ...statusCode } });
    const spec = object({ rules: array({ filters: array({ requestRedirect: filter }) }) });
    const found = permittedFeatures(definitions(["HTTPRoute", definition(["v1"], spec)]));
    expect(found.filter((name) => name.includes("StatusCode"))).toEqual(expected);
  });
});
