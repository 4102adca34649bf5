/** ListenerSets: further listeners of a Gateway, served on its addresses, without effect on its other listeners. */
import { describe, expect, test } from "vitest";
import { respondWith, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGateway,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";
import { tlsGatewayManifest } from "../support/tls.ts";

const http = (name: string, hostname: string, port = 80): string =>
  `{ name: ${name}, port: ${port}, protocol: HTTP, hostname: ${hostname} }`;

const gateway = (allowed: string): string =>
  tlsGatewayManifest([http("http", "own.example")], `allowedListeners: { namespaces: { from: ${allowed} } }`);

function setManifest(name: string, listeners: readonly string[], created = "2026-01-01T00:00:00Z"): string {
  return `
apiVersion: gateway.networking.k8s.io/v1
kind: ListenerSet
metadata: { name: ${name}, namespace: default, creationTimestamp: "${created}" }
spec:
  parentRef: { name: web }
  listeners: [${listeners.join(", ")}]
`;
}

const route = (name: string, parents: string): string =>
  routeManifest(name, [`backendRefs: [${backendRef(name)}]`]).replace("[{ name: web }]", parents);

async function backends(...names: readonly string[]): Promise<string[]> {
  return Promise.all(
    names.map(async (name) => backendManifest(name, (await startBackend(respondWith(200, name))).port)),
  );
}

async function send(on: TestGateway, host: string, port = 80): Promise<string> {
  const head = `GET / HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`;
  const { status, body } = await rawHttp(on.url(port), head);
  return status === 200 ? body : String(status);
}

describe("a ListenerSet that its Gateway allows", () => {
  test("serves its routes, on ports of the Gateway and on further ports", async () => {
    const served = await startGateway(
      manifests(
        gateway("Same"),
        setManifest("more", [http("http", "set.example"), http("else", "set.example", 8080)]),
        ...(await backends("own", "set", "both")),
        route("own", "[{ name: web }]"),
        route("set", "[{ kind: ListenerSet, name: more }]"),
        route("both", "[{ name: web }, { kind: ListenerSet, name: more, sectionName: else }]").replace(
          "rules:\n    - ",
          "rules:\n    - matches: [{ path: { value: /both } }]\n      ",
        ),
      ),
    );
    expect(await send(served, "own.example")).toBe("own");
    expect(await send(served, "set.example")).toBe("set");
    expect(await send(served, "set.example", 8080)).toBe("set");
    expect(await send(served, "other.example")).toBe("404");
  });

  test("is under the limits of its Gateway, with one counter for all", async () => {
    const served = await startGateway(
      manifests(
        gateway("Same"),
        setManifest("more", [http("http", "set.example")]),
        ...(await backends("own", "set")),
        route("own", "[{ name: web }]"),
        route("set", "[{ kind: ListenerSet, name: more }]"),
        policyManifest("p", "kind: Gateway, name: web", ["{ requests: 2, unit: Minutes }"]),
      ),
    );
    expect([await send(served, "own.example"), await send(served, "set.example")]).toEqual(["own", "set"]);
    expect([await send(served, "own.example"), await send(served, "set.example")]).toEqual(["429", "429"]);
  });

  test("takes no host name from the Gateway or from an older set", async () => {
    const texts = [
      gateway("Same"),
      setManifest("older", [http("a", "a.example")]),
      ...(await backends("own", "older", "younger")),
      route("own", "[{ name: web }]"),
      route("older", "[{ kind: ListenerSet, name: older }]"),
      route("younger", "[{ kind: ListenerSet, name: younger }]"),
    ];
    const younger = setManifest(
      "younger",
      [http("own", "own.example"), http("a", "a.example"), http("b", "b.example")],
      "2026-02-01T00:00:00Z",
    );
    const served = await startGateway(manifests(...texts, younger));
    expect(await send(served, "own.example")).toBe("own");
    expect(await send(served, "a.example")).toBe("older");
    expect(await send(served, "b.example")).toBe("younger");
  });

  test("can be added and removed while a connection of the Gateway stays open", async () => {
    const texts = [gateway("Same"), ...(await backends("set")), route("set", "[{ kind: ListenerSet, name: more }]")];
    const set = setManifest("more", [http("http", "set.example")]);
    const served = await startGateway(manifests(...texts, set));
    expect(await send(served, "set.example")).toBe("set");
    await served.apply(manifests(...texts));
    expect(await send(served, "set.example")).toBe("404");
    await served.apply(manifests(...texts, set));
    expect(await send(served, "set.example")).toBe("set");
  });
});

test.each(["None", "Selector, selector: { matchLabels: { team: a } }"])(
  "a ListenerSet serves nothing if its Gateway allows %s",
  async (allowed) => {
    const served = await startGateway(
      manifests(
        gateway(allowed),
        setManifest("more", [http("http", "set.example")]),
        ...(await backends("set")),
        route("set", "[{ kind: ListenerSet, name: more }]"),
      ),
    );
    expect(await send(served, "set.example")).toBe("404");
  },
);
