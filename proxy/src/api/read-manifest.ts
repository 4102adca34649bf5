/**
 * Reads the text of one manifest file: every resource in it, valid or not, with its location. Independent of other
 * files, so the result is valid as long as the text is unchanged.
 */
import type { Problem, SourceLocation } from "@gatewayproxy/runtime/problem";
import type { Steps } from "@gatewayproxy/runtime/steps";
import { type FieldPath, renderPath } from "./issue.ts";
import { parseResource } from "./parse-resource.ts";
import { type Resource, type ResourceKey, resourceKey } from "./resource.ts";
import { type Locate, type ManifestFile, readYamlInSteps } from "./yaml-text.ts";

/** One resource, or one invalid piece, of a file. */
export type ManifestEntry =
  | {
      readonly kind: "resource";
      readonly key: ResourceKey;
      readonly resource: Resource;
      /** The location of its name. */
      readonly location: SourceLocation;
      /** Locates its fields. */
      readonly locate: Locate;
    }
  /** A resource with errors that can be identified by its key. */
  | {
      readonly kind: "rejected";
      readonly key: ResourceKey;
      readonly location: SourceLocation;
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

/**
 * Reads all entries in the order of the text; a List yields its items, and kinds that the gateway does not read are
 * skipped. In steps of one object. Never throws.
 */
export function* readManifest(file: ManifestFile): Steps<readonly ManifestEntry[]> {
  const entries: ManifestEntry[] = [];
  for (const document of readYamlInSteps(file)) {
    if (document?.kind === "unreadable") {
      entries.push({ kind: "obscure", isReadable: false, problems: document.errors });
    } else if (document !== undefined) {
      const { value, locate } = document;
      for (const { item, locate: locateItem } of itemsOf(value, locate)) {
        for (const entry of readEntry(item, locateItem)) entries.push(entry);
        yield;
      }
    }
    yield;
  }
  return entries;
}

function readEntry(value: unknown, locate: Locate): readonly ManifestEntry[] {
  const parsed = parseResource(value);
  const location = locate(["metadata", "name"]);
  switch (parsed.kind) {
    case "foreign":
      return [];
    case "resource": {
      const { resource } = parsed;
      return [{ kind: "resource", key: resourceKey(resource), resource, location, locate }];
    }
    case "rejected": {
      const { key, errors, remains } = parsed;
      const problems = errors.map(({ path, message, isUnknownField }): Problem => {
        const resource = key === undefined ? {} : { resource: key };
        const field = path.length === 0 ? {} : { path: renderPath(path) };
        return { message, ...resource, ...field, location: locate(path, isUnknownField) };
      });
      if (key === undefined) return [{ kind: "obscure", isReadable: true, problems }];
      return [{ kind: "rejected", key, location, problems, remains, locate }];
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

/** Returns the items of a `List`, as `kubectl get -o yaml` writes it; undefined for any other value. */
function listItems(value: unknown): readonly unknown[] | undefined {
  if (typeof value !== "object" || value === null) return undefined;
  if (!("kind" in value) || value.kind !== "List" || !("items" in value)) return undefined;
  return Array.isArray(value.items) ? value.items : undefined;
}
