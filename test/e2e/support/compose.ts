/**
 * Runs the services of a compose file by docker, as `docker compose up` does: in a network in which each has its name,
 * with its entrypoint, command, environment and mounts. Ports are published at free ports of loopback, because the
 * fixed ones may be in use.
 */
import { readFileSync } from "node:fs";
import { dirname, resolve } from "node:path";
import { parse } from "yaml";
import { attempt } from "./cluster.ts";

interface Service {
  readonly entrypoint?: string | readonly string[];
  readonly command?: string | readonly string[];
  readonly environment?: readonly string[];
  readonly volumes?: readonly string[];
  readonly ports?: readonly string[];
  readonly depends_on?: readonly string[];
}

/** What runs in place of the image of a service. */
export interface Replacement {
  readonly image: string;
  /** In place of the entrypoint, the command and the mounts of the service. Absent: those of the file. */
  readonly run?: { readonly entrypoint: string; readonly args: readonly string[] };
}

/** The running services. Its disposal removes them. */
export interface Composition extends AsyncDisposable {
  /** The port of 127.0.0.1 that leads to a port of a service. */
  port(service: string, port: number): Promise<number>;
  /** The output so far, of both streams. */
  logs(service: string): Promise<string>;
  /** The output of a command in the container of a service. */
  exec(service: string, command: readonly string[]): Promise<string>;
  start(service: string): Promise<void>;
  stop(service: string): Promise<void>;
  /** Changes whenever the service has ended or was started again. */
  life(service: string): Promise<string>;
}

async function docker(...args: readonly string[]): Promise<string> {
  const { code, stdout, stderr } = await attempt("docker", args);
  if (code !== 0) throw new Error(`docker ${args.join(" ")}: ${stderr}${stdout}`);
  return stdout + stderr;
}

/** A text is split as by a shell; the files that run here have no quotes. */
const words = (text: string | readonly string[] = []): readonly string[] =>
  typeof text === "string" ? text.split(" ") : text;

/** Services in the order of the file, each after those that it depends on. */
function ordered(services: Readonly<Record<string, Service>>): readonly string[] {
  const order = new Set<string>();
  const add = (name: string): void => {
    for (const other of services[name]?.depends_on ?? []) add(other);
    order.add(name);
  };
  Object.keys(services).forEach(add);
  return [...order];
}

/** The flags, the image and the arguments of `docker run`. A command takes the place of that of the image. */
function runArguments(service: Service, { image, run }: Replacement, folder: string): readonly string[] {
  const { entrypoint, command, volumes = [], ports = [], environment = [] } = service;
  const [first, ...rest] = run === undefined ? words(entrypoint) : [run.entrypoint, ...run.args];
  const mounts = volumes.map((volume) => {
    const [path = "", target = ""] = volume.split(":");
    return `${resolve(folder, path)}:${target}`;
  });
  return [
    ...(first === undefined ? [] : ["--entrypoint", first]),
    ...environment.flatMap((variable) => ["--env", variable]),
    ...(run === undefined ? mounts : []).flatMap((mount) => ["--volume", mount]),
    ...ports.flatMap((mapping) => ["--publish", `127.0.0.1::${mapping.split(":")[1] ?? ""}`]),
    image,
    ...rest,
    ...(run === undefined ? words(command) : []),
  ];
}

/**
 * Starts the services that have a replacement of their image.
 *
 * @param project prefix of the names of containers and of the network; those of an earlier run are removed
 * @param more variables of services besides those of the file
 */
export async function composeUp(
  file: string,
  project: string,
  replacements: Readonly<Record<string, Replacement>>,
  more: Readonly<Record<string, readonly string[]>> = {},
): Promise<Composition> {
  const { services } = parse(readFileSync(file, "utf8")) as { readonly services: Readonly<Record<string, Service>> };
  const container = (service: string): string => `${project}-${service}`;
  const remove = async (): Promise<void> => {
    await docker("rm", "--force", "--volumes", ...Object.keys(replacements).map(container));
    await attempt("docker", ["network", "rm", project]);
  };

  await remove();
  await docker("network", "create", project);
  try {
    for (const name of ordered(services)) {
      const [service, replacement] = [services[name], replacements[name]];
      if (service === undefined || replacement === undefined) continue;
      const environment = [...(service.environment ?? []), ...(more[name] ?? [])];
      const place = ["--detach", "--name", container(name), "--network", project, "--network-alias", name];
      await docker("run", ...place, ...runArguments({ ...service, environment }, replacement, dirname(file)));
    }
  } catch (error) {
    await remove();
    throw error;
  }
  return {
    async port(service, port) {
      const address = await docker("port", container(service), `${port}/tcp`);
      return Number(/:(\d+)\n/.exec(address)?.[1]);
    },
    logs: (service) => docker("logs", container(service)),
    exec: (service, command) => docker("exec", container(service), ...command),
    async start(service) {
      await docker("start", container(service));
    },
    async stop(service) {
      await docker("stop", "--time", "2", container(service));
    },
    life: (service) =>
      docker("inspect", "--format", "{{.State.Status}} {{.State.StartedAt}} {{.RestartCount}}", container(service)),
    [Symbol.asyncDispose]: remove,
  };
}
