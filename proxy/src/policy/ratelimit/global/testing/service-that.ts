/** A client of a rate limit service with scripted responses, on a clock that does not advance by itself. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import type { RateLimitRequest } from "../messages.ts";
import { silentObserver } from "../observer.ts";
import { ServiceClient } from "../service-client.ts";
import { type CallOutcome, callFailure } from "@gatewayproxy/grpc/client/unary-client";
import type { UnaryClient } from "../grpc/unary-client.ts";

export const ok: CallOutcome = { kind: "responded", message: Buffer.from([8, 1]) };
export const away = callFailure("unavailable", "away");
export const notServing: CallOutcome = { kind: "responded", message: Buffer.from([8, 2]) };
/** Of a server without such a method. */
export const unimplemented = callFailure("rejected", "gRPC status 12");
export const health = "/grpc.health.v1.Health/Check";

export const call: RateLimitRequest = { domain: "d", descriptors: [{ entries: [{ key: "k", value: "v" }] }] };

/**
 * A service of which the test says what comes of each call, at once or when `hold` lets the response go; `sent` is
 * without questions for its health.
 */
export function serviceThat(
  responses: () => CallOutcome,
  isHealthy: () => CallOutcome = () => away,
  hold: (response: () => void) => void = (response) => response(),
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
      hold(() => done(responses()));
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
  const service = new ServiceClient({ key: "service", client, clock, observer, onRecovered: onBack });
  const ask = (): string => {
    let outcome = "none";
    service.decide("shouldRateLimit", call, 100, (response) => {
      outcome = response.kind;
    });
    return outcome;
  };
  return { clock, sent, dropped, changes, service, ask, healthCalls: () => healthCalls, timesBack: () => timesBack };
}
