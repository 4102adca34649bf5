#!/usr/local/bin/node
/** `/bin/ratelimit_client` of the image: calls a rate limit service once. Its flags are envoyproxy/ratelimit's. */
import { readFileSync } from "node:fs";
import { trustSystemAuthorities } from "@gatewayproxy/runtime/system-authorities";
import { errorMessage } from "@gatewayproxy/runtime/thrown-value";
import { callService } from "./call-service.ts";
import { readFlags } from "./go-flags.ts";

const read = readFlags(process.argv.slice(2), {
  dial_string: "text",
  domain: "text",
  descriptors: "text",
  "grpc-use-tls": "switch",
  "grpc-server-ca-file": "text",
  "grpc-cert-file": "text",
  "grpc-key-file": "text",
  // Not in envoyproxy/ratelimit, which always verifies the host of -dial_string.
  "grpc-server-name": "text",
});
if (read.kind === "usage") {
  process.stderr.write(`${read.text}\n`);
  process.exitCode = 2;
} else {
  const flagOf = (name: string) => read.flags.get(name)?.at(-1);
  const fileOf = (name: string) => {
    const path = flagOf(name) ?? "";
    return path === "" ? undefined : readFileSync(path);
  };
  const usesTls = flagOf("grpc-use-tls") === "true";
  if (usesTls) trustSystemAuthorities();
  try {
    const tls = {
      ...{ ca: fileOf("grpc-server-ca-file"), cert: fileOf("grpc-cert-file"), key: fileOf("grpc-key-file") },
      serverName: flagOf("grpc-server-name"),
    };
    const response = await callService({
      address: flagOf("dial_string") ?? "localhost:8081",
      domain: flagOf("domain") ?? "",
      descriptors: read.flags.get("descriptors") ?? [],
      ...(usesTls ? { tls } : {}),
    });
    process.stdout.write(`response: ${JSON.stringify(response)}\n`);
  } catch (error) {
    process.stdout.write(`request error: ${errorMessage(error)}\n`);
    process.exitCode = 1;
  }
}
