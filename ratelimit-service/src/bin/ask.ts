/** One call to a rate limit service, as a client makes it. */
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import type { RateLimitResponse__Output } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/rls";
import { loadProtos } from "@gatewayproxy/protos/load";

export interface Question {
  /** `host:port` */
  readonly address: string;
  readonly domain: string;
  /** Each `key=value,key=value,…`. */
  readonly descriptors: readonly string[];
  /** PEM; absent: without TLS. */
  readonly tls?: {
    readonly ca: Buffer | undefined;
    readonly cert: Buffer | undefined;
    readonly key: Buffer | undefined;
  };
}

/** Counts one hit. Rejects with what went wrong. */
export async function ask({ address, domain, descriptors, tls }: Question): Promise<RateLimitResponse__Output> {
  const asked = descriptors.map((text) => ({ entries: text.split(",").map(entryOf) }));
  // The generated types say what the loader makes of exactly this file.
  const { envoy } = loadPackageDefinition(
    loadProtos("envoy/service/ratelimit/v3/rls.proto"),
  ) as unknown as ProtoGrpcType;
  const secure = tls === undefined ? undefined : credentials.createSsl(tls.ca, tls.key, tls.cert);
  const client = new envoy.service.ratelimit.v3.RateLimitService(address, secure ?? credentials.createInsecure());
  try {
    return await new Promise((resolve, reject) => {
      client.shouldRateLimit({ domain, descriptors: asked, hitsAddend: 1 }, (error, answer) => {
        if (answer === undefined) reject(error ?? new Error("no answer"));
        else resolve(answer);
      });
    });
  } finally {
    client.close();
  }
}

function entryOf(pair: string): { readonly key: string; readonly value: string } {
  const [key = "", value, more] = pair.split("=");
  if (value === undefined || more !== undefined) throw new Error(`${pair} is not key=value`);
  return { key, value };
}
