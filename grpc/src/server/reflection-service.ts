/** gRPC server reflection, v1 and v1alpha: describes services and messages to tools. */
import type { ProtoFile } from "@gatewayproxy/protos/options";
import type { GrpcMethod, MessageReceiver, MessageSink } from "./method.ts";
import type { Reflection } from "./reflection.ts";
import { GrpcError, StatusCode } from "../status.ts";

const versions = ["v1", "v1alpha"] as const;

/** Maximum number of requests of one stream that wait while the messages are loaded. Tools send one at a time. */
const maxWaiting = 100;

/**
 * Returns the methods, by path, for a server with the services of `files`. The messages are loaded at the first
 * request, since most servers get none. Both versions have the same messages.
 *
 * @param files paths of proto files, as their imports name them.
 */
export function reflectionMethods(files: readonly ProtoFile[]): [path: string, method: GrpcMethod][] {
  let loaded: Promise<Reflection> | undefined;
  const load = (): Promise<Reflection> =>
    (loaded ??= import("./reflection.ts").then((module) => new module.Reflection(files)));
  const method: GrpcMethod = { kind: "streaming", open: (sink) => openWhenLoaded(load(), sink) };
  return versions.map((version) => [`/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`, method]);
}

/** Buffers the client's messages until the reflection is loaded, and passes them on in order. */
function openWhenLoaded(reflection: Promise<Reflection>, sink: MessageSink): MessageReceiver {
  let waiting = 0;
  let hasEnded = false;
  const fail = (error: GrpcError): void => {
    if (!hasEnded) sink.fail(error);
    hasEnded = true;
  };
  const receiver = reflection.then((loaded) => loaded.open(sink));
  const whenLoaded = (act: (receiver: MessageReceiver) => void): void => {
    receiver.then(
      (opened) => {
        if (hasEnded) return;
        try {
          act(opened);
        } catch (error) {
          fail(error instanceof GrpcError ? error : internalError(error));
        }
      },
      (error: unknown) => fail(internalError(error)),
    );
  };
  return {
    message(bytes) {
      if (hasEnded) return;
      if (waiting === maxWaiting) {
        fail(new GrpcError(StatusCode.ResourceExhausted, `more than ${maxWaiting} reflection requests at a time`));
        return;
      }
      waiting++;
      // The caller reuses the bytes after this call.
      const copy = Buffer.from(bytes);
      whenLoaded((opened) => {
        waiting--;
        opened.message(copy);
      });
    },
    ended: () => whenLoaded((opened) => opened.ended()),
    cancelled() {
      hasEnded = true;
    },
  };
}

function internalError(cause: unknown): GrpcError {
  return new GrpcError(StatusCode.Internal, `server reflection failed: ${String(cause)}`, { cause });
}
