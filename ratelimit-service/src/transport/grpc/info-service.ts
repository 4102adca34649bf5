/**
 * gatewayproxy.ratelimit.v1.ServiceInfo/Get: identifies the program. Takes an empty message; the response has the name
 * of the program in field 1 and its version in field 2. Other services return UNIMPLEMENTED.
 */
import { serviceInfoMethod, serviceInfoName } from "@gatewayproxy/protos/service-info";
import { WireType } from "@gatewayproxy/protos/wire-reader";
import type { GrpcMethod } from "@gatewayproxy/grpc/server/method";

/** Returns the method with its path. */
export function infoMethod(version: string): [path: string, method: GrpcMethod] {
  const response = Buffer.concat([field(1, serviceInfoName), field(2, version)]);
  return [serviceInfoMethod, { kind: "unary", call: () => response }];
}

/** A text of fewer than 128 bytes. */
function field(number: number, text: string): Buffer {
  const bytes = Buffer.from(text);
  return Buffer.concat([Buffer.from([(number << 3) | WireType.Bytes, bytes.length]), bytes]);
}
