import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { ClusterConnection } from "../kube/connection.ts";
import type { KubeObject } from "../kube/object.ts";
import { openScriptedApiServer } from "../kube/testing/scripted-api-server.ts";
import { definitionName } from "../source/kubernetes/watched-kinds.ts";
import {
  type DefinedKind,
  definedKinds,
  type Definitions,
  DefinitionWatch,
  missingProtection,
  readDefinition,
  supportedVersion,
} from "./definitions.ts";

const tls = { type: "object", properties: { frontend: {}, backend: {} } };

interface DefinitionFields {
  readonly bundle?: string;
  readonly versions?: readonly string[];
  readonly spec?: KubeObject;
  readonly status?: KubeObject;
}

function definition(kind: DefinedKind, { bundle, versions = ["v1"], spec = {}, status = {} }: DefinitionFields) {
  const annotations = bundle === undefined ? {} : { "gateway.networking.k8s.io/bundle-version": bundle };
  const properties = { spec: { type: "object", properties: spec }, status: { type: "object", properties: status } };
  return {
    metadata: { name: definitionName(kind), resourceVersion: "1", annotations },
    spec: { versions: versions.map((name) => ({ name, served: true, schema: { openAPIV3Schema: { properties } } })) },
  };
}

const definitions = (...all: readonly (readonly [DefinedKind, DefinitionFields])[]): Definitions =>
  new Map(all.map(([kind, fields]) => [kind, readDefinition(kind, definition(kind, fields))]));

describe("the condition SupportedVersion", () => {
  test.each(["v1.1.0", "v1.2.1", "v1.6.3", "v1.7.0", "v1.7.1-rc.1"])("is True for the bundle %s", (bundle) => {
    expect(supportedVersion(definitions(["Gateway", { bundle }]))).toMatchObject({
      ...{ status: "True", reason: "SupportedVersion" },
      message: `the definitions of the Gateway API have the version ${bundle}`,
    });
  });

  test.each(["v1.0.0", "v1.8.0", "v2.1.0", "v0.8.1", "main"])("is False for the bundle %s", (bundle) => {
    expect(supportedVersion(definitions(["Gateway", { bundle }]))).toMatchObject({
      ...{ status: "False", reason: "UnsupportedVersion" },
      message: `the definitions of the Gateway API have the version ${bundle} (Gateway); supported are 1.1 to 1.7`,
    });
  });

  test("names the kinds whose version is not supported or unknown", () => {
    const mixed = definitions(
      ["Gateway", { bundle: "v1.6.3" }],
      ["HTTPRoute", { bundle: "v1.9.0" }],
      ["GRPCRoute", {}],
    );
    expect(supportedVersion(mixed)?.message).toContain("unknown (GRPCRoute) and v1.9.0 (HTTPRoute)");
  });

  test("is absent where no definition can be read, and does not depend on definitions of this project", () => {
    expect(supportedVersion(definitions())).toBeUndefined();
    expect(supportedVersion(definitions(["Backend", {}]))).toBeUndefined();
  });
});

test("definitions without fields that protect clients or backends are reported", () => {
  const whole = { bundle: "v1.6.3", spec: { tls } };
  expect(missingProtection(definitions(["Gateway", whole], ["BackendTLSPolicy", {}]))).toEqual([]);
  expect(missingProtection(definitions())).toEqual([]);
  expect(missingProtection(definitions(["Gateway", {}], ["BackendTLSPolicy", { versions: ["v1alpha3"] }]))).toEqual([
    "the definition of Gateway has no field spec.tls.frontend: no client certificate is required",
    "the definition of Gateway has no field spec.tls.backend: backends get no client certificate",
    "the definition of BackendTLSPolicy has the versions v1alpha3 and not v1: no BackendTLSPolicy is applied",
  ]);
});

describe("DefinitionWatch", () => {
  async function watching(existing: readonly KubeObject[], status = 200) {
    const server = await openScriptedApiServer();
    const connection = new ClusterConnection(server.cluster);
    const warn = vi.fn();
    const quiet = vi.fn();
    const log = { error: quiet, warn, info: quiet, debug: quiet, trace: quiet, isLevelEnabled: () => false };
    const watch = new DefinitionWatch({ connection, clock: new FakeClock(), random: () => 1, log, onChange: quiet });
    onTestFinished(() => {
      watch.close();
      connection.close();
    });
    const serve = async (): Promise<void> => {
      for (;;) {
        const call = await server.next();
        const selected = call.url.searchParams.get("fieldSelector");
        const items = existing.filter(
          ({ metadata }) => selected === `metadata.name=${(metadata as { name: string }).name}`,
        );
        if (call.isWatch) call.open();
        else call.respond(status, { kind: "List", metadata: { resourceVersion: "1" }, items });
      }
    };
    void serve();
    await waitFor(() => expect(watch.isRead).toBe(true));
    return { watch, warn };
  }

  const status = { conditions: [], supportedFeatures: [{ name: "Gateway" }] };

  test("leaves out fields that the definition does not declare, and logs each once", async () => {
    const older = definition("GatewayClass", { bundle: "v1.2.1", status: { conditions: { type: "array" } } });
    const { watch, warn } = await watching([older]);
    expect(watch.declared("GatewayClass", status)).toEqual({ conditions: [] });
    watch.declared("GatewayClass", status);
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      { kind: "GatewayClass", field: "status.supportedFeatures", bundleVersion: "v1.2.1" },
      expect.any(String),
    );
  });

  test("leaves statuses unchanged of kinds whose definition does not exist or cannot be read", async () => {
    const { watch } = await watching([]);
    expect(watch.declared("GatewayClass", status)).toBe(status);
    const forbidden = await watching([], 403);
    expect(definedKinds.map((kind) => forbidden.watch.declared(kind, status))).toEqual(definedKinds.map(() => status));
  });

  test("logs missing protection once", async () => {
    const { warn } = await watching([definition("Gateway", { spec: { tls: { properties: { frontend: {} } } } })]);
    expect(warn).toHaveBeenCalledExactlyOnceWith(
      { problem: "the definition of Gateway has no field spec.tls.backend: backends get no client certificate" },
      expect.any(String),
    );
  });
});
