/** Rejects the requests of a rule that a policy which cannot be read closes (`--refused-policies Closed`). */
import { policyRejected } from "../local-replies.ts";
import type { Stage } from "../stage.ts";

export const closedRule: Stage = {
  name: "closed rule",
  run: (request) => request.reply(policyRejected),
};
