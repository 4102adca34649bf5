/** Measures how long a unary method takes, whichever way it ends. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { UnaryMethod } from "./method.ts";

/** The same method; `observe` is told of each call, in milliseconds. */
export function timedMethod(method: UnaryMethod, clock: Clock, observe: (milliseconds: number) => void): UnaryMethod {
  return {
    kind: "unary",
    call(message) {
      const startMs = clock.monotonicMs();
      const done = (): void => observe(clock.monotonicMs() - startMs);
      try {
        const answer = method.call(message);
        if (answer instanceof Promise) answer.then(done, done);
        else done();
        return answer;
      } catch (error) {
        done();
        throw error;
      }
    },
  };
}
