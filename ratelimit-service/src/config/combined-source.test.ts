import { describe, expect, test } from "vitest";
import { CombinedSource } from "./combined-source.ts";
import type { ConfigSource, ConfigUpdate } from "./config-source.ts";
import type { DescriptorLevel } from "./rule.ts";

/** A source whose updates the test sends. */
class ScriptedSource implements ConfigSource {
  isClosed = false;
  #onUpdate: ((update: ConfigUpdate) => void) | undefined;

  start(onUpdate: (update: ConfigUpdate) => void): void {
    this.#onUpdate = onUpdate;
  }

  close(): void {
    this.isClosed = true;
  }

  /** Sends a state in which the part `key` has the domains. */
  send(key: string, domains: Readonly<Record<string, DescriptorLevel>>): void {
    this.#onUpdate?.({
      config: { domains: new Map(Object.entries(domains)) },
      parts: Object.keys(domains).map((domain) => ({ key, domain, state: "current" })),
      problems: [],
      warnings: [],
    });
  }

  /** Sends a state in which nothing could be read. */
  fail(message: string): void {
    this.#onUpdate?.({ parts: [], problems: [{ message }], warnings: [] });
  }
}

const level = (): DescriptorLevel => ({ byComposite: new Map(), wildcards: [] });

function start(options: { readonly servesInPart: boolean }) {
  const files = new ScriptedSource();
  const xds = new ScriptedSource();
  const updates: ConfigUpdate[] = [];
  const source = new CombinedSource({ files, xds, ...options });
  source.start((update) => updates.push(update));
  return { source, files, xds, updates };
}

describe("files beside an xDS server", () => {
  test.each(["files", "xds"] as const)("are served once both are known, the %s first", (first) => {
    const { updates, ...sources } = start({ servesInPart: false });
    sources[first].send(first, { [first]: level() });
    expect(updates).toEqual([]);
    const second = first === "files" ? "xds" : "files";
    sources[second].send(second, { [second]: level() });
    expect(updates.map(({ config }) => [...(config?.domains.keys() ?? [])].sort())).toEqual([["files", "xds"]]);
    expect(updates[0]?.config?.missing).toBeUndefined();
  });

  test("are served in part where the settings ask for it, and say what is missing", () => {
    const { files, xds, updates } = start({ servesInPart: true });
    files.send("a.yaml", { a: level() });
    expect(updates.at(-1)?.config).toEqual({ domains: new Map([["a", level()]]), missing: "the xDS server" });
    xds.send("r", { b: level() });
    expect(updates.at(-1)?.config).toEqual({
      domains: new Map([
        ["b", level()],
        ["a", level()],
      ]),
    });
  });

  test("with no folder to read serve the xDS server's domains, and say what is missing", () => {
    const { files, xds, updates } = start({ servesInPart: false });
    files.fail("cannot read");
    xds.send("r", { b: level() });
    expect(updates.at(-1)).toMatchObject({
      config: { domains: new Map([["b", level()]]), missing: "the files" },
      problems: [{ message: "cannot read" }],
    });
  });

  test.each(["files", "xds"] as const)("with a domain in both serve that of the files, the %s first", (first) => {
    const { files, xds, updates } = start({ servesInPart: false });
    const ours = level();
    const send = {
      files: () => files.send("a.yaml", { shared: ours }),
      xds: () => xds.send("r", { shared: level(), other: level() }),
    };
    send[first]();
    send[first === "files" ? "xds" : "files"]();
    const update = updates.at(-1);
    expect(update?.config?.domains.get("shared")).toBe(ours);
    expect(update?.config?.domains.has("other")).toBe(true);
    expect(update?.problems).toEqual([
      {
        message: "duplicate domain 'shared' in xDS resource",
        resource: "r",
        hint: "the file a.yaml has it and is served",
      },
    ]);
    xds.send("r", { other: level() });
    expect(updates.at(-1)?.problems).toEqual([]);
  });

  test("stop together", () => {
    const { source, files, xds } = start({ servesInPart: false });
    source.close();
    expect([files.isClosed, xds.isClosed]).toEqual([true, true]);
  });
});
