/** Filter RequestMirror. */
import type { BackendReference, RequestMirror } from "../../../api/http-route-filter.ts";
import type { Filter } from "../../../ir/filter.ts";
import type { BackendKey } from "../../../ir/snapshot.ts";
import type { BackendResolution } from "../../backend/service-backend.ts";

/** Translates the filter (Gateway API `HTTPRequestMirrorFilter`). Without a fraction, all requests are mirrored. */
export function translateRequestMirror({ percent, fraction }: RequestMirror, backend: BackendKey): Filter {
  const { numerator, denominator } = fraction ?? { numerator: percent ?? 100, denominator: 100 };
  return { kind: "RequestMirror", backend, numerator, denominator };
}

/** A provider would bill unread responses, so an `ai` Backend gets no mirrored requests. */
export function resolveMirror(
  mirror: RequestMirror,
  resolve: (ref: BackendReference) => BackendResolution,
): BackendResolution {
  const resolution = resolve(mirror.backendRef);
  if (resolution.kind !== "resolved") return resolution;
  const { namespace, name, ai, failover } = resolution.value;
  if (ai === undefined && failover === undefined) return resolution;
  const message = `Backend ${namespace}/${name} is an LLM provider, which takes no mirrored requests`;
  return { kind: "unresolved", reason: "InvalidKind", message };
}
