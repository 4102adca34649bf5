/**
 * The backends behind every peer: nginx for the static response, because it needs little of the two cores that
 * everything shares, and small Node servers for WebSocket and for the event stream, which nginx cannot produce chunk by
 * chunk.
 */
import { truncateSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { requireProgram } from "../support/programs.ts";
import { largeBytes, staticBody } from "./cases.ts";
import { startProgram, type RunningProgram } from "./process.ts";

/** The ports that peers forward to. */
export interface BackendPorts {
  readonly staticPort: number;
  readonly streamPort: number;
  readonly webSocketPort: number;
}

/** Starts both backends; nginx keeps its files in `folder`. */
export function startBackends(folder: string, ports: BackendPorts): readonly RunningProgram[] {
  const config = join(folder, "nginx.conf");
  const large = join(folder, "large");
  writeFileSync(large, "");
  // A sparse file: zeros that take no space.
  truncateSync(large, largeBytes);
  writeFileSync(config, nginxConfig(folder, ports.staticPort));
  const nginx = startProgram("nginx", requireProgram("nginx"), ["-e", "stderr", "-p", folder, "-c", config]);
  const stream = startProgram("sse-backend", process.execPath, [
    join(import.meta.dirname, "sse-backend.ts"),
    String(ports.streamPort),
  ]);
  const webSocket = startProgram("websocket-backend", process.execPath, [
    join(import.meta.dirname, "websocket-backend.ts"),
    String(ports.webSocketPort),
  ]);
  return [nginx, stream, webSocket];
}

function nginxConfig(folder: string, port: number): string {
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"];
  return `
daemon off;
master_process off;
pid ${folder}/nginx.pid;
error_log stderr error;
events { worker_connections 4096; }
http {
  access_log off;
  ${temporary.map((kind) => `${kind}_temp_path ${folder}/${kind};`).join("\n  ")}
  keepalive_requests 1000000000;
  keepalive_timeout 1h;
  client_max_body_size 1m;
  server {
    listen 127.0.0.1:${port} backlog=4096;
    default_type application/json;
    location = /large { root ${folder}; }
    location / { return 200 '${staticBody}'; }
  }
}
`;
}
