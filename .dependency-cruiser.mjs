/**
 * The permitted imports of each layer of each program, as tables. `npm run layers` enforces them on resolved paths,
 * including imports of types. ARCHITECTURE.md describes the layers.
 *
 * A row lists the permitted imports of a layer: other layers of its program (`layers`), packages from npm (`packages`)
 * and modules of Node (`core`; absent: any). Other imports are errors. `command.ts` and `app/` assemble the layers and may
 * import all of them; no layer imports these.
 */

/** The data path (ir, routing, filters, policy, llm, upstream, telemetry, listen, pipeline) does not import `api`. */
const proxy = {
  // net, here and in translate: recognizes IP addresses and their family.
  api: { layers: ["cel", "regex"], packages: ["zod", "yaml", "js-yaml"], core: ["net"] },
  ir: { layers: [], packages: [], core: [] },
  cel: { layers: ["regex"], packages: ["@bufbuild/.+"], core: [] },
  regex: { layers: [], packages: ["re2js"], core: [] },
  // crypto, tls: validate certificates. util: compares values with those of the last translation.
  // routing: the precedence of rules, so that a status agrees with the data path.
  // authentication: how key sets are read.
  translate: {
    layers: ["api", "ir", "authentication", "regex", "routing"],
    packages: [],
    core: ["net", "crypto", "tls", "util"],
  },
  // util: compares the desired status with the current one.
  status: { layers: ["api", "ir", "kube"], packages: [], core: ["util"] },
  controller: { layers: ["api", "kube", "source", "status", "translate"], packages: ["zod"] },
  kube: { layers: [], packages: ["@kubernetes/client-node"] },
  source: { layers: ["api", "kube"], packages: [] },
  routing: { layers: ["ir", "regex"], packages: [], core: [] },
  filters: { layers: ["ir"], packages: [], core: [] },
  // zlib: decodes a copy of compressed responses.
  // buffer: validates UTF-8. aws4fetch: signs requests to Bedrock. gpt-tokenizer: has the tokens of OpenAI's models.
  llm: { layers: ["ir"], packages: ["aws4fetch", "gpt-tokenizer"], core: ["zlib", "buffer"] },
  // Trust and permitted addresses, for backends and rate limit services.
  connect: { layers: ["ir"], packages: [], core: ["crypto", "dns", "net", "tls"] },
  policy: {
    layers: ["ir", "cel", "connect"],
    packages: ["node-cache"],
    core: ["crypto", "net"],
  },
  // undici: key sets of issuers.
  authentication: {
    layers: ["ir", "cel", "connect"],
    packages: ["undici", "@bufbuild/.+"],
    core: ["crypto", "util"],
  },
  upstream: { layers: ["ir", "connect"], packages: [] },
  // cel: conditions of traces are expressions.
  telemetry: { layers: ["ir", "cel"], packages: [] },
  // Gets the state of the data path as parameters, without imports of it.
  admin: {
    layers: ["api", "ir", "cel", "status", "policy", "telemetry"],
    packages: [],
    core: ["events", "http", "net", "crypto", "fs", "fs/promises", "path", "v8"],
  },
  streams: {
    layers: ["ir", "cel", "routing", "policy", "upstream", "telemetry", "listen"],
    packages: [],
    core: ["dgram", "net"],
  },
  // filters, routing: the forms of fields and paths that the later layers rely on, and the table of host names.
  listen: { layers: ["ir", "routing", "filters"], packages: [] },
  pipeline: {
    layers: [
      ...["ir", "cel", "routing", "filters", "authentication", "policy", "llm"],
      ...["upstream", "telemetry", "listen"],
    ],
    packages: [],
  },
  "data-plane": {
    layers: [
      ...["ir", "cel", "regex", "routing", "filters", "authentication", "policy"],
      ...["upstream", "telemetry", "listen", "streams", "pipeline"],
    ],
    packages: [],
  },
  // Validates manifests and replays requests against limits without a running proxy, for proxyctl.
  offline: {
    layers: ["api", "ir", "admin", "cel", "llm", "policy", "regex", "routing", "translate"],
    packages: [],
    core: [],
  },
};

/** The limiter does not import stores and transports, and transports do not import stores. */
const ratelimitService = {
  // Requests and responses of the protocol, units of time, and the interface of counter stores.
  model: { layers: [], packages: [], core: [] },
  // grpc-js: the stream to an xDS server, which has few calls and needs many features of gRPC.
  config: { layers: ["model", "stats.ts"], packages: ["yaml", "@grpc/grpc-js"] },
  limiter: { layers: ["config", "model", "stats.ts"], packages: [], core: [] },
  store: {
    layers: ["model"],
    packages: ["@redis/client", "cluster-key-slot", "memcache"],
  },
  transport: { layers: ["config", "limiter", "model", "service.ts"], packages: [] },
  metrics: { layers: ["stats.ts"], packages: ["re2js", "yaml"] },
  // Spans of calls, of the store and of the configuration.
  tracing: { layers: ["config", "model", "service.ts"], packages: [] },
  settings: {
    // Each layer defines its own options, with defaults and bounds.
    layers: ["limiter", "store", "metrics"],
    packages: [],
  },
};

/** Commands import the other layers, which do not import commands. Only `kube/` imports the Kubernetes client. */
const proxyctl = {
  output: { layers: [], packages: ["yaml"], core: [] },
  admin: { layers: ["command-error.ts"], packages: ["zod"] },
  kube: { layers: ["admin", "command-error.ts"], packages: ["@kubernetes/client-node", "zod"] },
  views: { layers: ["output", "replay", "command-error.ts"], packages: [], core: [] },
  // The limiter is imported from the proxy.
  replay: { layers: [], packages: ["zod"], core: [] },
  // Limits of other gateways.
  convert: { layers: [], packages: ["zod"], core: [] },
  terminal: { layers: ["output", "io.ts"], packages: [] },
  trace: { layers: ["admin", "output", "terminal", "command-error.ts", "io.ts"], packages: ["commander"] },
  // A shell loads the command tree at every TAB, so an action is loaded only when it runs.
  commands: { layers: ["actions", "options", "command-error.ts", "io.ts"], packages: ["commander"], core: [] },
  actions: {
    layers: [
      ...["admin", "kube", "output", "views", "terminal", "trace", "replay", "convert"],
      ...["options", "command-error.ts", "io.ts", "version.ts"],
    ],
    packages: [],
  },
  // Flags of several commands.
  options: { layers: [], packages: ["commander"], core: [] },
};

/** The workspaces that each workspace may import, through their exports. */
const workspaces = {
  // The wire format of protobuf.
  runtime: ["protos"],
  // HTTP and gRPC, without Gateways and rate limits.
  http: ["runtime"],
  grpc: ["runtime", "http", "protos"],
  protos: [],
  // The responses of the admin server, for the server and its clients.
  "admin-api": [],
  "admin-ui": ["admin-api"],
  proxy: ["runtime", "http", "grpc", "protos", "admin-api"],
  "ratelimit-service": ["runtime", "grpc", "protos"],
  // ratelimit-service: its limiter, to replay requests.
  proxyctl: ["runtime", "grpc", "admin-api", "proxy", "ratelimit-service"],
  "examples/mock-llm": [],
};

/** Folders that assemble the layers of a program. */
const assembly = ["app", "bin"];

/** Packages that only one folder of each program may import, because it wraps them. */
const homes = {
  undici: ["proxy/src/authentication/"],
  pino: ["runtime/src/log/"],
  "@redis/client": ["ratelimit-service/src/store/"],
  memcache: ["ratelimit-service/src/store/"],
  "@kubernetes/client-node": ["proxy/src/kube/", "proxyctl/src/kube/"],
  // Only processes that export traces or metrics load it.
  "@opentelemetry/.+": ["runtime/src/otlp/"],
};

/** Test code may import everything. Other code must not import test code. */
const testCode = ["\\.test\\.ts$", "/testing/", "^test/"];
const npm = ["npm", "npm-dev", "npm-optional", "npm-peer", "npm-no-pkg", "npm-unknown"];
const inPackages = (names) => names.map((name) => `(^|/)node_modules/(@types/)?${name}/`);

/** Returns the rules of one row. A rule that permits everything is left out. */
function rulesOfLayer(program, layer, { layers, packages, core }) {
  const from = { path: `^${program}/src/${layer}/`, pathNot: testCode };
  const name = `${program}-${layer}`;
  const rules = [
    {
      name: `${name}-imports-layer`,
      comment: `${layer}/ may import ${list(layers)} of ${program}`,
      from,
      to: { path: `^${program}/src/`, pathNot: [layer, ...layers].map((each) => within(program, each)) },
    },
    {
      name: `${name}-imports-package`,
      comment: `${layer}/ may import ${list(packages)} from npm`,
      from,
      to: { dependencyTypes: npm, pathNot: inPackages(packages) },
    },
  ];
  if (core !== undefined) {
    rules.push({
      name: `${name}-imports-node`,
      comment: `${layer}/ is pure and may import ${list(core)} of Node`,
      from,
      to: { dependencyTypes: ["core"], pathNot: core.map((each) => `^(node:)?${each}$`) },
    });
  }
  return rules;
}

/** Returns the rule for folders without a row, which otherwise could import everything. */
function ruleOfUnknownLayers(program, table) {
  return {
    name: `${program}-layer-without-row`,
    comment: `no row of .dependency-cruiser.mjs lists the permitted imports of this folder of ${program}`,
    from: {
      path: `^${program}/src/[^/]+/`,
      pathNot: [...testCode, ...[...assembly, ...Object.keys(table)].map((layer) => within(program, layer))],
    },
    to: {},
  };
}

function ruleOfWorkspace(workspace, allowed) {
  const others = Object.keys(workspaces).filter((each) => each !== workspace && !allowed.includes(each));
  return {
    name: `${workspace}-imports-workspace`,
    comment: `${workspace} may import the workspaces ${list(allowed)}`,
    from: { path: `^${workspace}/src/`, pathNot: testCode },
    to: { path: others.map((each) => `^${each}/`) },
  };
}

function ruleOfHome(name, places) {
  return {
    name: `${name}-stays-home`,
    comment: `${name} is imported by ${list(places)} alone`,
    from: { path: "/src/", pathNot: [...testCode, ...places.map((place) => `^${place}`)] },
    // Types may be imported elsewhere.
    to: { path: inPackages([name]), dependencyTypesNot: ["type-only"] },
  };
}

/** Returns the pattern of the folder of a layer, or of one module. */
function within(program, layer) {
  return `^${program}/src/${layer.replaceAll(".", "\\.")}(/|$)`;
}

function list(names) {
  return names.length === 0 ? "nothing" : names.join(", ");
}

function rulesOfProgram(program, table) {
  return [
    ...Object.entries(table).flatMap(([layer, row]) => rulesOfLayer(program, layer, row)),
    ruleOfUnknownLayers(program, table),
  ];
}

const rules = [
  ...rulesOfProgram("proxy", proxy),
  ...rulesOfProgram("ratelimit-service", ratelimitService),
  ...rulesOfProgram("proxyctl", proxyctl),
  ...Object.entries(workspaces).map(([workspace, allowed]) => ruleOfWorkspace(workspace, allowed)),
  ...Object.entries(homes).map(([name, places]) => ruleOfHome(name, places)),
  {
    name: "no-test-code",
    comment: "only tests may import tests and their support",
    from: { path: "/src/", pathNot: testCode },
    to: { path: testCode },
  },
  {
    name: "no-circular",
    comment: "modules in a cycle cannot be tested separately",
    // The generated protobuf types mirror messages that contain each other.
    from: { pathNot: "^protos/gen/" },
    to: { circular: true },
  },
  {
    name: "no-unresolvable",
    comment: "the imported module does not exist",
    from: {},
    to: { couldNotResolve: true },
  },
];

/** All permissions of the tables, for the check that each is used: a module of `from` imports a module that matches `to`. */
export const permissions = [
  ...Object.entries({ proxy, "ratelimit-service": ratelimitService, proxyctl }).flatMap(([program, table]) =>
    Object.entries(table).flatMap(([layer, { layers, packages, core = [] }]) => {
      const from = `^${program}/src/${layer}/`;
      return [
        ...layers.map((each) => ({ from, to: within(program, each), name: `${program}: ${layer}/ imports ${each}` })),
        ...packages.map((each) => ({ from, to: inPackages([each])[0], name: `${program}: ${layer}/ imports ${each}` })),
        ...core.map((each) => ({ from, to: `^(node:)?${each}$`, name: `${program}: ${layer}/ imports node:${each}` })),
      ];
    }),
  ),
  ...Object.entries(workspaces).flatMap(([workspace, allowed]) =>
    allowed.map((each) => ({ from: `^${workspace}/src/`, to: `^${each}/`, name: `${workspace} imports ${each}` })),
  ),
  ...Object.entries(homes).flatMap(([name, places]) =>
    places.map((each) => ({ from: `^${each}`, to: inPackages([name])[0], name: `${each} imports ${name}` })),
  ),
];

/** The layers that each layer of the proxy may import, for the check of ARCHITECTURE.md. */
export const proxyLayers = Object.fromEntries(Object.entries(proxy).map(([layer, { layers }]) => [layer, layers]));

/** The paths of tests, which use no permission. */
export const testPaths = testCode;

export default {
  forbidden: rules.map((rule) => ({ severity: "error", ...rule })),
  options: {
    doNotFollow: { path: "node_modules" },
    // Imports of types count, too.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      extensions: [".ts", ".js", ".mjs", ".json", ".d.ts"],
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default", "types"],
    },
  },
};
