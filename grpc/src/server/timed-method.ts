/** Measures the duration of a unary method, successful or not. */
import type { Clock } from "@gatewayproxy/runtime/clock";
import type { UnaryMethod } from "./method.ts";

/** Wraps a method; `observe` is called after each call, with milliseconds. */
export function timedMethod(method: UnaryMethod, clock: Clock, observe: (milliseconds: number) => void): UnaryMethod {
  return {
    kind: "unary",
    readsFields: method.readsFields,
    call(message, fields, state) {
      const startMs = clock.monotonicMs();
      const done = (): void => observe(clock.monotonicMs() - startMs);
      try {
        const response = method.call(message, fields, state);
        if (response instanceof Promise) response.then(done, done);
        else done();
        return response;
      } catch (error) {
        done();
        throw error;
      }
    },
  };
}
