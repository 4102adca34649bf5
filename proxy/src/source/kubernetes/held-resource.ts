/**
 * An object of the API server as the proxy holds it: parsed, or refused with the last version that was sound. The API
 * server has checked an object before, so what is refused here is what it cannot check (an expression), or comes of a
 * CustomResourceDefinition of another version than this proxy's.
 */
import { isDeepStrictEqual } from "node:util";
import { gatewayGroup } from "../../api/names.ts";
import { parseResource } from "../../api/parse-resource.ts";
import type { RejectedResource } from "../../api/rejected-resource.ts";
import type { Resource } from "../../api/resource.ts";
import type { FieldFault, FieldPath } from "../../api/issue.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";
import { parseSoundRules } from "./sound-rules.ts";

export interface HeldResource {
  /** In force: this version, what may be of it, or the last one that was sound; undefined where there was none. */
  readonly resource: Resource | undefined;
  /** Why this version is not in force as a whole. */
  readonly rejected: RejectedResource | undefined;
  /** Fields that are not known here and were passed over. */
  readonly unknownFields: readonly FieldFault[];
}

export interface HoldOptions {
  /** For who writes statuses; for others a new status is no change. */
  readonly keepsStatus: boolean;
}

/** Takes a new version; gives `before` itself where nothing that concerns us has changed. */
export function holdResource(object: KubeObject, before: HeldResource | undefined, options: HoldOptions): HeldResource {
  const lastGood = before?.rejected?.inForce === "remains" ? undefined : before?.resource;
  // Deleted and made anew while nobody watched: what the other one said went with it.
  const isSameObject = lastGood?.metadata.uid === fieldsOf(object["metadata"])["uid"];
  const sound = isSameObject ? lastGood : undefined;
  const held = parseContained(options.keepsStatus ? object : { ...object, status: undefined }, sound);
  return before !== undefined && isDeepStrictEqual(held, before) ? before : held;
}

/** An object that the parser cannot take at all is refused like any other: it must not stop the watch of the others. */
function parseContained(object: KubeObject, lastGood: Resource | undefined): HeldResource {
  try {
    return parseHeld(object, lastGood);
  } catch (error) {
    const message = `cannot be read: ${error instanceof Error ? error.message : String(error)}`;
    const inForce = lastGood === undefined ? "nothing" : "lastSoundVersion";
    const faults = [{ path: [], message, isUnknownField: false }];
    return { resource: lastGood, rejected: { object, faults, inForce }, unknownFields: [] };
  }
}

function parseHeld(object: KubeObject, lastGood: Resource | undefined): HeldResource {
  const parsed = parseResource(object);
  if (parsed.kind === "resource") return { resource: parsed.resource, rejected: undefined, unknownFields: [] };
  // Only kinds that are read are watched.
  if (parsed.kind === "foreign") return { resource: undefined, rejected: undefined, unknownFields: [] };
  const { faults, remains } = parsed;
  if (isNewerGatewayApi(object, faults)) {
    const trimmed = parseResource(faults.reduce<unknown>((rest, { path }) => withoutField(rest, path), object));
    if (trimmed.kind === "resource") return { resource: trimmed.resource, rejected: undefined, unknownFields: faults };
  }
  // The same in every replica, whatever versions it has seen before.
  const partly = parseSoundRules(object, faults);
  if (partly !== undefined) {
    return { resource: partly, rejected: { object, faults, inForce: "soundRules" }, unknownFields: [] };
  }
  if (lastGood === undefined && remains !== undefined) {
    return { resource: remains, rejected: { object, faults, inForce: "remains" }, unknownFields: [] };
  }
  const inForce = lastGood === undefined ? "nothing" : "lastSoundVersion";
  return { resource: lastGood, rejected: { object, faults, inForce }, unknownFields: [] };
}

/**
 * Fields that a newer version of the Gateway API brought are passed over, as every implementation does; a limit of
 * ours must not be half understood.
 */
function isNewerGatewayApi({ apiVersion }: KubeObject, faults: readonly FieldFault[]): boolean {
  const isTheirs = typeof apiVersion === "string" && apiVersion.startsWith(`${gatewayGroup}/`);
  return isTheirs && faults.every(({ isUnknownField }) => isUnknownField);
}

/** A copy without the field at `path`. */
function withoutField(value: unknown, [first, ...rest]: FieldPath): unknown {
  if (first === undefined) return value;
  if (Array.isArray(value)) {
    return value.map((item: unknown, index) => (index === first ? withoutField(item, rest) : item));
  }
  if (!isObject(value)) return value;
  const fields = Object.entries(value).flatMap(([name, field]): [string, unknown][] => {
    if (name !== first) return [[name, field]];
    return rest.length === 0 ? [] : [[name, withoutField(field, rest)]];
  });
  return Object.fromEntries(fields);
}
