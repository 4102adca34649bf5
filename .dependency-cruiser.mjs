/**
 * Who may import whom, as tables: the layers of each program, and for each layer the outside world it may touch.
 * `npm run layers` enforces them on resolved paths, types included. ARCHITECTURE.md tells why the borders are where
 * they are; to move one, change the table here.
 *
 * A row reads: what this layer may import of its program's other layers (`layers`), from npm (`packages`) and from
 * Node (`core`; absent means any). Whatever a row does not name is refused. command.ts and `app/` put the layers together
 * and are free; no layer imports them.
 */

/** The data path is ir, routing, filters, policy, llm, upstream, telemetry and server: it never sees a manifest. */
const proxy = {
  // net, here and in translate: whether a host is an address, and of which kind.
  api: { layers: ["cel", "regex"], packages: ["zod", "yaml"], core: ["net"] },
  ir: { layers: [], packages: [], core: [] },
  cel: { layers: ["regex"], packages: ["@bufbuild/.+"], core: [] },
  regex: { layers: [], packages: ["re2js"], core: [] },
  // crypto, tls: whether a certificate is one that can be served.
  // routing: which of two rules gets a request, so that a status says what the data path does.
  translate: { layers: ["api", "ir", "regex", "routing"], packages: [], core: ["net", "crypto", "tls"] },
  // util: whether a status differs from the one that stands.
  status: { layers: ["api", "ir", "kube"], packages: [], core: ["util"] },
  controller: { layers: ["api", "kube", "source", "status", "translate"], packages: ["zod"] },
  kube: { layers: [], packages: ["@kubernetes/client-node"] },
  source: { layers: ["api", "kube"], packages: [] },
  routing: { layers: ["ir", "regex"], packages: [], core: [] },
  filters: { layers: ["ir"], packages: [], core: [] },
  // zlib: compressed responses are decoded beside the stream.
  // buffer: whether a text is UTF-8.
  llm: { layers: ["ir"], packages: [], core: ["zlib", "buffer"] },
  // Which servers are trusted, and which addresses are connected to: the same for backends and rate limit services.
  connect: { layers: ["ir"], packages: [], core: ["crypto", "dns", "net", "tls"] },
  policy: {
    layers: ["ir", "cel", "connect"],
    packages: ["node-cache"],
    core: ["crypto", "net", "tls"],
  },
  upstream: { layers: ["ir", "connect"], packages: ["undici"] },
  // cel: conditions of traces see a request as expressions do.
  telemetry: { layers: ["ir", "cel"], packages: [] },
  // What an operator asks is answered from what it is given, never by reaching into the data path.
  admin: {
    layers: ["api", "ir", "cel", "status", "policy", "telemetry"],
    packages: [],
    core: ["events", "http", "net", "crypto", "fs", "fs/promises", "path", "v8"],
  },
  server: {
    layers: ["ir", "cel", "regex", "routing", "filters", "policy", "llm", "upstream", "telemetry"],
    packages: [],
  },
  // Validates manifests and replays requests against limits without a running proxy, for proxyctl.
  offline: { layers: ["api", "ir", "admin", "cel", "policy", "regex", "routing", "translate"], packages: [], core: [] },
};

/** The limiter knows neither how counters are kept nor how a call arrived; the doors know no store. */
const ratelimitService = {
  // Requests and responses of the protocol, units of time, and the port of the counter stores.
  model: { layers: [], packages: [], core: [] },
  // grpc-js: the one stream to an xDS server, where calls are few and its features many.
  config: { layers: ["model", "stats.ts"], packages: ["yaml", "@grpc/grpc-js"] },
  limiter: { layers: ["config", "model", "stats.ts"], packages: [], core: [] },
  store: {
    layers: ["model"],
    packages: ["@redis/client", "cluster-key-slot", "memcache"],
  },
  transport: { layers: ["config", "limiter", "model", "service.ts"], packages: [] },
  metrics: { layers: ["stats.ts"], packages: ["re2js", "yaml"] },
  settings: {
    // Each layer defines its own options, with defaults and bounds.
    layers: ["limiter", "store", "metrics"],
    packages: [],
  },
};

/** The commands know everything below them; what they use knows no command, and only kube/ knows a cluster. */
const proxyctl = {
  output: { layers: [], packages: ["yaml"], core: [] },
  admin: { layers: ["command-error.ts"], packages: ["zod"] },
  kube: { layers: ["admin", "command-error.ts"], packages: ["@kubernetes/client-node", "zod"] },
  views: { layers: ["output", "replay", "command-error.ts"], packages: [], core: [] },
  // The limiter itself is the proxy's.
  replay: { layers: [], packages: ["zod"], core: [] },
  terminal: { layers: ["output", "io.ts"], packages: [] },
  trace: { layers: ["admin", "output", "terminal", "command-error.ts", "io.ts"], packages: ["commander"] },
  // What the command tree loads, a shell waits for at every TAB: it loads an action when that runs.
  commands: { layers: ["actions", "options", "command-error.ts", "io.ts"], packages: ["commander"], core: [] },
  actions: {
    layers: [
      ...["admin", "kube", "output", "views", "terminal", "trace", "replay"],
      ...["options", "command-error.ts", "io.ts", "version.ts"],
    ],
    packages: [],
  },
  // Flags that several commands have.
  options: { layers: [], packages: ["commander"], core: [] },
};

/** Which workspaces a workspace may import, each through its exports. */
const workspaces = {
  runtime: [],
  // The wire: knows nothing of Gateways and of rate limits.
  http: ["runtime"],
  grpc: ["runtime", "http", "protos"],
  protos: [],
  // What the admin server answers; imported by whoever reads it, too.
  "admin-api": [],
  "admin-ui": ["admin-api"],
  proxy: ["runtime", "http", "grpc", "protos", "admin-api"],
  "ratelimit-service": ["runtime", "grpc", "protos"],
  // Its limiter too, to try limits with.
  proxyctl: ["runtime", "grpc", "admin-api", "proxy", "ratelimit-service"],
  "examples/mock-llm": [],
};

/** Folders that put a program's layers together. */
const assembly = ["app", "bin"];

/** Packages with one home: what reaches for them elsewhere goes around the part that wraps them. */
const homes = {
  undici: ["proxy/src/upstream/"],
  pino: ["runtime/src/log/"],
  "@redis/client": ["ratelimit-service/src/store/"],
  memcache: ["ratelimit-service/src/store/"],
  "@kubernetes/client-node": ["proxy/src/kube/", "proxyctl/src/kube/"],
};

/** Tests reach where they must, and nothing that ships may reach into them. */
const testCode = ["\\.test\\.ts$", "/testing/", "^test/"];
const npm = ["npm", "npm-dev", "npm-optional", "npm-peer", "npm-no-pkg", "npm-unknown"];
const inPackages = (names) => names.map((name) => `(^|/)node_modules/(@types/)?${name}/`);

/** The rules of one row; a rule that refuses nothing is left out. */
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

/** Without this a new folder would be free of every rule. */
function ruleOfUnknownLayers(program, table) {
  return {
    name: `${program}-layer-without-row`,
    comment: `no row of .dependency-cruiser.mjs says what this folder of ${program} may import`,
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
    // A type may be named elsewhere.
    to: { path: inPackages([name]), dependencyTypesNot: ["type-only"] },
  };
}

/** A layer's folder, or one module of a layer. */
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
    comment: "what ships may not import tests or their support",
    from: { path: "/src/", pathNot: testCode },
    to: { path: testCode },
  },
  {
    name: "no-circular",
    comment: "modules in a cycle can be neither read nor tested one at a time",
    // The generated protobuf types mirror messages that contain each other.
    from: { pathNot: "^protos/gen/" },
    to: { circular: true },
  },
  {
    name: "no-unresolvable",
    comment: "the import names nothing that exists",
    from: {},
    to: { couldNotResolve: true },
  },
];

/** Every permission of the tables, for the check that each of them is used: an import by a module of `from` matches `to`. */
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
    // An import of a type is an import: it decides what a reader must know.
    tsPreCompilationDeps: true,
    tsConfig: { fileName: "tsconfig.json" },
    enhancedResolveOptions: {
      extensions: [".ts", ".js", ".mjs", ".json", ".d.ts"],
      exportsFields: ["exports"],
      conditionNames: ["import", "node", "default", "types"],
    },
  },
};
