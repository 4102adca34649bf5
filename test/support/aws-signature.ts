/**
 * Computes signatures of AWS as its documentation describes (IAM user guide, "Create a signed AWS API request"), to
 * check those of requests.
 */
import { createHash, createHmac } from "node:crypto";
import type { SeenRequest } from "../../examples/mock-llm/src/mock-llm.ts";

const hash = (text: string): string => createHash("sha256").update(text).digest("hex");
const hmac = (key: string | Buffer, text: string): Buffer => createHmac("sha256", key).update(text).digest();

/** Returns the `authorization` that a request without a query must have, by its other fields. */
export function expectedAuthorization(
  { method, path, headers, body }: SeenRequest,
  { accessKeyId, secretAccessKey, region }: Readonly<Record<"accessKeyId" | "secretAccessKey" | "region", string>>,
): string {
  const signed = Object.keys(headers)
    .filter((name) => name === "host" || name.startsWith("x-amz-"))
    .toSorted();
  const fields = signed.map((name) => `${name}:${headers[name]?.toString().trim() ?? ""}\n`).join("");
  // Each segment of the path is escaped twice, except by S3.
  const canonicalPath = path.split("/").map(encodeURIComponent).join("/");
  const names = signed.join(";");
  const canonical = [method, canonicalPath, "", fields, names, hash(body)].join("\n");
  const time = headers["x-amz-date"]?.toString() ?? "";
  const scope = `${time.slice(0, 8)}/${region}/bedrock/aws4_request`;
  const text = ["AWS4-HMAC-SHA256", time, scope, hash(canonical)].join("\n");
  const key = scope
    .split("/")
    .reduce<string | Buffer>((previous, part) => hmac(previous, part), `AWS4${secretAccessKey}`);
  const signature = hmac(key, text).toString("hex");
  return `AWS4-HMAC-SHA256 Credential=${accessKeyId}/${scope}, SignedHeaders=${names}, Signature=${signature}`;
}
