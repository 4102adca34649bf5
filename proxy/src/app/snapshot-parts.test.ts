/** A snapshot in parts is the snapshot that it was, and what has not changed is the same object. */
import { readdirSync, readFileSync } from "node:fs";
import { runToEnd } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import type { Backend, ListenerTls, Snapshot } from "../ir/snapshot.ts";
import { bindOf, listenerOf, matchOf, prefix, routeOf, ruleOf } from "../routing/testing/builders.ts";
import { translate } from "../translate/translate.ts";
import { batchesOf, SentParts } from "./sent-parts.ts";
import { isSameFrame, type PackedSnapshot, packSnapshot, ReceivedParts } from "./snapshot-parts.ts";

/** The receiving side of a worker, and the parts that were sent to it. */
class Receiver {
  readonly #parts = new ReceivedParts();
  readonly #sent = new SentParts();

  receive(packed: PackedSnapshot): { readonly snapshot: Snapshot; readonly sent: number } {
    const { added, removed } = this.#sent.next(packed.groups);
    for (const batch of batchesOf(added)) this.#parts.add(structuredClone(batch));
    this.#parts.remove(removed);
    return { snapshot: runToEnd(this.#parts.assemble(structuredClone(packed.frame))), sent: added.length };
  }
}

const pack = (snapshot: Snapshot): PackedSnapshot => runToEnd(packSnapshot(snapshot));

const scenarios = new URL("../translate/testdata/", import.meta.url);
const files = readdirSync(scenarios).filter((name) => name.endsWith(".in.yaml"));

test("every snapshot of the translation's test data arrives unchanged", () => {
  expect(files.length).toBeGreaterThan(50);
  // One worker, so that parts of one scenario are forgotten or used again in the next.
  const receiver = new Receiver();
  for (const [at, path] of files.entries()) {
    const { resources } = parseManifests([{ path, text: readFileSync(new URL(path, scenarios), "utf8") }]);
    const { binds, backends } = translate(resources);
    const snapshot = { generation: at + 1, binds, backends };
    expect(receiver.receive(pack(snapshot)).snapshot).toEqual(snapshot);
  }
});

const route = (name: string) => routeOf(name, { rules: [ruleOf([matchOf({ path: prefix(`/${name}`) })])] });
const snapshotOf = (generation: number, ...names: readonly string[]): Snapshot => {
  const routes = names.map(route);
  const listeners = ["a", "b"].map((name) => listenerOf({ name, hostname: `${name}.test`, routes }));
  return { generation, binds: [bindOf(listeners)], backends: [] };
};

test("rules that have not changed are not sent again, and stay the same object", () => {
  const receiver = new Receiver();
  const rulesOf = ({ binds }: Snapshot, listener: number, at: number) =>
    binds[0]?.listeners[listener]?.routes[at]?.rules;
  const before = receiver.receive(pack(snapshotOf(1, "r", "s"))).snapshot;
  expect(rulesOf(before, 0, 0)).toBeDefined();
  expect(rulesOf(before, 0, 0)).toBe(rulesOf(before, 1, 0));
  const { snapshot: after, sent } = receiver.receive(pack(snapshotOf(2, "r", "t")));
  expect(rulesOf(after, 1, 0)).toBe(rulesOf(before, 0, 0));
  expect(rulesOf(after, 1, 1)).toEqual(route("t").rules);
  // The rules of one route, the page of it, and two listeners.
  expect(sent).toBe(4);
});

test("authorities and certificates that are named several times are one part, and one object", () => {
  const pem = "-----BEGIN CERTIFICATE-----\n".padEnd(100_000, "x");
  const clientCertificate = { chain: pem, privateKey: { secret: "key" } };
  const backends = Array.from({ length: 100 }, (_, at): Backend => {
    // A list of its own for each, as translation makes them.
    const tls = { authorities: [pem], clientCertificate, hostname: `${at}.test` };
    return { key: `Backend/default/${at}`, kind: "Backend", namespace: "default", name: `${at}`, endpoints: [], tls };
  });
  const tls = (): ListenerTls => {
    const certificate = { source: "default/cert", hostnames: [], ...clientCertificate };
    const clientValidation = { authorities: [pem], mode: "AllowValidOnly" } as const;
    const versions = { minVersion: "TLSv1.2", maxVersion: "TLSv1.3", protocols: ["h2"] } as const;
    return { certificates: [certificate], clientValidation, ...versions };
  };
  const listeners = ["a", "b"].map((name) => ({ ...listenerOf({ name, routes: [] }), tls: tls() }));
  const snapshot = {
    generation: 1,
    binds: [bindOf(listeners)],
    backends,
  };
  const packed = pack(snapshot);
  const length = new SentParts().next(packed.groups).added.reduce((sum, [, text]) => sum + text.length, 0);
  // The text, a client's certificate and a listener's certificate.
  expect(length).toBeLessThan(3.5 * pem.length);
  const receiver = new Receiver();
  const { snapshot: received } = receiver.receive(packed);
  expect(received).toEqual(snapshot);
  const [first, ...others] = received.backends;
  expect(others.filter((each) => each.tls?.authorities !== first?.tls?.authorities)).toEqual([]);
  expect(others.filter((each) => each.tls?.clientCertificate !== first?.tls?.clientCertificate)).toEqual([]);
  const [a, b] = received.binds[0]?.listeners ?? [];
  expect(a?.tls?.certificates[0]).toBe(b?.tls?.certificates[0]);
  const again = receiver.receive(pack({ ...snapshot, generation: 2 })).snapshot;
  expect(again.backends[0]).toBe(first);
  expect(again.binds[0]?.listeners[0]?.tls).toBe(a?.tls);
});

test("snapshots are equal if only the generation differs", () => {
  const frame = (...names: readonly string[]) => pack(snapshotOf(1, ...names)).frame;
  expect(isSameFrame(frame("r", "s"), pack(snapshotOf(2, "r", "s")).frame)).toBe(true);
  expect(isSameFrame(frame("r", "s"), frame("s", "r"))).toBe(false);
  expect(isSameFrame(frame("r"), frame("s"))).toBe(false);
});

test("a missing part is an error, not a snapshot without it", () => {
  expect(() => runToEnd(new ReceivedParts().assemble(pack(snapshotOf(1, "r")).frame))).toThrow("is missing");
});
