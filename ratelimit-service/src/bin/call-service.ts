/** Makes one call to a rate limit service, as a client. */
import type { PeerCertificate } from "node:tls";
import { credentials, loadPackageDefinition } from "@grpc/grpc-js";
import type { RateLimitResponse__Output } from "@gatewayproxy/protos/gen/envoy/service/ratelimit/v3/RateLimitResponse";
import type { ProtoGrpcType } from "@gatewayproxy/protos/gen/rls";
import { loadProtos } from "@gatewayproxy/protos/load";
import { type ServerIdentity, serverIdentityOf } from "@gatewayproxy/runtime/server-identity";

/** A call of `ShouldRateLimit`, and the server that gets it. */
export interface ServiceCall {
  /** `host:port` */
  readonly address: string;
  readonly domain: string;
  /** Each `key=value,key=value,…`. */
  readonly descriptors: readonly string[];
  /** PEM; without it, plain text. */
  readonly tls?: {
    readonly ca: Buffer | undefined;
    readonly cert: Buffer | undefined;
    readonly key: Buffer | undefined;
    /** Host name to verify in the server's certificate, instead of the host of `address`. */
    readonly serverName: string | undefined;
  };
}

/** Makes a call with one hit. Rejects with the error of the call. */
export async function callService({
  address,
  domain,
  descriptors,
  tls,
}: ServiceCall): Promise<RateLimitResponse__Output> {
  const requested = descriptors.map((text) => ({ entries: text.split(",").map(entryOf) }));
  // The loader builds the types that are generated from exactly this file.
  const { envoy } = loadPackageDefinition(
    loadProtos("envoy/service/ratelimit/v3/rls.proto"),
  ) as unknown as ProtoGrpcType;
  const service = envoy.service.ratelimit.v3.RateLimitService;
  const identity = serverIdentityOf(address, tls?.serverName);
  const { handshakeName } = identity;
  const options = handshakeName === undefined ? {} : { "grpc.ssl_target_name_override": handshakeName };
  const client =
    tls === undefined
      ? new service(address, credentials.createInsecure())
      : new service(address, secureCredentials(tls, identity), options);
  try {
    return await new Promise((resolve, reject) => {
      client.shouldRateLimit({ domain, descriptors: requested, hitsAddend: 1 }, (error, response) => {
        if (response === undefined) reject(error ?? new Error("no response"));
        else resolve(response);
      });
    });
  } finally {
    client.close();
  }
}

function secureCredentials({ ca, key, cert, serverName }: NonNullable<ServiceCall["tls"]>, { check }: ServerIdentity) {
  return credentials.createSsl(ca, key, cert, {
    checkServerIdentity: (_, certificate) => {
      const hostError = check(certificate);
      // Node rejects a wildcard directly above a top-level domain, such as `*.namespace`. It is accepted here only if
      // the caller names the authority, because a public authority could issue it for a whole top-level domain.
      const isCovered = ca !== undefined && serverName !== undefined && coversNamespace(serverName, certificate);
      return isCovered ? undefined : hostError;
    },
  });
}

/** Whether `*.namespace` of the certificate covers `service.namespace`, as Envoy Gateway writes it. */
function coversNamespace(serverName: string, { subjectaltname = "" }: PeerCertificate): boolean {
  const [, namespace = "", ...more] = serverName.split(".");
  return namespace !== "" && more.length === 0 && subjectaltname.split(", ").includes(`DNS:*.${namespace}`);
}

function entryOf(pair: string): { readonly key: string; readonly value: string } {
  const [key = "", value, more] = pair.split("=");
  if (value === undefined || more !== undefined) throw new Error(`${pair} is not key=value`);
  return { key, value };
}
