/**
 * Parses the texts of manifest files into the resources in force, and a problem for each error. An invalid resource
 * does not affect the others, and its last valid version stays in force while its text is invalid.
 *
 * A resource is identified by kind, namespace and name. Where an error hides these (broken YAML, a missing name), the
 * text may belong to any resource that the same file declared before and does not declare now: all of those stay in
 * force.
 *
 * A ReferenceGrant permits nothing while it is invalid, since the edit may withdraw a permission
 * (`keepsLastValidVersion`). It stays in force only while text of its file cannot be read at all.
 */
import type { Problem, SourceLocation } from "@gatewayproxy/runtime/problem";
import { runToEnd, type Steps } from "@gatewayproxy/runtime/steps";
import { noObjects, type ReadManifest, readManifest } from "./read-manifest.ts";
import { keepsLastValidVersion } from "./rejected-resource.ts";
import { type Resource, type ResourceKey, type ResourceSet, resourceSet } from "./resource.ts";
import type { Locate, ManifestFile, UnreadableFile } from "./yaml-text.ts";

export type { ManifestFile, UnreadableFile };

/** A resource in force, and the text that it was read from. */
export interface InForce {
  readonly resource: Resource;
  /** Path of the file. */
  readonly file: string;
  readonly locate: Locate;
  /** True where no valid version was ever read: only the remains of the object are in force (`remainsOf`). */
  readonly isRejected: boolean;
}

/** The resources in force, by key. */
export type InForceByKey = ReadonlyMap<ResourceKey, InForce>;

/** A configuration: the parsed content of all its files. */
export interface ParsedManifests {
  readonly resources: ResourceSet;
  readonly problems: readonly Problem[];
  /** Resources whose previous version is in force, since their current text is invalid. */
  readonly kept: readonly ResourceKey[];
  /** The resources of `resources` with their texts, by key. */
  readonly inForce: InForceByKey;
  /** The content of each file, by path. A file whose text is unchanged is not parsed again. */
  readonly files: ReadonlyMap<string, ReadFile>;
}

/** The parsed entries of one file. */
export interface ReadFile extends ReadManifest {
  readonly path: string;
  /** Undefined where the file cannot be read. */
  readonly text: string | undefined;
}

/**
 * Parses all files of a configuration, ordered by path. The first file that declares a resource wins. Never throws.
 *
 * @param before the previous configuration; absent at the start.
 */
export function parseManifests(
  files: readonly (ManifestFile | UnreadableFile)[],
  before?: ParsedManifests,
): ParsedManifests {
  return runToEnd(parseManifestsInSteps(files, before));
}

/** The same in steps of one object each, since a folder may hold thousands of objects. */
export function* parseManifestsInSteps(
  files: readonly (ManifestFile | UnreadableFile)[],
  before?: ParsedManifests,
): Steps<ParsedManifests> {
  const byPath = [...files].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  const read: ReadFile[] = [];
  for (const file of byPath) read.push(yield* readFile(file, before?.files.get(file.path)));
  const gathered = new GatheredEntries();
  for (const file of read) yield* gathered.add(file);
  const kept = gathered.keep(before?.inForce ?? new Map());
  const { inForce, problems } = gathered;
  const resources = resourceSet([...inForce.values()].map(({ resource }) => resource));
  return { resources, problems, kept, inForce, files: new Map(read.map((file) => [file.path, file])) };
}

function* readFile(file: ManifestFile | UnreadableFile, before: ReadFile | undefined): Steps<ReadFile> {
  const { path } = file;
  if ("error" in file) {
    const problem = { message: `cannot read ${JSON.stringify(path)}: ${file.error}` };
    return {
      path,
      text: undefined,
      entries: [{ kind: "obscure", isReadable: false, problems: [problem] }],
      objects: noObjects,
    };
  }
  if (before?.text === file.text) return before;
  return { path, text: file.text, ...(yield* readManifest(file, before?.objects)) };
}

/** Collects the entries of files, which are added in order; `keep` is called last. */
class GatheredEntries {
  readonly inForce = new Map<ResourceKey, InForce>();
  readonly problems: Problem[] = [];
  /** Locates fields of the first declaration of each resource, valid or not. */
  readonly #named = new Map<ResourceKey, Locate>();
  /** Remains of resources that are invalid now. */
  readonly #remains = new Map<ResourceKey, InForce>();
  /** Files and folders with text that cannot be assigned to a resource. */
  readonly #obscureFiles = new Set<string>();
  /** Those of which some text cannot be read at all. */
  readonly #unreadableFiles = new Set<string>();

  /** In steps of one declaration that is ignored, since its text may have to be parsed again to locate it. */
  *add({ path, entries }: ReadFile): Steps<void> {
    for (const entry of entries) {
      if (entry.kind === "obscure") {
        this.#obscureFiles.add(path);
        if (!entry.isReadable) this.#unreadableFiles.add(path);
      } else if (!this.#claim(entry.key, entry.locate)) {
        yield;
        continue;
      }
      if (entry.kind === "resource") {
        this.inForce.set(entry.key, { resource: entry.resource, file: path, locate: entry.locate, isRejected: false });
        continue;
      }
      this.problems.push(...entry.problems);
      if (entry.kind !== "rejected" || entry.remains === undefined) continue;
      this.#remains.set(entry.key, { resource: entry.remains, file: path, locate: entry.locate, isRejected: true });
    }
  }

  /**
   * Keeps the previous version of each resource that is invalid now, or else its remains.
   *
   * @returns the keys whose previous version is kept.
   */
  keep(before: InForceByKey): readonly ResourceKey[] {
    const kept: ResourceKey[] = [];
    for (const [key, earlier] of before) {
      if (this.inForce.has(key) || !this.#isKept(key, earlier)) continue;
      this.inForce.set(key, earlier);
      if (!earlier.isRejected) kept.push(key);
    }
    for (const [key, remains] of this.#remains) if (!this.inForce.has(key)) this.inForce.set(key, remains);
    return kept;
  }

  /** Claims the key for the first declaration; reports a problem and returns false for later ones. */
  #claim(key: ResourceKey, locate: Locate): boolean {
    const known = this.#named.get(key);
    if (known === undefined) {
      this.#named.set(key, locate);
      return true;
    }
    const [first, location] = [locateName(known), locateName(locate)];
    const message = `already declared at ${first.file}:${first.line}:${first.column}; this declaration is ignored`;
    this.problems.push({ message, resource: key, location });
    return false;
  }

  /** Whether the previous version stays in force where the current text has no valid one. */
  #isKept(key: ResourceKey, { resource, file, isRejected }: InForce): boolean {
    const isNamed = this.#named.has(key);
    // Readable text that is not a valid grant permits nothing.
    if (!keepsLastValidVersion(resource.kind)) return !isNamed && isWithin(file, this.#unreadableFiles);
    return isNamed ? !isRejected : isWithin(file, this.#obscureFiles);
  }
}

function locateName(locate: Locate): SourceLocation {
  return locate(["metadata", "name"]);
}

/** Whether the file is one of `paths` or below one of them. */
function isWithin(file: string, paths: ReadonlySet<string>): boolean {
  return paths.has(file) || [...paths].some((path) => file.startsWith(`${path}/`));
}
