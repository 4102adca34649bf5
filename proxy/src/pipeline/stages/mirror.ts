/** Sends copies of the request to the mirrors of its backend reference (Gateway API `HTTPRequestMirrorFilter`). */
import { mirrorRequest } from "../mirror.ts";
import { outgoingOf, type Stage } from "../stage.ts";

export const mirror: Stage = {
  name: "mirror",
  run(request) {
    const { target, request: outgoing } = outgoingOf(request);
    const { services, span, client } = request;
    mirrorRequest(services, target.mirrors, { request: outgoing, span, client });
    return "continue";
  },
};
