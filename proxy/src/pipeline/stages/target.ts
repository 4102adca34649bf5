/** Picks the target of a request, and responds where it is not a backend. */
import { invalidBackend, noReadyEndpoint } from "../local-replies.ts";
import type { Stage } from "../stage.ts";
import { redirectTo } from "./redirect.ts";

/** Picks by weight (Gateway API `BackendRef.weight`). */
export const pickTarget: Stage = {
  name: "pick target",
  run(request) {
    request.target = request.rule.pick();
    return "continue";
  },
};

/** Responds if the target is invalid, redirects, or has no endpoint. */
export const requireBackend: Stage = {
  name: "require backend",
  run(request) {
    const { target, record } = request;
    if (target === undefined || target.kind === "invalid") return request.reply(invalidBackend);
    if (target.kind === "redirect") return redirectTo(request, target);
    record.backend = target.backend.backend.key;
    return target.backend.pools.length === 0 ? request.reply(noReadyEndpoint) : "continue";
  },
};
