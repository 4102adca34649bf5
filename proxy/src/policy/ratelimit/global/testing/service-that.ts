/** A client of a rate limit service whose answers a test writes, on a clock that stands still. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import type { RateLimitCall } from "../messages.ts";
import { silentObserver } from "../observer.ts";
import { ServiceClient } from "../service-client.ts";
import { type CallOutcome, callFailure, type UnaryClient } from "../grpc/unary-client.ts";

export const ok: CallOutcome = { kind: "answered", message: Buffer.from([8, 1]) };
export const away = callFailure("unavailable", "away");
export const notServing: CallOutcome = { kind: "answered", message: Buffer.from([8, 2]) };
/** Of a server without such a method. */
export const unimplemented = callFailure("rejected", "gRPC status 12");
export const health = "/grpc.health.v1.Health/Check";

export const call: RateLimitCall = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v" }] }] };

/**
 * A service of which the test says what comes of each call, at once or when `hold` lets the answer go; `sent` is without
 * questions for its health.
 */
export function serviceThat(
  answers: () => CallOutcome,
  isHealthy: () => CallOutcome = () => away,
  hold: (answer: () => void) => void = (answer) => answer(),
) {
  const clock = new FakeClock();
  const sent: { readonly path: string; readonly timeoutMs: number }[] = [];
  const dropped: string[] = [];
  const changes: string[] = [];
  let healthCalls = 0;
  const client: UnaryClient = {
    update: () => undefined,
    close: () => undefined,
    call(path, _message, timeoutMs, done) {
      if (path === health) {
        healthCalls++;
        done(isHealthy());
        return;
      }
      sent.push({ path, timeoutMs });
      hold(() => done(answers()));
    },
  };
  const observer = {
    ...silentObserver,
    chargeDropped: (_service: string, reason: string) => void dropped.push(reason),
    breakerChanged: (_service: string, isOpen: boolean) => void changes.push(isOpen ? "open" : "closed"),
    misbehaved: (_service: string, message: string) => void changes.push(message),
  };
  let timesBack = 0;
  const onBack = (): void => {
    timesBack++;
  };
  const service = new ServiceClient({ key: "service", client, clock, observer, onBack });
  const ask = (): string => {
    let outcome = "none";
    service.ask("shouldRateLimit", call, 100, (answer) => {
      outcome = answer.kind;
    });
    return outcome;
  };
  return { clock, sent, dropped, changes, service, ask, healthCalls: () => healthCalls, timesBack: () => timesBack };
}
