/** A real gRPC server as the backend of a test, and its client: the service of `echo.proto`. */
import { join } from "node:path";
import * as grpc from "@grpc/grpc-js";
import { loadSync } from "@grpc/proto-loader";
import { onTestFinished } from "vitest";

/** For clients that read the file themselves. */
export const echoProto = join(import.meta.dirname, "testdata/echo.proto");

export interface Message {
  readonly text: string;
}

/** The trailers of every call, beside the status. */
const trailers = { "x-served-by": "echo" };

const { EchoService, EchoClient } = loadEcho();

/** The service of the file as loaded by grpc-js. */
function loadEcho() {
  const definition = loadSync(echoProto)["test.Echo"];
  if (definition === undefined || "format" in definition) throw new Error("echo.proto has no service test.Echo");
  return { EchoService: definition, EchoClient: grpc.makeGenericClientConstructor(definition, "Echo") };
}

/** Listens without TLS on a free port of 127.0.0.1 until the test ends. */
export async function startGrpcBackend(): Promise<{ readonly port: number }> {
  const server = new grpc.Server();
  server.addService(EchoService, {
    say: (call: grpc.ServerUnaryCall<Message, Message>, done: grpc.sendUnaryData<Message>) =>
      done(null, call.request, metadata()),
    fail: (_call: grpc.ServerUnaryCall<Message, Message>, done: grpc.sendUnaryData<Message>) =>
      done({ code: grpc.status.FAILED_PRECONDITION, details: "not today", metadata: metadata() }),
    count(call: grpc.ServerWritableStream<Message, Message>) {
      for (let n = 1; n <= Number(call.request.text); n++) call.write({ text: String(n) });
      call.end(metadata());
    },
    chat(call: grpc.ServerDuplexStream<Message, Message>) {
      call.on("data", ({ text }: Message) => call.write({ text: text.toUpperCase() }));
      call.on("end", () => call.end(metadata()));
    },
  });
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync("127.0.0.1:0", grpc.ServerCredentials.createInsecure(), (error, bound) => {
      if (error === null) resolve(bound);
      else reject(error);
    });
  });
  onTestFinished(() => server.forceShutdown());
  return { port };
}

function metadata(): grpc.Metadata {
  return grpc.Metadata.fromHttp2Headers(trailers);
}

/** A client by HTTP/2 without TLS, until the test ends. @param address `host:port` */
export function connectGrpc(address: string): grpc.Client {
  const client = new EchoClient(address, grpc.credentials.createInsecure(), { "grpc.use_local_subchannel_pool": 1 });
  onTestFinished(() => client.close());
  return client;
}

export interface GrpcOutcome {
  readonly messages: readonly string[];
  readonly code: grpc.status;
  readonly details: string;
  /** `x-served-by` of the trailers. */
  readonly servedBy: unknown;
  /** Of the head and the trailers, by names in lower case. */
  readonly metadata: Readonly<Record<string, readonly unknown[]>>;
}

/** Calls a method with these messages; gRPC's own failures are outcomes too. */
export function callGrpc(client: grpc.Client, method: string, texts: readonly string[]): Promise<GrpcOutcome> {
  const definition = EchoService[method];
  if (definition === undefined) throw new Error(`echo.proto has no method ${method}`);
  const { path, requestSerialize, responseDeserialize } = definition;
  return new Promise((resolve) => {
    const messages: string[] = [];
    // Every call can be made as a stream both ways; the wire is the same.
    const call = client.makeBidiStreamRequest<object, object>(path, requestSerialize, responseDeserialize);
    call.on("data", (message: Message) => messages.push(message.text));
    call.on("error", () => undefined);
    let head: grpc.Metadata | undefined;
    call.on("metadata", (received: grpc.Metadata) => (head = received));
    call.on("status", ({ code, details, metadata: received }: grpc.StatusObject) => {
      const all = { ...head?.toJSON(), ...received.toJSON() };
      resolve({ messages, code, details, servedBy: received.get("x-served-by")[0], metadata: all });
    });
    for (const text of texts) call.write({ text });
    call.end();
  });
}
