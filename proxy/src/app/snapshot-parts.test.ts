/** A snapshot in parts is the snapshot that it was, and what has not changed is the same object. */
import { readdirSync, readFileSync } from "node:fs";
import { atOnce } from "@gatewayproxy/runtime/steps";
import { expect, test } from "vitest";
import { parseManifests } from "../api/parse-manifests.ts";
import type { Snapshot } from "../ir/snapshot.ts";
import { bindOf, listenerOf, matchOf, prefix, routeOf, ruleOf } from "../routing/testing/builders.ts";
import { translate } from "../translate/translate.ts";
import {
  batchesOf,
  isSameFrame,
  type PackedSnapshot,
  packSnapshot,
  type PartKey,
  ReceivedParts,
} from "./snapshot-parts.ts";

/** A worker's side, and what it has been sent. */
class Receiver {
  readonly #parts = new ReceivedParts();
  #known: ReadonlySet<PartKey> = new Set();

  take(packed: PackedSnapshot): { readonly snapshot: Snapshot; readonly sent: number } {
    const { frame, parts } = structuredClone(packed);
    let sent = 0;
    for (const batch of batchesOf({ frame, parts }, this.#known)) {
      sent += batch.length;
      this.#parts.take(batch);
    }
    this.#parts.forget([...this.#known].filter((key) => !parts.has(key)));
    this.#known = new Set(parts.keys());
    return { snapshot: atOnce(this.#parts.assemble(frame)), sent };
  }
}

const pack = (snapshot: Snapshot): PackedSnapshot => atOnce(packSnapshot(snapshot));

const scenarios = new URL("../translate/testdata/", import.meta.url);
const files = readdirSync(scenarios).filter((name) => name.endsWith(".in.yaml"));

test("every scenario of translation arrives as it was made", () => {
  expect(files.length).toBeGreaterThan(50);
  // One worker, so that parts of one scenario are forgotten or used again in the next.
  const receiver = new Receiver();
  for (const [at, path] of files.entries()) {
    const { resources } = parseManifests([{ path, text: readFileSync(new URL(path, scenarios), "utf8") }]);
    const { binds, backends } = translate(resources);
    const snapshot = { generation: at + 1, binds, backends };
    expect(receiver.take(pack(snapshot)).snapshot).toEqual(snapshot);
  }
});

const route = (name: string) => routeOf(name, { rules: [ruleOf([matchOf({ path: prefix(`/${name}`) })])] });
const snapshotOf = (generation: number, ...names: readonly string[]): Snapshot => {
  const routes = names.map(route);
  const listeners = ["a", "b"].map((name) => listenerOf({ name, hostname: `${name}.test`, routes }));
  return { generation, binds: [bindOf(listeners)], backends: {} };
};

test("rules that have not changed are not sent again, and stay the same object", () => {
  const receiver = new Receiver();
  const rulesOf = ({ binds }: Snapshot, listener: number, at: number) =>
    binds[0]?.listeners[listener]?.routes[at]?.rules;
  const before = receiver.take(pack(snapshotOf(1, "r", "s"))).snapshot;
  expect(rulesOf(before, 0, 0)).toBeDefined();
  expect(rulesOf(before, 0, 0)).toBe(rulesOf(before, 1, 0));
  const { snapshot: after, sent } = receiver.take(pack(snapshotOf(2, "r", "t")));
  expect(rulesOf(after, 1, 0)).toBe(rulesOf(before, 0, 0));
  expect(rulesOf(after, 1, 1)).toEqual(route("t").rules);
  // The rules of one route, and two listeners.
  expect(sent).toBe(3);
});

test("a snapshot is the same whatever its generation, and another one for any change", () => {
  const frame = (...names: readonly string[]) => pack(snapshotOf(1, ...names)).frame;
  expect(isSameFrame(frame("r", "s"), pack(snapshotOf(2, "r", "s")).frame)).toBe(true);
  expect(isSameFrame(frame("r", "s"), frame("s", "r"))).toBe(false);
  expect(isSameFrame(frame("r"), frame("s"))).toBe(false);
});

test("a part that has not come is an error, not a snapshot without it", () => {
  expect(() => atOnce(new ReceivedParts().assemble(pack(snapshotOf(1, "r")).frame))).toThrow("has not come");
});
