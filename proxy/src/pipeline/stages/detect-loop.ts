/** Rejects requests that this Gateway has forwarded before, by `CDN-Loop` (RFC 8586). */
import { isLoop, isMirrored, loopField, withPass } from "../../filters/loop.ts";
import { loopDetected, mirrorLoopDetected } from "../local-replies.ts";
import type { Stage } from "../stage.ts";

export const detectLoop: Stage = {
  name: "detect loop",
  run(request) {
    const { loopName, mirrors } = request.rule;
    const loop = loopField(request.downstream.head.rawHeaders);
    if (isLoop(loop, loopName)) return request.reply(loopDetected);
    if (mirrors && isMirrored(loop, loopName)) return request.reply(mirrorLoopDetected);
    request.loop = withPass(loop, loopName, mirrors);
    return "continue";
  },
};
