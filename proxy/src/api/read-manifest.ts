/**
 * Reads the text of one manifest file: every resource in it, valid or not, with its location. Independent of other
 * files, so the result is valid as long as the text is unchanged.
 */
import { detachedText } from "@gatewayproxy/runtime/detached-text";
import type { Problem } from "@gatewayproxy/runtime/problem";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { type FieldPath, renderPath } from "./issue.ts";
import { parseResource } from "./parse-resource.ts";
import { documentParts } from "./plain-yaml.ts";
import { type Resource, type ResourceKey, resourceKey } from "./resource.ts";
import { DocumentLocator, TextLines } from "./yaml-locations.ts";
import { type Locate, type ManifestFile, readYamlInSteps, validValue } from "./yaml-text.ts";

/** One resource, or one invalid piece, of a file. */
export type ManifestEntry =
  | {
      readonly kind: "resource";
      readonly key: ResourceKey;
      readonly resource: Resource;
      /** Locates its fields. */
      readonly locate: Locate;
    }
  /** A resource with errors that can be identified by its key. */
  | {
      readonly kind: "rejected";
      readonly key: ResourceKey;
      readonly problems: readonly Problem[];
      /** See `remainsOf`. */
      readonly remains: Resource | undefined;
      readonly locate: Locate;
    }
  /** Text whose resource cannot be identified: broken YAML, a missing name, a misspelt kind. */
  | {
      readonly kind: "obscure";
      /** Whether the text is readable, as YAML without a valid name or kind is. */
      readonly isReadable: boolean;
      readonly problems: readonly Problem[];
    };

type ResourceEntry = Extract<ManifestEntry, { readonly kind: "resource" }>;

/**
 * The texts of valid documents of one object, and what was read; undefined for a kind that the gateway does not read. A
 * list, since most files are never read again.
 */
export type KnownObjects = readonly (readonly [text: string, entry: ResourceEntry | undefined])[];

/** No objects. */
export const noObjects: KnownObjects = [];

/** What a file contains. */
export interface ReadManifest {
  readonly entries: readonly ManifestEntry[];
  /** Those of its documents that are not parsed again if they are in the next text of the file, too. */
  readonly objects: KnownObjects;
}

/**
 * Reads all entries in the order of the text; a List yields its items, and kinds that the gateway does not read are
 * skipped. In steps of one object. Never throws.
 *
 * @param known the objects of the previous text of the file; they stay the same objects.
 */
export function* readManifest(file: ManifestFile, known = noObjects): Steps<ReadManifest> {
  return (yield* readValidManifest(file, known)) ?? { entries: yield* readAnyManifest(file), objects: known };
}

/** The same for a file without errors of YAML; undefined for any other. */
function* readValidManifest({ path, text }: ManifestFile, known: KnownObjects): Steps<ReadManifest | undefined> {
  const parts = documentParts(text);
  if (parts === undefined) return undefined;
  const lines = new TextLines(text);
  const entries: ManifestEntry[] = [];
  const objects: [string, ResourceEntry | undefined][] = [];
  const knownByText = new Map(known);
  for (const { from, to } of parts) {
    // Values are slices of the text that they are read from, and an unchanged object must not keep the whole file.
    const part = parts.length === 1 ? text : detachedText(text.slice(from, to));
    const locator = new DocumentLocator({ file: path, text, from, to, location: { file: path, ...lines.at(from) } });
    const { locate } = locator;
    if (known.length > 0 && knownByText.has(part)) {
      const object = knownByText.get(part);
      const entry = object && { ...object, locate };
      objects.push([part, entry]);
      if (entry !== undefined) entries.push(entry);
      yield;
      continue;
    }
    const value = yield* validValue(part);
    if (value === undefined) return undefined;
    locator.hold();
    const found: ManifestEntry[] = [];
    if (value.value !== null) yield* readObjects(value.value, locate, found);
    locator.release();
    for (const entry of found) entries.push(entry);
    const [only] = found;
    if (parts.length > 1 && !isList(value.value) && (only === undefined || only.kind === "resource")) {
      objects.push([part, only]);
    }
    yield;
  }
  return { entries, objects };
}

function* readAnyManifest(file: ManifestFile): Steps<readonly ManifestEntry[]> {
  const entries: ManifestEntry[] = [];
  for (const document of readYamlInSteps(file)) {
    if (document?.kind === "unreadable") {
      entries.push({ kind: "obscure", isReadable: false, problems: document.errors });
    } else if (document !== undefined) {
      yield* readObjects(document.value, document.locate, entries);
    }
    yield;
  }
  return entries;
}

/** Adds the entries of a document to `entries`. */
function* readObjects(value: unknown, locate: Locate, entries: ManifestEntry[]): Steps<void> {
  for (const { item, locate: locateItem } of itemsOf(value, locate)) {
    for (const entry of readEntry(item, locateItem)) entries.push(entry);
    yield;
  }
}

function readEntry(value: unknown, locate: Locate): readonly ManifestEntry[] {
  const parsed = parseResource(value);
  switch (parsed.kind) {
    case "foreign":
      return [];
    case "resource": {
      const { resource } = parsed;
      return [{ kind: "resource", key: resourceKey(resource), resource, locate }];
    }
    case "rejected": {
      const { key, errors, remains } = parsed;
      const problems = errors.map(({ path, message, isUnknownField }): Problem => {
        const resource = key === undefined ? {} : { resource: key };
        const field = path.length === 0 ? {} : { path: renderPath(path) };
        return { message, ...resource, ...field, location: locate(path, isUnknownField) };
      });
      if (key === undefined) return [{ kind: "obscure", isReadable: true, problems }];
      return [{ kind: "rejected", key, problems, remains, locate }];
    }
  }
}

function below(locate: Locate, base: FieldPath): Locate {
  return (path, pointsAtName) => locate([...base, ...path], pointsAtName);
}

function* itemsOf(value: unknown, locate: Locate): Generator<{ readonly item: unknown; readonly locate: Locate }> {
  const items = listItems(value);
  if (items === undefined) yield { item: value, locate };
  else for (const [index, item] of items.entries()) yield { item, locate: below(locate, ["items", index]) };
}

function isList(value: unknown): boolean {
  return listItems(value) !== undefined;
}

/** Returns the items of a `List`, as `kubectl get -o yaml` writes it; undefined for any other value. */
function listItems(value: unknown): readonly unknown[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (!("kind" in value) || value.kind !== "List" || !("items" in value)) return undefined;
  return Array.isArray(value.items) ? value.items : undefined;
}
