/**
 * The service as the quota service of Envoy AI Gateway (envoyproxy/ai-gateway, internal/ratelimit and
 * internal/extensionserver/quota_ratelimit.go at c217da8): the limits that its controller sends by xDS for a
 * QuotaPolicy, and the calls that Envoy makes by the actions that it configures. Envoy AI Gateway itself does not run
 * here.
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import type { RateLimitConfig } from "@gatewayproxy/protos/gen/ratelimit/config/ratelimit/v3/RateLimitConfig";
import { expect, onTestFinished, test } from "vitest";
import { parseAllDocuments } from "yaml";
import { response, startXdsServer } from "../../ratelimit-service/src/config/xds/testing/xds-server.ts";
import { descriptor } from "../support/rate-limit-client.ts";
import { FixedClock, startInProcess } from "../support/ratelimit-in-process.ts";
import { spawnRateLimitService } from "../support/ratelimit-process.ts";

const folder = join(import.meta.dirname, "../../examples/limit-services/envoy-ai-gateway");

interface Container {
  readonly name: string;
  readonly command: readonly string[];
  readonly args?: readonly string[];
  readonly env: readonly { readonly name: string; readonly value: string }[];
}

function containerOf(file: string): Container {
  const documents = parseAllDocuments(readFileSync(join(folder, file), "utf8")).map((each) => each.toJS() as unknown);
  const deployment = documents.find((each) => (each as { readonly kind: string }).kind === "Deployment");
  const { spec } = deployment as { spec: { template: { spec: { containers: [Container] } } } };
  return spec.template.spec.containers[0];
}

const domain = "ai-gateway-quota";
const bucket = (requestsPerUnit: number) => ({
  quotaMode: true,
  rateLimit: { unit: "HOUR", requestsPerUnit } as const,
});

/** For two backends: one with a quota for a model, one with a rule for a header beside its default. */
const config: RateLimitConfig = {
  name: domain,
  domain,
  descriptors: [
    {
      key: "backend_name",
      value: "default/openai",
      descriptors: [{ key: "model_name_override", value: "gpt-5", ...bucket(10) }],
    },
    {
      key: "backend_name",
      value: "default/anthropic",
      descriptors: [
        {
          key: "model_name_override",
          value: "claude",
          descriptors: [
            {
              key: "rule-0-x-tier|premium-match-0",
              value: "rule-0-x-tier|premium-match-0",
              ...bucket(100),
            },
            { key: "rule-1-match--1", value: "rule-1-match--1", ...bucket(20) },
          ],
        },
      ],
    },
  ],
};

async function start() {
  const server = await startXdsServer();
  onTestFinished(() => server.close());
  void server.streams.next().then((stream) => stream.write(response("1", config)));
  const { env } = containerOf("service.yaml");
  const service = await startInProcess(
    {
      ...Object.fromEntries(env.map(({ name, value }) => [name, value])),
      CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${server.port}`,
      GRPC_PORT: "0",
      REDIS_URL: "",
      BACKEND_TYPE: "memory",
    },
    { clock: new FixedClock() },
  );
  const { node } = await server.requests.next();
  expect(node?.id).toBe("envoy-ai-gateway-ratelimit");
  return service;
}

const openai = ["backend_name=default/openai", "model_name_override=gpt-5"];
const claude = ["backend_name=default/anthropic", "model_name_override=claude"];

test("tokens are charged at the end of the stream, and requests are denied when the quota is used up", async () => {
  const { client } = await start();
  const request = () => client.send({ domain, descriptors: [descriptor(...openai)] });
  /** `%DYNAMIC_METADATA(…:quota_cost)%`, sent by `apply_on_stream_done`. */
  const charge = (tokens: number) =>
    client.send({ domain, descriptors: [{ ...descriptor(...openai), hitsAddend: { value: tokens } }] });

  expect(await request()).toMatchObject({ overallCode: "OK", statuses: [{ limitRemaining: 9 }] });
  await charge(15);
  expect(await request()).toMatchObject({ overallCode: "OVER_LIMIT", statuses: [{ code: "OVER_LIMIT" }] });
});

test("a request is allowed while any of its buckets is under its limit, of its backends too", async () => {
  const { client } = await start();
  const descriptors = [
    descriptor(...openai),
    descriptor(...claude, "rule-0-x-tier|premium-match-0=rule-0-x-tier|premium-match-0"),
    descriptor(...claude, "rule-1-match--1=rule-1-match--1"),
  ];
  const charge = (index: number, value: number) => {
    const charged = descriptors.slice(index, index + 1).map((each) => ({ ...each, hitsAddend: { value } }));
    return client.send({ domain, descriptors: charged });
  };
  const codes = async () => {
    const { overallCode, statuses } = await client.send({ domain, descriptors });
    return [overallCode, ...statuses.map(({ code }) => code)];
  };

  await charge(0, 50);
  expect(await codes()).toEqual(["OK", "OVER_LIMIT", "OK", "OK"]);
  await charge(2, 50);
  expect(await codes()).toEqual(["OK", "OVER_LIMIT", "OK", "OVER_LIMIT"]);
  await charge(1, 500);
  expect(await codes()).toEqual(["OVER_LIMIT", "OVER_LIMIT", "OVER_LIMIT", "OVER_LIMIT"]);
});

test("another model has no quota", async () => {
  const { client } = await start();
  const other = descriptor("backend_name=default/openai", "model_name_override=other");
  const reply = await client.send({ domain, descriptors: [other] });

  expect(reply).toMatchObject({ overallCode: "OK", statuses: [{ code: "OK", currentLimit: null }] });
});

test("/bin/ratelimit accepts arguments that the reference ignores, as in the manifest of Envoy AI Gateway", async () => {
  const { command, args = [] } = containerOf("service.yaml");
  expect(command).toEqual(["/bin/ratelimit"]);
  const program = [join(import.meta.dirname, "../../ratelimit-service/src/bin/ratelimit.ts")];
  const local = { HOST: "127.0.0.1", GRPC_HOST: "127.0.0.1", PORT: "0", GRPC_PORT: "0", DEBUG_PORT: "0" };
  const env = { ...local, BACKEND_TYPE: "memory", LOG_LEVEL: "info", LOG_FORMAT: "json", USE_STATSD: "false" };
  const child = spawnRateLimitService(
    [...args, "more"],
    { ...env, RUNTIME_ROOT: folder, RUNTIME_APPDIRECTORY: "limits" },
    program,
  );
  onTestFinished(() => void child.kill("SIGKILL"));
  let text = "";
  for (const stream of [child.stdout, child.stderr]) stream?.on("data", (chunk: Buffer) => (text += chunk.toString()));

  await expect.poll(() => text, { timeout: 20_000 }).toMatch(/"msg":"ready"|missing|cannot start/);
  expect(text).not.toContain("unknown");
  expect(text).toContain("--quotaRateLimitServiceAddr has no effect");
});
