import { mkdir, mkdtemp, rename, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { systemClock } from "@gatewayproxy/runtime/clock";
import { afterEach, beforeEach, describe, expect, test } from "vitest";
import type { ConfigUpdate } from "./config-source.ts";
import { FileSource } from "./file-source.ts";

let root: string;
let source: FileSource | undefined;

beforeEach(async () => {
  root = await mkdtemp(join(tmpdir(), "ratelimit-config-"));
});

afterEach(async () => {
  source?.close();
  await rm(root, { recursive: true, force: true });
});

/** Starts a source and hands out its updates one by one. */
function watch(
  options: { readonly directory?: string; readonly keyRoot?: string; readonly ignoresDotFiles?: boolean } = {},
) {
  const directory = options.directory ?? root;
  const updates: ConfigUpdate[] = [];
  const waiting: ((update: ConfigUpdate) => void)[] = [];
  source = new FileSource({
    layout: { directory, keyRoot: options.keyRoot ?? directory, ignoresDotFiles: options.ignoresDotFiles ?? true },
    mergesDomains: false,
    pollIntervalMs: 5,
    clock: systemClock,
  });
  source.start((update) => {
    const next = waiting.shift();
    if (next === undefined) updates.push(update);
    else next(update);
  });
  return {
    next: () => {
      const update = updates.shift();
      if (update !== undefined) return Promise.resolve(update);
      return new Promise<ConfigUpdate>((resolve) => waiting.push(resolve));
    },
  };
}

const limits = (domain: string) => `domain: ${domain}\ndescriptors: []\n`;

function domainsOf(update: ConfigUpdate): readonly string[] | undefined {
  return update.config === undefined ? undefined : [...update.config.domains.keys()];
}

describe("a folder of configuration files", () => {
  test("is read with all below it, whatever the names", async () => {
    await mkdir(join(root, "team/a"), { recursive: true });
    await writeFile(join(root, "team/a/limits.yaml"), limits("deep"));
    await writeFile(join(root, "plain"), limits("flat"));
    const update = await watch().next();
    expect(domainsOf(update)).toEqual(["flat", "deep"]);
    expect(update.parts.map(({ key }) => key)).toEqual(["plain", "team.a.limits.yaml"]);
  });

  test("keys its files from the folder above when the root is watched", async () => {
    await mkdir(join(root, "config"));
    await writeFile(join(root, "config/limits.yaml"), limits("one"));
    const update = await watch({ directory: join(root, "config"), keyRoot: root }).next();
    expect(update.parts.map(({ key }) => key)).toEqual(["config.limits.yaml"]);
  });

  test("is served again though one of its files changes without end", async () => {
    await writeFile(join(root, "a.yaml"), limits("one"));
    let isOver = false;
    const churn = async (): Promise<void> => {
      for (let at = 0; !isOver; at++) await writeFile(join(root, "b.yaml"), `${limits("noise")}# ${at}\n`);
    };
    const updates = watch();
    await updates.next();
    const churning = churn();
    await writeFile(join(root, "a.yaml"), limits("two"));
    let domains: readonly string[] = [];
    while (!domains.includes("two")) domains = domainsOf(await updates.next()) ?? [];
    isOver = true;
    await churning;
    expect(domains).toContain("two");
  });

  test("case 64: is served again when a file appears, changes and goes", async () => {
    await writeFile(join(root, "a.yaml"), limits("one"));
    const updates = watch();
    expect(domainsOf(await updates.next())).toEqual(["one"]);
    await writeFile(join(root, "b.yaml"), limits("two"));
    expect(domainsOf(await updates.next())).toEqual(["one", "two"]);
    await writeFile(join(root, "b.yaml"), limits("three"));
    expect(domainsOf(await updates.next())).toEqual(["one", "three"]);
    await rm(join(root, "b.yaml"));
    expect(domainsOf(await updates.next())).toEqual(["one"]);
  });

  test("keeps what it served while it is away, and takes it up again", async () => {
    const directory = join(root, "config");
    await mkdir(directory);
    await writeFile(join(directory, "a.yaml"), limits("one"));
    const updates = watch({ directory });
    await updates.next();
    await rename(directory, join(root, "elsewhere"));
    const away = await updates.next();
    expect(domainsOf(away)).toEqual(["one"]);
    expect(away.problems[0]?.message).toMatch(/cannot read the configuration folder/);
    await rename(join(root, "elsewhere"), directory);
    const back = await updates.next();
    expect(domainsOf(back)).toEqual(["one"]);
    expect(back.problems).toEqual([]);
  });

  test("serves nothing while it has never been there", async () => {
    const update = await watch({ directory: join(root, "missing") }).next();
    expect(domainsOf(update)).toBeUndefined();
    expect(update.problems).toHaveLength(1);
  });
});

describe("a ConfigMap volume", () => {
  /** Writes a version of the volume as the kubelet does: a dated folder, `..data` → folder, files → `..data/file`. */
  async function publish(version: string, domain: string): Promise<void> {
    await mkdir(join(root, version));
    await writeFile(join(root, version, "limits.yaml"), limits(domain));
    await symlink(version, join(root, "..data_tmp"));
    await rename(join(root, "..data_tmp"), join(root, "..data"));
    await symlink("..data/limits.yaml", join(root, "limits.yaml")).catch(() => undefined);
  }

  test("case 67: is served again when its ..data is swapped", async () => {
    await publish("..2026_1", "one");
    const updates = watch();
    expect(domainsOf(await updates.next())).toEqual(["one"]);
    await publish("..2026_2", "two");
    expect(domainsOf(await updates.next())).toEqual(["two"]);
  });

  test("case 67: without RUNTIME_IGNOREDOTFILES is seen twice: the double is rejected, the limits are served", async () => {
    await publish("..2026_1", "one");
    const update = await watch({ ignoresDotFiles: false }).next();
    expect(domainsOf(update)).toEqual(["one"]);
    expect(update.problems.map(({ resource, message }) => `${resource}: ${message}`)).toEqual([
      "limits.yaml: duplicate domain 'one' in config file",
    ]);
  });
});
