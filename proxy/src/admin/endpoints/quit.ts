/** `/quitquitquit`: shuts down as SIGTERM does. */
import type { AdminEndpoint } from "../endpoint.ts";

/** @param quit Starts the shutdown; called when the response has been sent. */
export function quitEndpoint(quit: () => void): AdminEndpoint {
  return {
    path: "/quitquitquit",
    query: [],
    summary: "Stops the proxy: no new connections, requests and streams in progress finish, exit status 0.",
    methods: { POST: () => ({ kind: "text", text: "shutdown now\n", whenSent: quit }) },
  };
}
