/**
 * Active health checks of an endpoint, on their own connections. Three consecutive failures make an endpoint unhealthy, and one
 * success makes it healthy.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Logger } from "@gatewayproxy/runtime/log";
import { UpstreamCall } from "./call.ts";
import type { HealthCheckSettings } from "./upstream-settings.ts";
import { serverName } from "../connect/client-tls.ts";
import { addressOf, type ConnectionTarget, openConnection } from "./connection.ts";

const failuresToFail = 3;

export class HealthChecks {
  readonly #options: HealthCheckSettings & CheckedEndpoint;
  #timer: Timer;
  #failures = 0;
  #isClosed = false;

  constructor(options: HealthCheckSettings & CheckedEndpoint) {
    this.#options = options;
    // At random times, so that the endpoints of a large cluster are not all checked at once.
    this.#timer = options.clock.setTimer(options.intervalMs * options.random(), () => void this.#check());
  }

  get isFailing(): boolean {
    return this.#failures >= failuresToFail;
  }

  close(): void {
    this.#isClosed = true;
    this.#timer.cancel();
  }

  async #check(): Promise<void> {
    const { clock, intervalMs, onChange, log, target, path } = this.#options;
    const isGood = await askEndpoint(this.#options).catch(() => false);
    if (this.#isClosed) return;
    const wasFailing = this.isFailing;
    this.#failures = isGood ? 0 : this.#failures + 1;
    const endpoint = addressOf(target.endpoint);
    log.trace({ endpoint, path, isGood, failures: this.#failures }, "health checked");
    if (this.isFailing !== wasFailing) {
      const fields = { endpoint, path, failures: this.#failures };
      log.debug(fields, this.isFailing ? "endpoint fails its health checks" : "endpoint passes its health check again");
      onChange();
    }
    this.#timer = clock.setTimer(intervalMs, () => void this.#check());
  }
}

interface CheckedEndpoint {
  readonly target: ConnectionTarget;
  readonly addresses: AddressGuard;
  readonly clock: Clock;
  readonly log: Logger;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Called when `isFailing` has changed. */
  readonly onChange: () => void;
}

/** Makes one check on its own connection. Never rejects. */
function askEndpoint(options: HealthCheckSettings & CheckedEndpoint): Promise<boolean> {
  const { target, addresses, clock, timeoutMs, path } = options;
  const { client } = openConnection(target, { connectTimeoutMs: timeoutMs, idleTimeoutMs: timeoutMs, addresses });
  return new Promise((resolve) => {
    const conclude = (isGood: boolean): void => {
      timer.cancel();
      void client.destroy();
      resolve(isGood);
    };
    const timer = clock.setTimer(timeoutMs, () => conclude(false));
    const sink = {
      onHead: (status: number) => conclude(status < 500),
      onData: () => undefined,
      onEnd: () => undefined,
      onFailure: () => conclude(false),
      onFault: () => conclude(false),
    };
    const owner = { begun: () => undefined, responded: () => undefined, release: () => undefined };
    const { endpoint, tls } = target;
    const headers = ["host", addressOf(endpoint), "user-agent", "gateway-proxy-health-check"];
    try {
      client.dispatch(
        { method: "GET", path, headers, ...(tls !== undefined && { servername: serverName(endpoint.host, tls) }) },
        new UpstreamCall(addressOf(endpoint), { body: undefined, upgrade: undefined }, sink, owner),
      );
    } catch {
      // A path or a host that undici rejects.
      conclude(false);
    }
  });
}
