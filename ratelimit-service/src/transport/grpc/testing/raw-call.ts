/** Calls that a gRPC client would not make, with Node's HTTP/2 client. */
import { once } from "node:events";
import { connect as connectHttp2 } from "node:http2";

export const shouldRateLimitPath = "/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit";

/** Resolves with the headers and trailers of the response; only the headers if it has no body. */
export async function rawCall(port: number, body: Uint8Array | undefined, fields: Record<string, string> = {}) {
  const session = connectHttp2(`http://127.0.0.1:${port}`);
  try {
    const stream = session.request({
      ":method": "POST",
      ":path": shouldRateLimitPath,
      "content-type": "application/grpc",
      te: "trailers",
      ...fields,
    });
    let trailers: Record<string, unknown> = {};
    stream.on("trailers", (got: Record<string, unknown>) => (trailers = got));
    stream.on("error", () => undefined);
    stream.resume();
    if (body !== undefined) stream.end(body);
    const [headers] = (await once(stream, "response")) as [Record<string, unknown>];
    if (body !== undefined) await once(stream, "close");
    return { ...headers, ...trailers };
  } finally {
    session.destroy();
  }
}
