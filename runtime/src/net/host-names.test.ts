import { createSocket } from "node:dgram";
import { mkdtempSync, rmSync, utimesSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import dnsPacket from "dns-packet";
import { expect, onTestFinished, test } from "vitest";
import { createNameResolver } from "./host-names.ts";

/** Addresses by name; `undefined` for a name that the server does not respond to. */
type Zone = Readonly<
  Record<string, { readonly addresses: readonly string[]; readonly ttlSeconds: number } | undefined>
>;

/** A name server for a few names. `queried` lists the names of queries for IPv4 addresses, in order. */
async function startNameServer(zone: Zone) {
  const socket = createSocket("udp4");
  const queried: string[] = [];
  socket.on("message", (message, { port, address }) => {
    const { id, questions = [] } = dnsPacket.decode(message);
    const [question] = questions;
    if (question === undefined) return;
    const { name, type } = question;
    if (type === "A") queried.push(name);
    const known = zone[name];
    if (name in zone && known === undefined) return;
    const isWanted = (each: string) => each.includes(":") === (type === "AAAA");
    const records = (known?.addresses ?? []).filter(isWanted).map((data) => {
      return { type: data.includes(":") ? ("AAAA" as const) : ("A" as const), name, ttl: known?.ttlSeconds ?? 0, data };
    });
    const nameError = 3;
    const flags = dnsPacket.RECURSION_AVAILABLE | (known === undefined ? nameError : 0);
    socket.send(dnsPacket.encode({ type: "response", id, flags, questions, answers: records }), port, address);
  });
  await new Promise<void>((resolve) => socket.bind(0, "127.0.0.1", resolve));
  onTestFinished(() => void socket.close());
  return { server: `127.0.0.1:${socket.address().port}`, queried };
}

function writeFiles(hosts: string, resolver: string) {
  const folder = mkdtempSync(join(tmpdir(), "host-names-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  const [hostsFile, resolverFile] = [join(folder, "hosts"), join(folder, "resolv.conf")];
  writeFileSync(hostsFile, hosts);
  writeFileSync(resolverFile, resolver);
  return { hostsFile, resolverFile };
}

async function startResolver(zone: Zone, { hosts = "", resolver = "" } = {}) {
  const { server, queried } = await startNameServer(zone);
  const files = writeFiles(hosts, resolver);
  return { resolve: createNameResolver({ servers: [server], ...files }), queried, ...files };
}

test("a name has the addresses of its records, for the shortest of their times to live", async () => {
  const { resolve } = await startResolver({ "api.example": { addresses: ["127.0.0.5", "127.0.0.6"], ttlSeconds: 7 } });
  expect(await resolve("api.example")).toEqual({ addresses: ["127.0.0.5", "127.0.0.6"], ttlMs: 7_000 });
});

test("the hosts file comes before DNS, in any case and with all of its lines, and is read again when it changes", async () => {
  const { resolve, queried, hostsFile } = await startResolver(
    { "new.example": { addresses: ["127.0.0.9"], ttlSeconds: 1 } },
    { hosts: "# comment\n127.0.0.5 first API.example # this\n::1 api.example\nnot-an-address api.example\n" },
  );
  expect((await resolve("Api.Example.")).addresses).toEqual(["127.0.0.5", "::1"]);
  expect(queried).toEqual([]);
  expect((await resolve("new.example")).addresses).toEqual(["127.0.0.9"]);
  writeFileSync(hostsFile, "127.0.0.7 new.example\n");
  utimesSync(hostsFile, 1, 1);
  expect((await resolve("new.example")).addresses).toEqual(["127.0.0.7"]);
});

test("localhost needs no file and no query (RFC 6761)", async () => {
  const { resolve, queried } = await startResolver({});
  for (const name of ["localhost", "api.localhost"]) {
    expect((await resolve(name)).addresses).toEqual(["127.0.0.1", "::1"]);
  }
  expect(queried).toEqual([]);
});

test("search domains complete a name: first one without a dot, last one with a dot, never one that ends with a dot", async () => {
  const zone = {
    "web.team.svc.example": { addresses: ["127.0.0.1"], ttlSeconds: 5 },
    "web.team.example": { addresses: ["127.0.0.2"], ttlSeconds: 5 },
  };
  const { resolve, queried } = await startResolver(zone, {
    resolver: "domain ignored.example\nsearch team.svc.example example. # both\noptions ndots:5\n",
  });
  expect((await resolve("web")).addresses).toEqual(["127.0.0.1"]);
  expect((await resolve("web.team")).addresses).toEqual(["127.0.0.2"]);
  await expect(resolve("web.")).rejects.toThrow("no address found for web. (web: ENOTFOUND)");
  expect(queried).toEqual(["web.team.svc.example", "web.team", "web.team.team.svc.example", "web.team.example", "web"]);
});

test("an error names what was queried", async () => {
  const { resolve } = await startResolver(
    { "bare.example": { addresses: [], ttlSeconds: 1 } },
    { resolver: "search a.example" },
  );
  await expect(resolve("bare.example")).rejects.toThrow(
    "no address found for bare.example (bare.example: ENODATA, bare.example.a.example: ENOTFOUND)",
  );
});

test("names of silent name servers delay no other name", async () => {
  const silent = Object.fromEntries(Array.from({ length: 50 }, (_, at) => [`silent${at}.example`, undefined]));
  const { resolve } = await startResolver({ ...silent, "good.example": { addresses: ["127.0.0.1"], ttlSeconds: 1 } });
  const ended: string[] = [];
  for (const name of Object.keys(silent)) {
    resolve(name).then(
      () => ended.push(name),
      () => ended.push(name),
    );
  }
  expect((await resolve("good.example")).addresses).toEqual(["127.0.0.1"]);
  expect(ended).toEqual([]);
});
