/**
 * Turns the texts of manifest files into the set of resources that is in force, and a problem for everything that is
 * wrong. One bad resource does not stop the others, and what was good before stays in force while its text is bad.
 *
 * Whose text a bad one is, is known by kind, namespace and name. Where the fault hides that (broken YAML, a missing
 * name), any resource that the same file gave before and does not give now may be the one: they all stay.
 */
import type { Problem, SourceLocation } from "@gatewayproxy/runtime/problem";
import { atOnce, type Steps } from "@gatewayproxy/runtime/steps";
import { type ManifestEntry, readManifest } from "./read-manifest.ts";
import { type Resource, type ResourceKey, type ResourceSet, resourceSet } from "./resource.ts";
import type { Locate, ManifestFile, UnreadableFile } from "./yaml-text.ts";

export type { ManifestFile, UnreadableFile };

/** A resource that is in force, and the text that it came from. */
export interface InForce {
  readonly resource: Resource;
  /** Path of its file. */
  readonly file: string;
  readonly locate: Locate;
  /** True where the text is bad and always was: this is what remains of it (see `parseResource`). */
  readonly isRefused: boolean;
}

export type InForceByKey = ReadonlyMap<ResourceKey, InForce>;

/** A configuration: all its files taken together. */
export interface ParsedManifests {
  readonly resources: ResourceSet;
  readonly problems: readonly Problem[];
  /** Resources of which an earlier version is in force, because their text is bad now. */
  readonly kept: readonly ResourceKey[];
  /** What `resources` holds, by key. */
  readonly inForce: InForceByKey;
  /** What each file was found to hold, by path; files whose text stays need not be read again. */
  readonly files: ReadonlyMap<string, ReadFile>;
}

export interface ReadFile {
  readonly path: string;
  /** Undefined where it could not be read. */
  readonly text: string | undefined;
  readonly entries: readonly ManifestEntry[];
}

/**
 * Parses all files of a configuration. Files are taken by path; the first to name a resource wins. Never throws.
 *
 * @param before the configuration that was in force until now; none at start.
 */
export function parseManifests(
  files: readonly (ManifestFile | UnreadableFile)[],
  before?: ParsedManifests,
): ParsedManifests {
  return atOnce(parseManifestsInSteps(files, before));
}

/** The same, in steps of one object each: a folder may hold thousands of them. */
export function* parseManifestsInSteps(
  files: readonly (ManifestFile | UnreadableFile)[],
  before?: ParsedManifests,
): Steps<ParsedManifests> {
  const byPath = [...files].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const read: ReadFile[] = [];
  for (const file of byPath) read.push(yield* readFile(file, before?.files.get(file.path)));
  const gathered = new GatheredEntries();
  for (const file of read) gathered.add(file);
  const kept = gathered.keep(before?.inForce ?? new Map());
  const { inForce, problems } = gathered;
  const resources = resourceSet([...inForce.values()].map(({ resource }) => resource));
  return { resources, problems, kept, inForce, files: new Map(read.map((file) => [file.path, file])) };
}

function* readFile(file: ManifestFile | UnreadableFile, before: ReadFile | undefined): Steps<ReadFile> {
  const { path } = file;
  if ("fault" in file) {
    const problem = { message: `cannot read ${JSON.stringify(path)}: ${file.fault}` };
    return { path, text: undefined, entries: [{ kind: "obscure", problems: [problem] }] };
  }
  return before?.text === file.text ? before : { path, text: file.text, entries: yield* readManifest(file) };
}

/** Takes files in their order; `keep` comes last. */
class GatheredEntries {
  readonly inForce = new Map<ResourceKey, InForce>();
  readonly problems: Problem[] = [];
  /** Where each resource was named first, good or bad. */
  readonly #named = new Map<ResourceKey, SourceLocation>();
  /** Of resources that are bad now. */
  readonly #remains = new Map<ResourceKey, InForce>();
  /** Files, and folders, of which some text could not be told to be any resource's. */
  readonly #obscureFiles = new Set<string>();

  add({ path, entries }: ReadFile): void {
    for (const entry of entries) {
      if (entry.kind === "obscure") this.#obscureFiles.add(path);
      else if (!this.#claim(entry.key, entry.location)) continue;
      if (entry.kind === "resource") {
        this.inForce.set(entry.key, { resource: entry.resource, file: path, locate: entry.locate, isRefused: false });
        continue;
      }
      this.problems.push(...entry.problems);
      if (entry.kind !== "rejected" || entry.remains === undefined) continue;
      this.#remains.set(entry.key, { resource: entry.remains, file: path, locate: entry.locate, isRefused: true });
    }
  }

  /** Lets stay what was good before and is bad now, else what remains of it; tells what stays. */
  keep(before: InForceByKey): readonly ResourceKey[] {
    const kept: ResourceKey[] = [];
    for (const [key, earlier] of before) {
      if (this.inForce.has(key)) continue;
      if (!this.#named.has(key) && !this.#isObscure(earlier.file)) continue;
      if (earlier.isRefused && this.#named.has(key)) continue;
      this.inForce.set(key, earlier);
      if (!earlier.isRefused) kept.push(key);
    }
    for (const [key, remains] of this.#remains) if (!this.inForce.has(key)) this.inForce.set(key, remains);
    return kept;
  }

  /** False, with a problem, where an earlier text names the same resource. */
  #claim(key: ResourceKey, location: SourceLocation): boolean {
    const first = this.#named.get(key);
    if (first === undefined) {
      this.#named.set(key, location);
      return true;
    }
    const message = `already given at ${first.file}:${first.line}:${first.column}, which wins; this one is ignored`;
    this.problems.push({ message, resource: key, location });
    return false;
  }

  #isObscure(file: string): boolean {
    if (this.#obscureFiles.has(file)) return true;
    return [...this.#obscureFiles].some((path) => file.startsWith(`${path}/`));
  }
}
