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
  api: { layers: ["cel", "regex"], packages: ["zod", "yaml", "fastest-levenshtein"], core: ["net"] },
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
  source: { layers: ["api", "kube"], packages: ["yaml"] },
  routing: { layers: ["ir", "regex"], packages: [], core: [] },
  filters: { layers: ["ir"], packages: [], core: [] },
  // zlib: compressed answers are decoded beside the stream; its decoders are stream's.
  // buffer: whether a text is UTF-8.
  llm: { layers: ["ir"], packages: [], core: ["zlib", "stream", "buffer"] },
  // How servers are trusted, and which addresses are connected to, is one thing, whoever calls them.
  policy: {
    layers: ["ir", "cel", "upstream/client-tls.ts", "upstream/guarded-lookup.ts"],
    packages: ["node-cache"],
    core: ["crypto", "net", "tls"],
  },
  upstream: { layers: ["ir"], packages: ["undici"] },
  telemetry: { layers: ["ir", "cel/request-view.ts"], packages: ["pino", "prom-client"] },
  // What an operator asks is answered from what it is given, never by reaching into the data path.
  admin: {
    layers: ["api", "ir", "cel", "status", "policy", "telemetry", "upstream/endpoint-state.ts"],
    packages: [],
    core: ["events", "http", "net", "crypto", "fs", "fs/promises", "path", "v8"],
  },
  server: {
    layers: ["ir", "cel", "regex", "routing", "filters", "policy", "llm", "upstream", "telemetry"],
    packages: [],
  },
};

/** The limiter knows neither how counters are kept nor how a call arrived; the doors know no store. */
const ratelimitService = {
  // What a call asks and answers is the vocabulary of all.
  // grpc-js: the one stream to an xDS server, where calls are few and its features many.
  config: { layers: ["limiter/rate-limit.ts", "stats.ts"], packages: ["yaml", "@grpc/grpc-js"] },
  limiter: { layers: ["config", "store/counter-store.ts", "stats.ts"], packages: [], core: [] },
  // config/unit.ts: which windows begin together, and so share a counter.
  store: {
    layers: ["limiter", "config/unit.ts", "stats.ts"],
    packages: ["@redis/client", "cluster-key-slot", "memcache"],
  },
  transport: { layers: ["config", "limiter", "stats.ts", "service.ts"], packages: [] },
  metrics: { layers: ["stats.ts"], packages: ["re2js", "yaml"] },
  settings: {
    layers: [
      ...["limiter/call-bounds.ts", "store/redis/redis-options.ts", "store/memcache/memcache-options.ts"],
      ...["transport/connection-bounds.ts", "metrics"],
    ],
    packages: [],
  },
};

/** The commands know everything below them; what they use knows no command, and only kube/ knows a cluster. */
const proxyctl = {
  output: { layers: [], packages: ["yaml"], core: [] },
  admin: { layers: ["command-error.ts"], packages: ["zod"] },
  kube: { layers: ["admin/reach.ts", "command-error.ts"], packages: ["@kubernetes/client-node", "zod"] },
  views: { layers: ["output", "replay", "command-error.ts"], packages: [], core: [] },
  // The limiter itself is the proxy's.
  replay: { layers: [], packages: ["zod"], core: [] },
  terminal: { layers: ["output", "io.ts"], packages: [] },
  trace: { layers: ["admin", "output", "terminal", "command-error.ts", "io.ts"], packages: ["commander", "yaml"] },
  // What the command tree loads, a shell waits for at every TAB: it loads an action when that runs.
  commands: { layers: ["actions", "command-error.ts", "io.ts"], packages: ["commander"], core: [] },
  actions: {
    layers: [
      ...["admin", "kube", "output", "views", "terminal", "trace", "replay"],
      ...["commands/output-option.ts", "commands/reach-options.ts", "command-error.ts", "io.ts", "version.ts"],
    ],
    packages: ["zod"],
  },
};

/** Which workspaces a workspace may import, each through its exports. */
const workspaces = {
  runtime: [],
  protos: ["runtime"],
  // What the admin server answers; imported by whoever reads it, too.
  "admin-api": [],
  "admin-ui": ["admin-api"],
  proxy: ["runtime", "protos", "admin-api"],
  "ratelimit-service": ["runtime", "protos"],
  // Its limiter too, to try limits with.
  proxyctl: ["runtime", "admin-api", "proxy", "ratelimit-service"],
  "examples/mock-llm": ["runtime"],
};

/** Folders that put a program's layers together. */
const assembly = ["app", "bin"];

/** Packages with one home: what reaches for them elsewhere goes around the part that wraps them. */
const homes = {
  undici: ["proxy/src/upstream/"],
  pino: ["runtime/src/log"],
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
    // A type may travel: telemetry names pino's Logger without starting one.
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
