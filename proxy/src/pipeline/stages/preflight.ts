/** Responds to CORS preflight requests (Fetch standard §3.2.2), as the CORS filter of the rule says. */
import { preflightHeaders, readPreflight } from "../../filters/cors.ts";
import { originNotAllowed } from "../local-replies.ts";
import type { Stage } from "../stage.ts";

export const preflight: Stage = {
  name: "CORS preflight",
  run(request) {
    const { cors } = request.rule;
    const { method, rawHeaders } = request.downstream.head;
    const asked = cors === undefined ? undefined : readPreflight(method, rawHeaders);
    if (cors === undefined || asked === undefined) return "continue";
    const headers = preflightHeaders(cors, asked);
    return headers === undefined ? request.reply(originNotAllowed) : request.respond(204, headers, "");
  },
};
