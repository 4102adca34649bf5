/** The commands of the reference's image, as in the image of the service: by links, with the reference's defaults. */
import { once } from "node:events";
import { readFileSync, statSync } from "node:fs";
import { mkdtemp, rm, symlink, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { bundledPrograms } from "../../scripts/bundled-programs.ts";
import { TestAuthority } from "../support/certificates.ts";
import { startInProcess } from "../support/ratelimit-in-process.ts";
import { describeWith } from "../support/describe-with.ts";
import { connectRateLimit, descriptor } from "../support/rate-limit-client.ts";
import { programFile } from "../support/program-file.ts";
import { type Environment, spawnRateLimitService, startRateLimitService } from "../support/ratelimit-process.ts";
import { startRedis } from "../support/redis-server.ts";

const repository = fileURLToPath(new URL("../..", import.meta.url));
const dockerfile = readFileSync(join(repository, "Dockerfile"), "utf8");

/** The bundles of the commands by their names below /bin, as the Dockerfile links them. */
const commands = new Map(
  Array.from(dockerfile.matchAll(/ln -s \/app\/(\S+)\.js (\w+)/g), ([, bundle = "", name = ""]) => [name, bundle]),
);

let folder: string;
beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "image-"));
  await writeFile(
    join(folder, "limits.yaml"),
    "domain: d\ndescriptors:\n  - key: k\n    rate_limit: {unit: year, requests_per_unit: 1}\n",
  );
  for (const [name, bundle] of commands) {
    // A bundle that does not exist fails the tests of its command.
    const program = bundle as keyof (typeof bundledPrograms)["ratelimit-service"];
    await symlink(programFile("ratelimit-service", program), join(folder, `.${name}`));
  }
});
afterAll(() => rm(folder, { recursive: true }));

/** Node runs by the first line, which the kernel reads; the link is as in the image. */
const commandOf = (name: string) => [join(folder, `.${name}`)];

async function run(name: string, args: readonly string[], env: Environment = {}) {
  const child = spawnRateLimitService(args, env, commandOf(name));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (text += chunk.toString()));
  const [code] = (await once(child, "close")) as [number];
  return { code, text };
}

test.each(["ratelimit", "ratelimit_config_check", "ratelimit_client"])(
  "/bin/%s can be executed without a shell",
  (name) => {
    const file = join(repository, "ratelimit-service/src/bin", `${commands.get(name)}.ts`);
    const [first = ""] = readFileSync(file, "utf8").split("\n");

    // The kernel passes everything after the path as one argument.
    expect(first).toMatch(/^#!\/usr\/local\/bin\/node(?: \S+)?$/);
    expect(statSync(file).mode & 0o111).toBe(0o111);
    expect(dockerfile).toContain("COPY --from=ratelimit-commands /commands/ /");
  },
);

describeWith(["redis-server"], "/bin/ratelimit", (paths) => {
  async function start(env: Environment = {}) {
    const redis = await startRedis(paths["redis-server"]);
    onTestFinished(() => redis.close());
    const settings = { REDIS_URL: `127.0.0.1:${redis.port}`, RUNTIME_IGNOREDOTFILES: "true", ...env };
    const service = await startRateLimitService(folder, settings, [], commandOf("ratelimit"));
    onTestFinished(() => service.kill());
    const client = connectRateLimit(service.grpcPort);
    onTestFinished(() => client.close());
    const call = { domain: "d", descriptors: [descriptor("k=v")] };
    await expect.poll(() => client.outcome(call)).toHaveProperty("overallCode");
    return { ...service, redis, client, send: () => client.send(call) };
  }

  test("adds no header to responses unless a setting enables it", async () => {
    const plain = await start();
    const result = await start({ LIMIT_RESPONSE_HEADERS_ENABLED: "true" });

    expect(await plain.send()).toMatchObject({ overallCode: "OVER_LIMIT", responseHeadersToAdd: [] });
    const { responseHeadersToAdd } = await result.send();
    expect(responseHeadersToAdd.map(({ key }) => key)).toEqual([
      ...["RateLimit-Limit", "RateLimit-Remaining", "RateLimit-Reset"],
    ]);
  });

  test.each([
    ["is healthy without Redis", {}, "SERVING", 200],
    [
      "is unhealthy, if a setting enables the check",
      { REDIS_HEALTH_CHECK_ACTIVE_CONNECTION: "true" },
      "NOT_SERVING",
      500,
    ],
  ] as const)("%s", async (_, env, status, code) => {
    const { redis, client, http, output } = await start(env);
    await redis.kill();
    await expect.poll(() => output.some((line) => line.includes("store fails"))).toBe(true);

    await expect.poll(() => client.health("ratelimit")).toBe(status);
    expect((await fetch(`${http}/healthcheck`)).status).toBe(code);
  });

  test("ends with 2 for an unreadable setting, and if the folder of limits is missing", async () => {
    const wrong = await run("ratelimit", [], { REDIS_TIMEOUT: "soon" });
    const missing = await run("ratelimit", [], {
      ...{ RUNTIME_ROOT: join(folder, "missing"), HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" },
    });

    expect(wrong).toMatchObject({ code: 2, text: expect.stringContaining("REDIS_TIMEOUT") as string });
    expect(missing).toMatchObject({ code: 2, text: expect.stringContaining("RUNTIME_ROOT") as string });
  });

  test.each(["SIGTERM", "SIGINT", "SIGHUP"] as const)("stops at %s with 0", async (signal) => {
    const { child } = await start();
    const exited = once(child, "exit");
    child.kill(signal);

    expect(await exited).toEqual([0, null]);
  });

  test("responds to /bin/ratelimit_client", async () => {
    const { grpcPort } = await start();
    const flags = [
      "-dial_string",
      `127.0.0.1:${grpcPort}`,
      "--domain=d",
      "-descriptors",
      "k=other",
      "-descriptors",
      "k=more",
    ];
    const result = await run("ratelimit_client", flags);
    const again = await run("ratelimit_client", flags);

    expect(result.code).toBe(0);
    expect(result.text).toMatch(/^response: .*"overallCode":"OK"/);
    expect(again.text).toMatch(/^response: .*"overallCode":"OVER_LIMIT"/);
  });
});

describeWith(["openssl"], "/bin/ratelimit_client over TLS", ({ openssl }) => {
  test("accepts the certificate that Envoy Gateway issues for its namespace, by -grpc-server-name, and an IP address", async () => {
    const authority = new TestAuthority(openssl, await mkdtemp(join(folder, ".tls-")), "envoy-gateway");
    const own = authority.issue("envoy-rate-limit", "DNS:*.envoy-gateway-system", "IP:127.0.0.1");
    const { grpcPort } = await startInProcess({
      ...{ BACKEND_TYPE: "memory", RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: ".", RUNTIME_IGNOREDOTFILES: "true" },
      ...{ GRPC_SERVER_USE_TLS: "true", GRPC_SERVER_TLS_CERT: own.certFile, GRPC_SERVER_TLS_KEY: own.keyFile },
      GRPC_CLIENT_TLS_CACERT: authority.authority.certFile,
    });
    const files = ["-grpc-server-ca-file", authority.authority.certFile, "-grpc-cert-file", own.certFile];
    const flags = ["-domain", "d", "-descriptors", "k=tls", "-grpc-use-tls", "-grpc-key-file", own.keyFile, ...files];
    const send = (host: string, ...more: string[]) =>
      run("ratelimit_client", ["-dial_string", `${host}:${grpcPort}`, ...flags, ...more]);

    expect(await send("localhost", "-grpc-server-name", "envoy-ratelimit.envoy-gateway-system")).toMatchObject({
      code: 0,
      text: expect.stringContaining('"overallCode":"OK"') as string,
    });
    expect(await send("localhost")).toMatchObject({
      code: 1,
      text: expect.stringContaining("request error: ") as string,
    });
    // The address is in the certificate.
    expect(await send("127.0.0.1")).toMatchObject({ code: 0, text: expect.stringContaining("overallCode") as string });
  });
});

describe("/bin/ratelimit_client", () => {
  test.each([
    [["-domian", "d"], 2, "-domian is not a flag"],
    [["-domain"], 2, "-domain needs a value"],
    [["-grpc-use-tls=maybe"], 2, "-grpc-use-tls is true or false"],
    [["-descriptors", "k"], 1, "request error: k is not key=value"],
    [["-dial_string", "127.0.0.1:1", "-domain", "d"], 1, "request error: "],
  ] as const)("with %j ends with %d", async (args, code, text) => {
    const ended = await run("ratelimit_client", args);

    expect(ended).toMatchObject({ code, text: expect.stringContaining(text) as string });
  });
});

describe("/bin/ratelimit_config_check", () => {
  test("accepts a valid folder, and reports all problems of an invalid one", async () => {
    const bad = await mkdtemp(join(folder, ".bad-"));
    await writeFile(join(bad, "a.yaml"), "domain: ''\n");

    expect(await run("ratelimit_config_check", ["-config_dir", folder])).toEqual({
      code: 0,
      text: expect.stringContaining("all rate limit configs ok") as string,
    });
    expect(await run("ratelimit_config_check", [`--config_dir=${bad}`, "-merge_domain_configs"])).toEqual({
      code: 1,
      text: expect.stringContaining("config file cannot have empty domain") as string,
    });
  });
});
