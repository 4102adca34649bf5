/** What the bundled service loads: the code that its settings need, since everything else takes memory and time. */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { afterAll, beforeAll, expect, onTestFinished, test, vi } from "vitest";
import { bundle } from "../../scripts/bundle.ts";
import { TestAuthority } from "../support/certificates.ts";
import { describeWith } from "../support/describe-with.ts";
import { bundlesVariable } from "../support/program-file.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { type Environment, startRateLimitService } from "../support/ratelimit-process.ts";
import { startRedis } from "../support/redis-server.ts";

// Processes start slowly on a busy machine.
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

const folder = mkdtempSync(join(tmpdir(), "loaded-code-"));
const bundles = process.env[bundlesVariable];
const image = join(bundles ?? folder, "ratelimit-service");
const limits = join(folder, "limits");

beforeAll(async () => {
  if (bundles === undefined) await bundle("ratelimit-service", image);
  mkdirSync(limits);
  writeFileSync(
    join(limits, "d.yaml"),
    "domain: d\ndescriptors: [{key: k, rate_limit: {unit: year, requests_per_unit: 9}}]\n",
  );
});
afterAll(() => rmSync(folder, { recursive: true }));

/** Writes what is loaded to the output, at a signal. */
const preload = `
import { registerHooks } from "node:module";
const files = [];
registerHooks({ load(url, context, next) { files.push(url); return next(url, context); } });
process.on("SIGUSR2", () => console.log(JSON.stringify({ msg: "loaded", modules: process.moduleLoadList, files })));
`;

async function start(env: Environment) {
  const hooks = `data:text/javascript,${encodeURIComponent(preload)}`;
  const command = ["--import", hooks, join(image, "ratelimit-service.js")];
  const service = await startRateLimitService(limits, env, [], command);
  onTestFinished(() => service.kill());
  return service;
}

/** The modules of Node, by their names, and the files of the bundle, without the hash in their names. */
async function loadedBy({ child, output }: Awaited<ReturnType<typeof start>>) {
  child.kill("SIGUSR2");
  const text = await vi.waitUntil(() => output.find((line) => line.includes('"msg":"loaded"')));
  const loaded = JSON.parse(text) as { readonly modules: readonly string[]; readonly files: readonly string[] };
  return {
    modules: loaded.modules.flatMap((name) => /^NativeModule ([a-z_0-9/]+)$/.exec(name)?.[1] ?? []),
    files: loaded.files.map((url) => basename(url).replace(/-[\w-]{8}\.js$/, "")),
  };
}

describeWith(["redis-server"], "with Redis, without TLS", (paths) => {
  test("loads no module and no file for what is not set", async () => {
    const redis = await startRedis(paths["redis-server"]);
    onTestFinished(() => redis.close());
    const service = await start({ REDIS_URL: `127.0.0.1:${redis.port}`, REDIS_SOCKET_TYPE: "tcp" });
    const client = connectRateLimit(service.grpcPort);
    onTestFinished(() => client.close());
    const { modules, files } = await loadedBy(service);

    expect(modules).toEqual(expect.arrayContaining(["net", "http"]));
    for (const name of ["tls", "crypto", "https", "http2", "zlib", "dns/promises"]) {
      expect(modules).not.toContain(name);
    }
    expect(files).toEqual(expect.arrayContaining(["ratelimit-service.js", "command", "open-redis-store"]));
    for (const name of ["open-memcache-store", "xds-source", "reflection", "pprof", "otlp-sender", "open-tracing"]) {
      expect(files).not.toContain(name);
    }
    expect(await client.send({ domain: "d", descriptors: [descriptor("k=v")] })).toMatchObject({ overallCode: "OK" });
  });
});

describeWith(["openssl"], "with certificates", ({ openssl }) => {
  test("loads node:tls", async () => {
    const own = new TestAuthority(openssl, mkdtempSync(join(folder, "tls-")), "ca").issue("own", "DNS:localhost");
    const tls = { GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: own.certFile, GRPC_SERVER_TLS_KEY: own.keyFile };
    const { modules, files } = await loadedBy(await start({ BACKEND_TYPE: "memory", ...tls }));

    expect(modules).toContain("tls");
    expect(files).not.toContain("open-redis-store");
  });
});
