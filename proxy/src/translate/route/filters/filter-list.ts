/**
 * Translates the filters of a rule or a backendRef, and finds filters that exclude each other.
 *
 * A filter must never be skipped (Gateway API `HTTPRouteFilter.type`), so one invalid filter makes the whole rule
 * invalid. The API has one exception: a mirror without a backend is omitted, and requests are forwarded without it.
 */
import type { BackendReference, HeaderModifier, HttpRouteFilter } from "../../../api/http-route-filter.ts";
import type { FieldPath } from "../../../api/issue.ts";
import type { InvalidRuleReason, UnresolvedReason } from "../../../api/status.ts";
import type { Filter } from "../../../ir/filter.ts";
import type { Backend } from "../../../ir/snapshot.ts";
import { type Finding, findingOfReference, type Found } from "../../status/finding.ts";
import type { BackendResolution } from "../../backend/service-backend.ts";
import { translateFilter } from "./filter.ts";
import { repeatedHeaders } from "./header-modifier.ts";
import { resolveMirror, translateRequestMirror } from "./request-mirror.ts";

/** The filters of a rule or a backendRef. A rule with an invalid filter is not served. */
export interface TranslatedFilters extends Found<readonly Filter[], InvalidRuleReason | UnresolvedReason> {
  /** The backends of mirrors. */
  readonly backends: readonly Backend[];
}

/** The list that is translated. */
export interface FilterPlace {
  /** The path of the list in the route. */
  readonly path: FieldPath;
  /** The filters of the rule that apply before these; empty for the rule's own. */
  readonly before: readonly HttpRouteFilter[];
  readonly kind: "rule" | "backendRef";
}

/** Most references have none, and a tenant may have hundreds of thousands of references. */
const noFilters: TranslatedFilters = { value: [], backends: [], findings: [] };

/** Translates one list of filters, in its order. */
export function translateFilters(
  filters: readonly HttpRouteFilter[],
  place: FilterPlace,
  resolve: (ref: BackendReference) => BackendResolution,
): TranslatedFilters {
  if (filters.length === 0) return noFilters;
  const served: Filter[] = [];
  const backends: Backend[] = [];
  const findings: Finding<InvalidRuleReason | UnresolvedReason>[] = [];
  filters.forEach((filter, index) => {
    const path = [...place.path, index];
    findings.push(...findingsOfFilter(filter, filters, { ...place, path }));
    if (filter.type === "RequestMirror") {
      const resolution = resolveMirror(filter.requestMirror, resolve);
      if (resolution.kind === "unresolved") {
        findings.push(findingOfReference(resolution, [...path, "requestMirror", "backendRef"]));
        return;
      }
      // A copy must not be sent without TLS either. The status of the BackendTLSPolicy has the error.
      if (resolution.kind === "unusable") return;
      backends.push(resolution.value);
      served.push(translateRequestMirror(filter.requestMirror, resolution.value.key));
      return;
    }
    const translated = translateFilter(filter);
    if (translated !== undefined) served.push(translated);
  });
  return { value: served, backends, findings };
}

/** Returns the errors of a filter at its place. */
function findingsOfFilter(
  filter: HttpRouteFilter,
  beside: readonly HttpRouteFilter[],
  { path, before, kind }: FilterPlace,
): readonly Finding<InvalidRuleReason>[] {
  const has = (type: HttpRouteFilter["type"]): boolean => [...before, ...beside].some((other) => other.type === type);
  const at = [...path, "type"];
  switch (filter.type) {
    case "RequestHeaderModifier":
      return headerFindings(filter.requestHeaderModifier, [...path, "requestHeaderModifier"]);
    case "ResponseHeaderModifier":
      return headerFindings(filter.responseHeaderModifier, [...path, "responseHeaderModifier"]);
    case "RequestRedirect":
      // The parser and the CRD reject both in one list.
      if (!has("URLRewrite")) return [];
      return [
        {
          reason: "IncompatibleFilters",
          message: "RequestRedirect and the rule's URLRewrite exclude each other",
          path: at,
        },
      ];
    case "RequestMirror":
      if (!has("RequestRedirect")) return [];
      return [
        {
          reason: "IncompatibleFilters",
          message: "RequestMirror has no request to copy with RequestRedirect",
          path: at,
        },
      ];
    case "CORS": {
      if (kind === "rule") return [];
      // A preflight arrives before there is a request that could be assigned to one of the backends.
      const message = "filter CORS is supported in a rule, not in a backendRef";
      return [{ reason: "UnsupportedValue", message, path: at }];
    }
    case "ExtensionRef": {
      const { group, kind: extension, name } = filter.extensionRef;
      const message = `filter ExtensionRef to ${extension} ${name} (group "${group}") is not supported, there are no extensions`;
      return [{ reason: "UnsupportedValue", message, path: at }];
    }
    case "URLRewrite":
      return [];
  }
}

function headerFindings(modifier: HeaderModifier, path: FieldPath): readonly Finding<InvalidRuleReason>[] {
  return repeatedHeaders(modifier).map((name) => ({
    reason: "UnsupportedValue",
    message: `header ${name} has more than one action in one filter, accepted is one`,
    path,
  }));
}
