/**
 * The parts of @redis/client that the rate limit service uses. The package has a function for each of the hundreds of
 * commands of Redis, in several classes. All of them together take half of the time of a start, and 20 MiB at its peak.
 */
import { sep } from "node:path";
import type { Plugin } from "rolldown";

/**
 * The commands that the package itself sends: their names in its code, and its files. The service sends its own as
 * texts.
 */
const commands = {
  AUTH: "AUTH",
  CLIENT_SETNAME: "CLIENT_SETNAME",
  READONLY: "READONLY",
  clusterSlots: "CLUSTER_SLOTS",
} as const;

/**
 * The functions of the package that the service imports, and the modules that have them, each loaded at its first use.
 */
const functions = {
  createClient: "./lib/client",
  createCluster: "./lib/cluster",
  createSentinel: "./lib/sentinel",
} as const;

const commandTable = Object.entries(commands)
  .map(([name, file]) => `  ${name}: require("./${file}").default,\n`)
  .join("");

const getters = Object.entries(functions)
  .map(([name, file]) => `  ${name}: { enumerable: true, get: () => require("${file}").default.create },\n`)
  .join("");

const isModule = 'Object.defineProperty(exports, "__esModule", { value: true });\n';

/** Changes of one module of the package: all of its code, or parts of it. */
type Change = string | readonly (readonly [part: string, replacement: string])[];

/** The changed modules, by the end of their path. */
const changes: Readonly<Record<string, Change>> = {
  "/@redis/client/dist/index.js": `${isModule}Object.defineProperties(exports, {\n${getters}});\n`,
  "/@redis/client/dist/lib/commands/index.js": `${isModule}exports.default = exports.NON_STICKY_COMMANDS = {\n${commandTable}};\n`,
  // A table of all commands, which only the package's cache and its cluster read.
  "/@redis/client/dist/lib/client/index.js": [
    ['const command_metadata_1 = require("../command-metadata");', ""],
    ["command_metadata_1.", 'require("../command-metadata").'],
  ],
  // The package's own metrics, which the service does not turn on.
  "/@redis/client/dist/lib/opentelemetry/index.js": [['require("@opentelemetry/api")', "undefined"]],
  // The last part of the name of a client in the package's own metrics. It would be the only use of node:crypto.
  "/@redis/client/dist/lib/client/identity.js": [
    ["(0, node_crypto_1.randomBytes)(4).toString('hex')", "Math.random().toString(16).slice(2, 10)"],
  ],
};

/**
 * Replaces the list of all commands by the used ones, and the package's entry by the used functions, and loads what a
 * client without a cache does not read at its first use.
 */
export const usedRedisClient: Plugin = {
  name: "used-redis-client",
  transform(code, id) {
    const path = id.replaceAll(sep, "/");
    const [, change] = Object.entries(changes).find(([end]) => path.endsWith(end)) ?? [];
    if (change === undefined || typeof change === "string") return change === undefined ? undefined : { code: change };
    return {
      code: change.reduce((changed, [part, replacement]) => {
        if (!changed.includes(part)) throw new Error(`${id} does not contain ${part}`);
        return changed.replaceAll(part, () => replacement);
      }, code),
    };
  },
};
