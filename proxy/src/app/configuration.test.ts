import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { describe, expect, test, vi } from "vitest";
import { parseResource } from "../api/parse-resource.ts";
import { resourceSet } from "../api/resource.ts";
import type { BindFailure } from "../data-plane/data-plane.ts";
import type { PackedSnapshot } from "./snapshot-parts.ts";
import { Configuration } from "./configuration.ts";

const group = "gateway.networking.k8s.io";

function gateway(...ports: readonly number[]) {
  const listeners = ports.map((port) => ({ name: `p${port}`, port, protocol: "HTTP" }));
  const objects = [
    {
      apiVersion: `${group}/v1`,
      kind: "GatewayClass",
      metadata: { name: "gateway-proxy" },
      spec: { controllerName: "gatewayproxy.dev/controller" },
    },
    {
      apiVersion: `${group}/v1`,
      kind: "Gateway",
      metadata: { name: "web" },
      spec: { gatewayClassName: "gateway-proxy", listeners },
    },
  ];
  const resources = objects.map((object) => {
    const parsed = parseResource(object);
    if (parsed.kind !== "resource") throw new Error(JSON.stringify(parsed));
    return parsed.resource;
  });
  return { resources: resourceSet(resources), problems: [], kept: [], inForce: new Map() };
}

const taken = (port: number): BindFailure => ({
  address: undefined,
  port,
  message: `listen EADDRINUSE: address already in use :::${port}`,
});

/** A configuration of which `ports` cannot be listened on. */
function configuring(...ports: readonly number[]) {
  const clock = new FakeClock();
  const occupied = new Set(ports);
  const lines: string[] = [];
  const note = (level: string) => (_fields: unknown, text?: string) => void lines.push(`${level} ${text ?? ""}`);
  const log = {
    ...{ error: note("error"), warn: note("warn"), info: note("info"), debug: vi.fn(), trace: vi.fn() },
    isLevelEnabled: () => false,
  };
  const serve = vi.fn(({ frame }: PackedSnapshot) =>
    Promise.resolve(frame.binds.filter(({ port }) => occupied.has(port)).map(({ port }) => taken(port))),
  );
  const onServed = vi.fn();
  const onTaken = vi.fn();
  const configuration = new Configuration({
    ...{ log, clock, serve, onServed },
    // The whole of every wait.
    random: () => 1,
    repeatsProblems: false,
    onApplied: onTaken,
  });
  const errors = () => lines.filter((line) => line.startsWith("error"));
  return { configuration, clock, occupied, lines, errors, serve, onServed, onTaken };
}

describe("a set of resources", () => {
  const faulty = (message: string) => ({ ...gateway(80), problems: [{ message }] });

  test("is rejected for new problems, not for those of the previous set", async () => {
    const { configuration, onTaken } = configuring();
    for (const each of [gateway(80), faulty("a"), faulty("a"), faulty("b"), gateway(80)]) {
      await configuration.apply(each);
    }
    expect(onTaken.mock.calls).toEqual([
      [1, "valid"],
      [1, "rejected"],
      [1, "invalidAsBefore"],
      [1, "rejected"],
      [1, "valid"],
    ]);
  });
});

test("of many sets that come while one is applied, only the last is applied after it", async () => {
  const { configuration, serve, onTaken } = configuring();
  const { promise, resolve } = Promise.withResolvers<BindFailure[]>();
  serve.mockImplementationOnce(() => promise);
  const first = configuration.apply(gateway(80));
  await waitFor(() => expect(serve).toHaveBeenCalledTimes(1));
  const others = Array.from({ length: 100 }, (_, at) => configuration.apply(gateway(81 + at)));
  resolve([]);
  await Promise.all([first, ...others]);
  expect(serve.mock.calls.map(([{ frame }]) => frame.binds.map(({ port }) => port))).toEqual([[80], [180]]);
  expect(onTaken).toHaveBeenCalledTimes(2);
});

test("the state for operators is that of the last translation while it is not served yet", async () => {
  const { configuration, serve } = configuring();
  const { promise, resolve } = Promise.withResolvers<BindFailure[]>();
  const serving = new Promise<void>((begin) => {
    serve.mockImplementation(() => {
      begin();
      return promise;
    });
  });
  const applied = configuration.apply(gateway(80));
  await serving;
  const { statuses } = configuration.state();
  expect(statuses.gateways).toMatchObject([{ namespace: "default", name: "web" }]);
  // Probes and scrapes ask for it often, and a translation may take seconds.
  expect(configuration.state().statuses).toBe(statuses);
  resolve([]);
  await applied;
});

describe("an address that cannot be opened", () => {
  test("is retried without a change, with growing pauses", async () => {
    const { configuration, clock, serve } = configuring(80);
    await configuration.apply(gateway(80, 8080));
    for (const [attempt, waitMs] of [200, 400, 800].entries()) {
      clock.advance(waitMs - 1);
      expect(serve).toHaveBeenCalledTimes(attempt + 1);
      clock.advance(1);
      await waitFor(() => expect(serve).toHaveBeenCalledTimes(attempt + 2));
      await waitFor(() => expect(clock.pendingTimers).toBe(1));
    }
  });

  test("is logged once, and once more when it is open", async () => {
    const { configuration, clock, occupied, errors, lines, serve, onServed } = configuring(80);
    await configuration.apply(gateway(80, 8080));
    clock.advance(200);
    await waitFor(() => expect(clock.pendingTimers).toBe(1));
    expect(serve).toHaveBeenCalledTimes(2);
    expect(errors()).toEqual(["error cannot listen"]);
    occupied.clear();
    clock.advance(400);
    await waitFor(() => expect(onServed).toHaveBeenLastCalledWith({ openBinds: 2, failures: [] }));
    expect(lines).toContain("info listening");
    expect(configuration.state()).toMatchObject({ failures: [], snapshot: { generation: 1 } });
    expect(clock.pendingTimers).toBe(0);
  });

  test("is in the state for operators as long as it is closed", async () => {
    const { configuration, onServed } = configuring(80);
    await configuration.apply(gateway(80, 8080));
    expect(onServed).toHaveBeenLastCalledWith({ openBinds: 1, failures: [taken(80)] });
    expect(configuration.state().failures).toEqual([taken(80)]);
  });

  test("leaves its listener unprogrammed until it is open, and its Gateway while none is", async () => {
    const { configuration, clock, occupied } = configuring(80, 8080);
    await configuration.apply(gateway(80, 8080));
    const programmed = () => {
      const [status] = configuration.state().statuses.gateways;
      const all = [status, ...(status?.listeners ?? [])].map((each) =>
        each?.conditions.find(({ type }) => type === "Programmed"),
      );
      return all.map((condition) => `${condition?.status} ${condition?.message}`);
    };
    const message = (port: number) => `listen EADDRINUSE: address already in use :::${port}; trying again`;
    expect(programmed()).toEqual([
      `False listener p80: ${message(80)}; listener p8080: ${message(8080)}`,
      `False ${message(80)}`,
      `False ${message(8080)}`,
    ]);
    occupied.delete(8080);
    clock.advance(400);
    await waitFor(() =>
      expect(programmed()).toEqual([
        `True listener p80: ${message(80)}`,
        `False ${message(80)}`,
        "True listener is programmed",
      ]),
    );
    occupied.clear();
    clock.advance(800);
    await waitFor(() => expect(programmed()[1]).toBe("True listener is programmed"));
  });

  test("is not retried once no listener uses it", async () => {
    const { configuration, clock, lines } = configuring(80);
    await configuration.apply(gateway(80, 8080));
    await configuration.apply(gateway(8080));
    expect(clock.pendingTimers).toBe(0);
    expect(lines).not.toContain("info listening");
  });

  test("is logged and retried when a worker loses one that was open", async () => {
    const { configuration, clock, occupied, errors, lines, onServed } = configuring();
    await configuration.apply(gateway(80));
    occupied.add(80);
    await configuration.reopen();
    expect(configuration.state().failures).toEqual([taken(80)]);
    expect(onServed).toHaveBeenLastCalledWith({ openBinds: 0, failures: [taken(80)] });
    expect(errors()).toHaveLength(1);
    occupied.clear();
    clock.advance(200);
    await waitFor(() => expect(onServed).toHaveBeenLastCalledWith({ openBinds: 1, failures: [] }));
    expect(lines).toContain("info listening");
  });

  test("is retried soon after it has been open", async () => {
    const { configuration, clock, occupied, onServed } = configuring(80);
    await configuration.apply(gateway(80));
    for (const waitMs of [200, 400]) {
      await waitFor(() => expect(clock.pendingTimers).toBe(1));
      if (waitMs === 400) occupied.clear();
      clock.advance(waitMs);
    }
    await waitFor(() => expect(onServed).toHaveBeenLastCalledWith({ openBinds: 1, failures: [] }));
    occupied.add(80);
    await configuration.reopen();
    occupied.clear();
    clock.advance(200);
    await waitFor(() => expect(onServed).toHaveBeenLastCalledWith({ openBinds: 1, failures: [] }));
    expect(onServed).toHaveBeenCalledTimes(5);
  });

  test("is not retried after `close`", async () => {
    const { configuration, clock, serve } = configuring(80);
    await configuration.apply(gateway(80));
    configuration.close();
    clock.advance(60_000);
    expect(serve).toHaveBeenCalledTimes(1);
    expect(clock.pendingTimers).toBe(0);
  });
});
