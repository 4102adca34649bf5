import { mkdirSync, mkdtempSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { renderProblem } from "@gatewayproxy/runtime/problem";
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { afterEach, describe, expect, test } from "vitest";
import type { ParsedManifests } from "../api/parse-manifests.ts";
import { openDirectorySource } from "./directory.ts";

const cleanups: (() => Promise<void> | void)[] = [];

afterEach(async () => {
  for (const cleanup of cleanups.splice(0).reverse()) await cleanup();
});

function makeFolder(files: Readonly<Record<string, string>>): string {
  const folder = mkdtempSync(join(tmpdir(), "manifests-"));
  cleanups.push(() => rmSync(folder, { recursive: true, force: true }));
  for (const [name, text] of Object.entries(files)) write(folder, name, text);
  return folder;
}

function write(folder: string, name: string, text: string): void {
  mkdirSync(dirname(join(folder, name)), { recursive: true });
  writeFileSync(join(folder, name), text);
}

/** A Namespace is the smallest resource there is; its label makes versions tell apart. */
function namespace(name: string, version = "1"): string {
  return `apiVersion: v1\nkind: Namespace\nmetadata: {name: ${name}, labels: {version: "${version}"}}\n---\n`;
}

const badNamespace = "apiVersion: v1\nkind: Namespace\nmetadata: {name: a, labels: {version: 2}}\n";

/** What a configuration holds, as `name@version`. */
function contents({ resources }: ParsedManifests): readonly string[] {
  return resources.Namespace.map(({ metadata }) => `${metadata.name}@${metadata.labels["version"]}`).sort();
}

/** Opens a source and keeps all that it publishes. */
async function open(directory: string) {
  const published: ParsedManifests[] = [];
  let wake: (() => void) | undefined;
  const publish = (configuration: ParsedManifests) => {
    published.push(configuration);
    wake?.();
  };
  const source = await openDirectorySource({ onFailure: () => undefined, directory, clock: systemClock, publish });
  if (!source.ok) throw new Error(source.problems.map(renderProblem).join("\n"));
  cleanups.push(() => source.value.close());

  /** Resolves with the first configuration after those seen so far that is as wanted. */
  async function until(isWanted: (configuration: ParsedManifests) => boolean): Promise<ParsedManifests> {
    for (let seen = published.length; ; ) {
      for (; seen < published.length; seen++) {
        const candidate = published[seen];
        if (candidate !== undefined && isWanted(candidate)) return candidate;
      }
      await new Promise<void>((resolve) => {
        wake = resolve;
      });
    }
  }
  const holds = (...wanted: string[]) => until((it) => contents(it).join() === wanted.join());
  return { published, until, holds, close: () => source.value.close() };
}

describe("openDirectorySource()", () => {
  test("publishes all manifests of the folder and of those below it before it resolves", async () => {
    const folder = makeFolder({
      "a.yaml": namespace("a") + namespace("b"),
      "deep/er/c.yml": namespace("c"),
      "d.json": JSON.stringify({
        apiVersion: "v1",
        kind: "Namespace",
        metadata: { name: "d", labels: { version: "1" } },
      }),
      ".hidden.yaml": namespace("hidden"),
      ".git/e.yaml": namespace("git"),
      "notes.txt": "none of our business",
    });
    const { published } = await open(folder);
    expect(published.map(contents)).toEqual([["a@1", "b@1", "c@1", "d@1"]]);
    expect(published[0]?.problems).toEqual([]);
  });

  test("publishes a change within half a second", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const { holds } = await open(folder);
    const tookMs: number[] = [];
    // The best of three: the machine may be busy with other tests.
    for (const version of ["2", "3", "4"]) {
      const startMs = performance.now();
      const changed = holds(`a@${version}`);
      write(folder, "a.yaml", namespace("a", version));
      await changed;
      tookMs.push(performance.now() - startMs);
    }
    expect(Math.min(...tookMs)).toBeLessThan(500);
  });

  test("an emptied file keeps its previous content in force until it is written or deleted", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a"), "b.yaml": namespace("b"), "empty.yaml": "" });
    const { published, until, holds } = await open(folder);
    expect(published[0]?.problems).toEqual([]);
    const emptied = until(({ problems }) => problems.length > 0);
    write(folder, "a.yaml", "");
    const configuration = await emptied;
    expect(contents(configuration)).toEqual(["a@1", "b@1"]);
    expect(configuration.problems.map(renderProblem)).toEqual([
      expect.stringMatching(
        /a\.yaml": it is empty; its previous content stays in force until it is written or deleted$/,
      ),
    ]);
    const written = holds("a@2", "b@1");
    write(folder, "a.yaml", namespace("a", "2"));
    await written;
    const again = until(({ problems }) => problems.length > 0);
    write(folder, "a.yaml", "");
    await again;
    const gone = holds("b@1");
    unlinkSync(join(folder, "a.yaml"));
    await gone;
  });

  test("publishes new files, files of new folders, and deletions", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const { holds } = await open(folder);
    let changed = holds("a@1", "b@1");
    write(folder, "new/b.yaml", namespace("b"));
    await changed;
    changed = holds("a@1", "b@2");
    write(folder, "new/b.yaml", namespace("b", "2"));
    await changed;
    changed = holds("b@2");
    unlinkSync(join(folder, "a.yaml"));
    await changed;
  });

  test("publishes nothing for a change that changes no text", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const { published, holds } = await open(folder);
    const changed = holds("a@1", "b@1");
    write(folder, "a.yaml", namespace("a"));
    write(folder, ".hidden.yaml", namespace("hidden"));
    write(folder, "b.yaml", namespace("b"));
    await changed;
    expect(published).toHaveLength(2);
  });

  test("sees the swap of a mounted ConfigMap", async () => {
    const folder = makeFolder({ "..v1/a.yaml": namespace("a"), "..v2/a.yaml": namespace("a", "2") });
    symlinkSync("..v1", join(folder, "..data"));
    symlinkSync("..data/a.yaml", join(folder, "a.yaml"));
    const { published, holds } = await open(folder);
    expect(published.map(contents)).toEqual([["a@1"]]);
    const changed = holds("a@2");
    symlinkSync("..v2", join(folder, "..data_tmp"));
    renameSync(join(folder, "..data_tmp"), join(folder, "..data"));
    await changed;
  });

  test("keeps the previous version of a resource that becomes invalid, and updates the others", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a"), "b.yaml": namespace("b") });
    const { until, holds } = await open(folder);
    const broken = until((it) => it.problems.length > 0);
    write(folder, "a.yaml", badNamespace);
    const configuration = await broken;
    expect(contents(configuration)).toEqual(["a@1", "b@1"]);
    expect(configuration.kept).toEqual(["Namespace a"]);

    let changed = holds("a@1", "b@2");
    write(folder, "b.yaml", namespace("b", "2"));
    expect((await changed).kept).toEqual(["Namespace a"]);

    changed = holds("a@3", "b@2");
    write(folder, "a.yaml", namespace("a", "3"));
    expect((await changed).kept).toEqual([]);
  });

  test("keeps the content of a folder that cannot be read, and continues when it is readable again", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a"), "sub/b.yaml": namespace("b") });
    const { until, holds } = await open(folder);
    const gone = until((it) => it.problems.length > 0);
    renameSync(folder, `${folder}-away`);
    cleanups.push(() => rmSync(`${folder}-away`, { recursive: true, force: true }));
    const configuration = await gone;
    expect(contents(configuration)).toEqual(["a@1", "b@1"]);
    expect(configuration.problems.map(renderProblem)).toEqual([`cannot read "${folder}": it does not exist`]);

    const back = holds("a@2");
    write(folder, "a.yaml", namespace("a", "2"));
    await back;
  });

  test("keeps the content of a file that cannot be read", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const { until } = await open(folder);
    const unreadable = until((it) => it.problems.length > 0);
    // A link to itself: unreadable for everybody, root included.
    symlinkSync("a.yaml", join(folder, ".link"));
    renameSync(join(folder, ".link"), join(folder, "a.yaml"));
    const configuration = await unreadable;
    expect(contents(configuration)).toEqual(["a@1"]);
    expect(configuration.problems.map(renderProblem)).toEqual([
      `cannot read "${join(folder, "a.yaml")}": its symbolic links form a loop`,
    ]);
  });

  test("ends a loop of symbolic links", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    symlinkSync(".", join(folder, "again"));
    const { published } = await open(folder);
    expect(published.map(contents)).toEqual([["a@1"]]);
  });

  test("a first configuration without anything valid is empty and has the problems", async () => {
    const { published } = await open(makeFolder({ "a.yaml": badNamespace }));
    expect(published[0]?.inForce.size).toBe(0);
    expect(published[0]?.problems).toHaveLength(1);
  });

  test("an empty folder is a problem that names the accepted files", async () => {
    const folder = makeFolder({ "notes.txt": "" });
    const { published } = await open(folder);
    expect(published[0]?.inForce.size).toBe(0);
    expect(published[0]?.problems.map(renderProblem)).toEqual([
      `folder "${folder}" contains no manifest, accepted are *.yaml, *.yml and *.json files`,
    ]);
  });

  test.each([
    ["does not exist", () => "/nonexistent/folder", "it does not exist"],
    ["is a file", () => join(makeFolder({ "a.yaml": namespace("a") }), "a.yaml"), "it is not a folder"],
  ])("fails to open a folder that %s", async (_, path, fault) => {
    const clock = new FakeClock();
    const directory = path();
    const publish = () => expect.unreachable("nothing can be published");
    const source = await openDirectorySource({ onFailure: () => undefined, directory, clock, publish });
    expect(source).toEqual({
      ok: false,
      problems: [{ message: `cannot read the configuration folder "${directory}": ${fault}` }],
    });
    expect(clock.pendingTimers).toBe(0);
  });

  test("opens a folder of which one file cannot be read", async () => {
    const folder = makeFolder({ "a.yaml": namespace("a") });
    symlinkSync("loop.yaml", join(folder, "loop.yaml"));
    const { published } = await open(folder);
    expect(published.map(contents)).toEqual([["a@1"]]);
    expect(published[0]?.problems).toHaveLength(1);
  });

  test("publishes nothing that it was reading when it was closed", async () => {
    const clock = new FakeClock();
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const published: ParsedManifests[] = [];
    const source = await openDirectorySource({
      onFailure: () => undefined,
      directory: folder,
      clock,
      publish: (it) => published.push(it),
    });
    if (!source.ok) return expect.unreachable();
    write(folder, "a.yaml", namespace("a", "2"));
    // Its own look after the folder comes due, and with the quiet time over it reads.
    clock.advance(5_000);
    await source.value.close();
    expect(published.map(contents)).toEqual([["a@1"]]);
  });

  test("publishes nothing after close, and leaves no timer", async () => {
    const clock = new FakeClock();
    const folder = makeFolder({ "a.yaml": namespace("a") });
    const published: ParsedManifests[] = [];
    const source = await openDirectorySource({
      onFailure: () => undefined,
      directory: folder,
      clock,
      publish: (it) => published.push(it),
    });
    if (!source.ok) return expect.unreachable();
    write(folder, "a.yaml", namespace("a", "2"));
    await source.value.close();
    clock.advance(10_000);
    await new Promise((resolve) => setImmediate(resolve));
    expect(published.map(contents)).toEqual([["a@1"]]);
    expect(clock.pendingTimers).toBe(0);
  });
});
