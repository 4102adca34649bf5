/**
 * Signs requests to Amazon Bedrock (AWS Signature Version 4; IAM user guide, "Create a signed AWS API request").
 */
import { AwsV4Signer } from "aws4fetch";
import type { AwsSignature } from "../ir/snapshot.ts";

/** A request to sign. */
export interface UnsignedRequest {
  readonly method: string;
  /** As it is sent, with the query. */
  readonly path: string;
  /** Flat: names and values, with `host`. */
  readonly headers: readonly string[];
  readonly body: Buffer;
}

/** The name of the service in signatures (Service Authorization Reference, "Amazon Bedrock"). */
const service = "bedrock";

/**
 * Returns the header fields to send: those of the request, and the fields of the signature. The host, the path, the
 * query and the body are signed, and must not be changed afterwards.
 *
 * @param nowMs wall time, ms since the epoch: AWS accepts a difference of five minutes.
 */
export async function withSignature(
  { region, credentials }: AwsSignature,
  { method, path, headers, body }: UnsignedRequest,
  nowMs: number,
): Promise<readonly string[]> {
  const { accessKeyId, secretAccessKey, sessionToken } = credentials;
  const signer = new AwsV4Signer({
    method,
    url: `https://${hostOf(headers)}${path}`,
    // The signer takes bytes in a buffer of their own.
    body: new Uint8Array(body),
    service,
    region,
    datetime: new Date(nowMs).toISOString().replaceAll(/[-:]|\.\d{3}/g, ""),
    accessKeyId: accessKeyId.secret,
    secretAccessKey: secretAccessKey.secret,
    ...(sessionToken !== undefined && { sessionToken: sessionToken.secret }),
  });
  const signed = await signer.sign();
  return [...headers, ...[...signed.headers].filter(([name]) => name !== "host").flat()];
}

function hostOf(headers: readonly string[]): string {
  const at = headers.findIndex((name, index) => index % 2 === 0 && name.toLowerCase() === "host");
  return headers[at + 1] ?? "";
}
