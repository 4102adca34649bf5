/** A limit by `source.address`: one counter per client, whatever the source and the spelling of its address. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type Echo, startBackend } from "../support/backend.ts";
import {
  backendManifest,
  backendRef,
  gatewayManifest,
  manifests,
  policyManifest,
  routeManifest,
  startGateway,
  type TestGatewayOptions,
} from "../support/gateway.ts";
import { rawHttp } from "../support/raw-http.ts";

/**
 * Allows one request an hour for each value of `key`; `send` sends a request with these header lines, after the bytes
 * `before`.
 */
async function start(options: TestGatewayOptions, key = "source.address") {
  const backend = await startBackend();
  const gateway = await startGateway(
    manifests(
      gatewayManifest(),
      backendManifest("b", backend.port),
      routeManifest("r", [`backendRefs: [${backendRef("b")}]`]),
      policyManifest("p", "kind: HTTPRoute, name: r", [`{ requests: 1, unit: Hours, key: ${key} }`]),
    ),
    options,
  );
  const send = (before: string, lines = "") =>
    rawHttp(gateway.url(), `${before}GET / HTTP/1.1\r\nHost: a\r\n${lines}Connection: close\r\n\r\n`);
  return { gateway, send };
}

/** Version 1 of the PROXY protocol. */
function line(address: string): string {
  const [family, destination] = address.includes(":") ? ["TCP6", "2001:db8::ffff"] : ["TCP4", "192.0.2.200"];
  return `PROXY ${family} ${address} ${destination} 56324 80\r\n`;
}

/** Version 2 with the IPv6 source address of these groups. */
function binary(groups: readonly number[]): string {
  const header = Buffer.alloc(52);
  Buffer.from("\r\n\r\n\0\r\nQUIT\n\x21\x21\0\x24", "latin1").copy(header);
  groups.forEach((group, at) => header.writeUInt16BE(group, 16 + at * 2));
  return header.toString("latin1");
}

const behindBalancer = { expectsProxyHeader: true };

describe("an IPv6 client", () => {
  test("has one counter for its /64, and the next network another one", async () => {
    const { send } = await start(behindBalancer);
    expect((await send(line("2001:db8:1:2::1"))).status).toBe(200);
    expect((await send(line("2001:db8:1:2:ffff:1:2:3"))).status).toBe(429);
    expect((await send(line("2001:db8:1:3::1"))).status).toBe(200);
  });

  test("has one counter for a network of the configured prefix length", async () => {
    const { send } = await start({ ...behindBalancer, ipv6PrefixLength: 56 });
    expect((await send(line("2001:db8:1:2::1"))).status).toBe(200);
    expect((await send(line("2001:db8:1:ff::1"))).status).toBe(429);
    expect((await send(line("2001:db8:1:100::1"))).status).toBe(200);
  });

  test("has one counter for its address if the expression selects that", async () => {
    const { send } = await start(behindBalancer, "source.exactAddress");
    expect((await send(line("2001:db8::1"))).status).toBe(200);
    expect((await send(line("2001:db8::2"))).status).toBe(200);
    expect((await send(line("2001:0DB8:0::2"))).status).toBe(429);
  });

  test("is reported with its full address to the backend and the log", async () => {
    const { send, gateway } = await start(behindBalancer);
    const { body } = await send(line("2001:0DB8:0:0::1"));
    expect((JSON.parse(body) as Echo).headers["x-forwarded-for"]).toBe("2001:db8::1");
    expect(gateway.records[0]?.sourceAddress).toBe("2001:db8::1");
  });
});

test("every spelling of an address in version 1 has the same counter as the address in version 2", async () => {
  const { send } = await start({ ...behindBalancer, ipv6PrefixLength: 128 });
  const group = fc.oneof(fc.constant(0), fc.integer({ min: 0, max: 0xffff }));
  const spelling = fc.tuple(fc.array(group, { minLength: 8, maxLength: 8 }), fc.boolean(), fc.boolean());
  await fc.assert(
    fc.asyncProperty(spelling, async ([groups, isUpper, isPadded]) => {
      const text = groups.map((one) => one.toString(16).padStart(isPadded ? 4 : 1, "0")).join(":");
      const first = await send(binary(groups));
      expect([200, 429]).toContain(first.status);
      expect((await send(line(isUpper ? text.toUpperCase() : text))).status).toBe(429);
    }),
    { numRuns: 40 },
  );
});

test("an IPv4 client has the same counter if its address is mapped into IPv6", async () => {
  const { send } = await start(behindBalancer);
  expect((await send(line("1.2.3.4"))).status).toBe(200);
  expect((await send(line("::ffff:1.2.3.4"))).status).toBe(429);
  expect((await send(binary([0, 0, 0, 0, 0, 0xffff, 0x102, 0x304]))).status).toBe(429);
  // NAT64: one /64 contains all of IPv4.
  expect((await send(line("64:ff9b::102:304"))).status).toBe(429);
  expect((await send(line("64:ff9b::102:305"))).status).toBe(200);
});

test("X-Forwarded-For of a trusted proxy is read in every form that proxies send", async () => {
  const { send } = await start({ trustedHops: 1 });
  const by = async (members: string) => (await send("", `X-Forwarded-For: ${members}\r\n`)).status;
  expect(await by("junk, 192.0.2.1")).toBe(200);
  for (const member of ["192.0.2.1:4711", "::ffff:192.0.2.1", "[::ffff:c000:201]:80"]) {
    expect(await by(member)).toBe(429);
  }
  expect(await by("2001:db8::1")).toBe(200);
  for (const member of ["[2001:db8::2]", '"[2001:DB8::3]:4711"', "2001:db8::4%eth0"]) {
    expect(await by(member)).toBe(429);
  }
  // A member that is no address has the counter of the peer.
  expect(await by("unknown")).toBe(200);
  expect(await by("_hidden")).toBe(429);
});
