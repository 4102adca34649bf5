/**
 * The cached state of an object of the API server: parsed, or rejected with its last valid version. The API server
 * validates objects first. The parser therefore rejects only objects with content that the API server cannot check (an
 * expression), and objects of another version of the CustomResourceDefinition.
 */
import { isDeepStrictEqual } from "node:util";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { gatewayGroup } from "../../api/names.ts";
import { parseResource } from "../../api/parse-resource.ts";
import { selectedInStatus } from "../../api/selected-secrets.ts";
import { keepsLastValidVersion, type RejectedResource } from "../../api/rejected-resource.ts";
import type { Resource } from "../../api/resource.ts";
import type { ErrorPlace } from "../../api/bounded-errors.ts";
import type { FieldError, FieldPath } from "../../api/issue.ts";
import { fieldsOf, isObject, type KubeObject } from "../../kube/object.ts";
import { reportedPart } from "./reported-part.ts";
import { parseValidRules } from "./valid-rules.ts";

/** The cached state of one object. */
export interface CachedResource {
  /** The version in force: this one, its valid parts, or the last valid one; undefined if there was none. */
  readonly resource: Resource | undefined;
  /** Present if this version is not in force as a whole. */
  readonly rejected: RejectedResource | undefined;
  /** Unknown fields that were ignored. */
  readonly unknownFields: readonly FieldError[];
}

/** Options of `cacheResource`. */
export interface CacheOptions {
  /**
   * True for the process that writes statuses, which passes the part of the status that is kept. Other processes ignore
   * changes of a status.
   */
  readonly keepsStatus: boolean;
  /** Errors of the object beside its content (`droppedFields`). Default: none. */
  readonly errors?: readonly FieldError[];
}

/** Parses a new version. Returns `before` itself if nothing relevant changed. */
export function cacheResource(
  object: KubeObject,
  before: CachedResource | undefined,
  options: CacheOptions,
): CachedResource {
  const lastValid = before?.rejected?.inForce === "remains" ? undefined : before?.resource;
  // The object may have been deleted and recreated between two events; its previous version then does not apply.
  const isSameObject = lastValid?.metadata.uid === fieldsOf(object["metadata"])["uid"];
  const previous = isSameObject && keepsLastValidVersion(object["kind"]) ? lastValid : undefined;
  const { keepsStatus, errors = [] } = options;
  const parsed = parseContained(keepsStatus ? object : withoutStatus(object), previous, errors);
  return before !== undefined && isDeepStrictEqual(parsed, before) ? before : parsed;
}

/** Of the status of a policy, the Secrets that it selects are a part of the configuration. */
function withoutStatus(object: KubeObject): KubeObject {
  const selectedSecrets = object["kind"] === "ProxyPolicy" ? selectedInStatus(object["status"]) : [];
  return { ...object, status: selectedSecrets.length === 0 ? undefined : { selectedSecrets } };
}

/** Rejects an object on which the parser throws, so that it does not stop the watch of the others. */
function parseContained(
  object: KubeObject,
  lastValid: Resource | undefined,
  further: readonly FieldError[],
): CachedResource {
  try {
    return parseVersion(object, lastValid, further);
  } catch (error) {
    const message = `cannot be read: ${errorMessage(error)}`;
    const inForce = lastValid === undefined ? "nothing" : "lastValidVersion";
    const errors = [{ path: [], message, isUnknownField: false }];
    return { resource: lastValid, rejected: { object: reportedPart(object), errors, inForce }, unknownFields: [] };
  }
}

function parseVersion(
  object: KubeObject,
  lastValid: Resource | undefined,
  further: readonly FieldError[],
): CachedResource {
  const parsed = parseResource(object, further);
  if (parsed.kind === "resource") return { resource: parsed.resource, rejected: undefined, unknownFields: [] };
  // Only kinds that the parser reads are watched.
  if (parsed.kind === "foreign") return { resource: undefined, rejected: undefined, unknownFields: [] };
  const { errors, places, remains } = parsed;
  const reported = reportedPart(object);
  if (isNewerGatewayApi(object, places) && !mayRestrict(object, places)) {
    const trimmed = parseResource(places.reduce<unknown>((rest, { path }) => withoutField(rest, path), object));
    if (trimmed.kind === "resource") return { resource: trimmed.resource, rejected: undefined, unknownFields: errors };
  }
  // The valid rules are the same in every replica; the last valid version depends on the versions that a replica has
  // read.
  const partly = parseValidRules(object, places);
  if (partly !== undefined) {
    return { resource: partly, rejected: { object: reported, errors, inForce: "validRules" }, unknownFields: [] };
  }
  if (lastValid === undefined && remains !== undefined) {
    return { resource: remains, rejected: { object: reported, errors, inForce: "remains" }, unknownFields: [] };
  }
  const inForce = lastValid === undefined ? "nothing" : "lastValidVersion";
  return { resource: lastValid, rejected: { object: reported, errors, inForce }, unknownFields: [] };
}

/**
 * Whether all errors are unknown fields of an object of the Gateway API. Fields of a newer version of that API are
 * ignored. Unknown fields of a ProxyPolicy or Backend are not ignored, because a limit must not be applied in part.
 */
function isNewerGatewayApi({ apiVersion }: KubeObject, errors: readonly ErrorPlace[]): boolean {
  const isGatewayApi = typeof apiVersion === "string" && apiVersion.startsWith(`${gatewayGroup}/`);
  return isGatewayApi && errors.every(({ isUnknownField }) => isUnknownField);
}

/**
 * Whether an unknown field may be a condition under which something is permitted, such as the authentication of clients
 * by a listener (`filters` of the experimental channel of 1.7, `tls.frontendValidation` of that before 1.5).
 */
function mayRestrict({ kind }: KubeObject, errors: readonly ErrorPlace[]): boolean {
  return errors.some(({ path: [part, field, , ofRule, , ofBackend] }) => {
    if (part !== "spec") return false;
    switch (kind) {
      case "ReferenceGrant":
      case "BackendTLSPolicy":
        return true;
      case "Gateway":
      case "ListenerSet":
        return field === "listeners" || field === "tls" || field === "allowedListeners";
      case "HTTPRoute":
      case "GRPCRoute":
        return ofRule === "matches" || ofRule === "filters" || (ofRule === "backendRefs" && ofBackend === "filters");
      default:
        return false;
    }
  });
}

/** Returns a copy without the field at `path`. */
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
