/** Starts the timeout of the whole request (Gateway API `HTTPRouteTimeouts.request`). */
import { RequestDeadline } from "../attempts/request-deadline.ts";
import { requestTimeout as timedOut } from "../local-replies.ts";
import type { Stage } from "../stage.ts";

export const requestTimeout: Stage = {
  name: "request timeout",
  run(request) {
    const { services, startMs, rule } = request;
    const endsMs = startMs + (rule.timeouts?.requestMs ?? 0);
    request.deadline = new RequestDeadline(services.clock, endsMs, () => request.abort(timedOut));
    return "continue";
  },
};
