/**
 * Active health checks of an endpoint, on their own connections. Three consecutive failures make an endpoint unhealthy,
 * and one success makes it healthy. An endpoint of streams is checked by a connection to it, without a request.
 */
import type { Clock, Timer } from "@gatewayproxy/runtime/clock";
import type { AddressGuard } from "@gatewayproxy/runtime/address-rules";
import type { Logger } from "@gatewayproxy/runtime/log";
import { UpstreamCall } from "./call.ts";
import { createConnection } from "./create-connection.ts";
import type { ConnectionSweeper } from "./connection-sweeper.ts";
import { connectFailure, type UpstreamFailure } from "./failure.ts";
import { OpeningSocket } from "./opening-socket.ts";
import type { HealthCheckSettings } from "./upstream-settings.ts";
import { addressOf, type ConnectionTarget } from "./connection.ts";

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
    const ask = target.protocol === "tcp" ? connectToEndpoint : askEndpoint;
    const isGood = await ask(this.#options).catch(() => false);
    if (this.#isClosed) return;
    const wasFailing = this.isFailing;
    if (isGood !== undefined) this.#failures = isGood ? 0 : this.#failures + 1;
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
  readonly sweeper: ConnectionSweeper;
  readonly log: Logger;
  /** 0 ≤ random() < 1 */
  readonly random: () => number;
  /** Called when `isFailing` has changed. */
  readonly onChange: () => void;
}

/** Whether an endpoint has passed a check; undefined if the check says nothing about it. */
type CheckResult = boolean | undefined;

/** Connects once, within the timeout of checks. */
function connectToEndpoint({
  target,
  addresses,
  clock,
  sweeper,
  timeoutMs,
}: HealthCheckSettings & CheckedEndpoint): Promise<CheckResult> {
  const options = { addresses, clock, sweeper, connectTimeoutMs: timeoutMs, idleTimeoutMs: timeoutMs };
  return new Promise((resolve) => {
    OpeningSocket.open(
      target,
      options,
      { session: undefined },
      {
        onConnect(socket) {
          socket.on("error", () => undefined).destroy();
          resolve(true);
        },
        onConnectError: (error) => resolve(failedCheck(connectFailure(error))),
      },
    );
  });
}

/** Makes one check on its own connection. Never rejects. */
function askEndpoint(options: HealthCheckSettings & CheckedEndpoint): Promise<CheckResult> {
  const { target, addresses, clock, sweeper, timeoutMs, path } = options;
  const timeouts = { connectTimeoutMs: timeoutMs, idleTimeoutMs: timeoutMs };
  const unavailable = { onUnavailable: () => undefined };
  const connection = createConnection(
    target,
    { ...timeouts, addresses, clock, sweeper },
    { session: undefined },
    unavailable,
  );
  return new Promise((resolve) => {
    const conclude = (isGood: CheckResult): void => {
      timer.cancel();
      connection.destroy();
      resolve(isGood);
    };
    const timer = clock.setTimer(timeoutMs, () => conclude(false));
    const sink = {
      onHead: (status: number) => conclude(status < 500),
      onData: () => undefined,
      onEnd: () => undefined,
      onFailure: (failure: UpstreamFailure) => conclude(failedCheck(failure)),
      onFault: () => conclude(false),
    };
    const owner = { begun: () => undefined, responded: () => undefined, release: () => undefined };
    const address = addressOf(target.endpoint);
    const fields = ["host", address, "user-agent", "gateway-proxy-health-check"];
    const request = { method: "GET", path, fields, body: undefined, upgrade: undefined };
    connection.send(request, timeoutMs, new UpstreamCall(address, request, sink, owner));
  });
}

/** A shortage on this machine says nothing about the endpoint. */
function failedCheck({ kind }: UpstreamFailure): CheckResult {
  return kind === "overloaded" ? undefined : false;
}
