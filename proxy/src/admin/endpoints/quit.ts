/** `/quitquitquit`: the way down, as SIGTERM takes it. */
import type { AdminEndpoint } from "../endpoint.ts";

/** @param quit begins the shutdown; called when the answer has left, so that whoever asked knows it was heard. */
export function quitEndpoint(quit: () => void): AdminEndpoint {
  return {
    path: "/quitquitquit",
    query: [],
    summary: "Stops the proxy: no new connections, requests and streams under way finish, exit status 0.",
    methods: { POST: () => ({ kind: "text", text: "shutdown now\n", whenSent: quit }) },
  };
}
