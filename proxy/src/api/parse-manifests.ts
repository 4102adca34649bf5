/**
 * Turns the texts of manifest files into the set of resources that is in force, and a problem for everything that is
 * wrong. One bad resource does not stop the others, and what was good before stays in force while its text is bad.
 *
 * Whose text a bad one is, is known by kind, namespace and name. Where the fault hides that (broken YAML, a missing
 * name), any resource that the same file gave before and does not give now may be the one: they all stay.
 */
import type { Problem, SourceLocation } from "@gatewayproxy/runtime/problem";
import { type FieldPath, renderPath } from "./issue.ts";
import { parseResource } from "./parse-resource.ts";
import { type Resource, type ResourceKey, resourceKey, type ResourceSet, resourceSet } from "./resource.ts";
import { type Locate, type ManifestFile, readYaml, type UnreadableFile } from "./yaml-text.ts";

export type { ManifestFile, UnreadableFile };

/** A resource that is in force, and the text that it came from. */
export interface InForce {
  readonly resource: Resource;
  /** Path of its file. */
  readonly file: string;
  readonly locate: Locate;
}

export type InForceByKey = ReadonlyMap<ResourceKey, InForce>;

export interface ParsedManifests {
  readonly resources: ResourceSet;
  readonly problems: readonly Problem[];
  /** Resources of which an earlier version is in force, because their text is bad now. */
  readonly kept: readonly ResourceKey[];
  /** What `resources` holds, by key; the `before` of the next call. */
  readonly inForce: InForceByKey;
}

/**
 * Parses all files of a configuration. Files are taken by path; the first to name a resource wins. Never throws.
 *
 * @param before what was in force until now; none at start.
 */
export function parseManifests(
  files: readonly (ManifestFile | UnreadableFile)[],
  before: InForceByKey = new Map(),
): ParsedManifests {
  const reader = new ManifestReader();
  const byPath = [...files].sort((a, b) => (a.path < b.path ? -1 : a.path > b.path ? 1 : 0));
  for (const file of byPath) {
    if ("fault" in file) reader.skip(file);
    else reader.read(file);
  }
  const kept = reader.keep(before);
  const { inForce, problems } = reader;
  const resources = resourceSet([...inForce.values()].map(({ resource }) => resource));
  return { resources, problems, kept, inForce };
}

/** Gathers entries file by file; `keep` comes last. */
class ManifestReader {
  readonly inForce = new Map<ResourceKey, InForce>();
  readonly problems: Problem[] = [];
  /** Where each resource was named first, good or bad. */
  readonly #named = new Map<ResourceKey, SourceLocation>();
  /** Files, and folders, of which some text could not be told to be any resource's. */
  readonly #obscureFiles = new Set<string>();

  skip({ path, fault }: UnreadableFile): void {
    this.#obscureFiles.add(path);
    this.problems.push({ message: `cannot read ${JSON.stringify(path)}: ${fault}` });
  }

  read(file: ManifestFile): void {
    for (const document of readYaml(file)) {
      if (document.kind === "read") {
        this.#readValue(document.value, { file: file.path, locate: document.locate, base: [] });
        continue;
      }
      this.#obscureFiles.add(file.path);
      this.problems.push(...document.faults);
    }
  }

  /** Lets stay what was good before and is bad now; tells which. */
  keep(before: InForceByKey): readonly ResourceKey[] {
    const kept: ResourceKey[] = [];
    for (const [key, earlier] of before) {
      if (this.inForce.has(key)) continue;
      if (!this.#named.has(key) && !this.#isObscure(earlier.file)) continue;
      this.inForce.set(key, earlier);
      kept.push(key);
    }
    return kept;
  }

  #isObscure(file: string): boolean {
    if (this.#obscureFiles.has(file)) return true;
    return [...this.#obscureFiles].some((path) => file.startsWith(`${path}/`));
  }

  #readValue(value: unknown, source: EntrySource): void {
    const items = listItems(value);
    if (items === undefined) this.#readEntry(value, source);
    else items.forEach((item, index) => this.#readEntry(item, { ...source, base: ["items", index] }));
  }

  #readEntry(value: unknown, { file, locate, base }: EntrySource): void {
    const parsed = parseResource(value);
    if (parsed.kind === "foreign") return;
    const key = parsed.kind === "resource" ? resourceKey(parsed.resource) : parsed.key;
    if (key === undefined) this.#obscureFiles.add(file);
    else if (!this.#claim(key, locate([...base, "metadata", "name"]))) return;

    if (parsed.kind === "resource") {
      const locateField: Locate = (path, pointsAtName) => locate([...base, ...path], pointsAtName);
      this.inForce.set(resourceKey(parsed.resource), { resource: parsed.resource, file, locate: locateField });
      return;
    }
    for (const { path, message, isUnknownField } of parsed.faults) {
      const location = locate([...base, ...path], isUnknownField);
      const field = path.length === 0 ? {} : { path: renderPath(path) };
      this.problems.push({ message, ...(key === undefined ? {} : { resource: key }), ...field, location });
    }
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
}

interface EntrySource {
  readonly file: string;
  readonly locate: Locate;
  /** Path of the entry within its document; not empty in a List. */
  readonly base: FieldPath;
}

/** Items of a `List`, as `kubectl get -o yaml` writes it; undefined for any other value. */
function listItems(value: unknown): readonly unknown[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (!("kind" in value) || value.kind !== "List" || !("items" in value)) return undefined;
  return Array.isArray(value.items) ? value.items : undefined;
}
