/**
 * How bundles take modules of Node: with `getBuiltinModule`, which loads only the used exports, where an `import` reads
 * every export, and some of them load other modules: `node:http` loads undici for WebSocket, `node:fs` readline.
 * Modules that take much memory and that few settings need are loaded at the first call.
 */
import { isBuiltin } from "node:module";
import type { Plugin } from "rolldown";

/**
 * Modules that are loaded at the first call of one of their functions. `tls` takes 5 MiB, `crypto` 2 MiB, and packages
 * load them for what few programs need.
 */
const loadedOnUse: ReadonlySet<string> = new Set([
  ...["assert", "child_process", "cluster", "crypto", "dgram", "dns", "dns/promises"],
  ...["http2", "https", "tls", "worker_threads", "zlib"],
]);

/** A whole import, as the bundler writes it. */
const importLine = /^import (?:([\w$]+)(?:, )?)?(?:\{ (.*) \}|\* as ([\w$]+))? ?from "([\w:/]+)";$/gm;
/** A call by which CommonJS modules load modules of Node, whole or for some names. */
const requireCall = /\b__require\("([\w:/]+)"\)/g;
const requiredNames = /\bconst \{ ?([\w$:, ]+?) ?\} = __require\("([\w:/]+)"\);/g;

/** What a chunk needs to load a module of Node at the first call. */
const helpers = `const functionOnUse = (module, name) => function (...args) {
	const used = process.getBuiltinModule(module)[name];
	return new.target === undefined ? used(...args) : Reflect.construct(used, args);
};
const moduleOnUse = (module) => new Proxy(function () {}, {
	get: (_, key) => key === "__esModule" ? undefined : process.getBuiltinModule(module)[key],
	apply: (_, self, args) => Reflect.apply(process.getBuiltinModule(module), self, args),
});
`;

/** Replaces imports of modules of Node, so that only the used exports are loaded. */
export const builtinsByName: Plugin = {
  name: "builtins-by-name",
  renderChunk: (code) => ({ code: withoutImports(code, () => false) }),
};

/**
 * As `builtinsByName`, and takes the modules of `loadedOnUse` at the first call. Each call looks the module up, so this
 * is for a program whose work needs few such calls.
 */
export const builtinsOnUse: Plugin = {
  name: "builtins-on-use",
  renderChunk(code) {
    const required = withoutImports(code, isOnUse)
      .replace(requiredNames, (line, names: string, module: string) =>
        isOnUse(module) ? takeNames(code, names.split(/, ?/), ": ", module, isOnUse).join(" ") : line,
      )
      .replace(requireCall, (call, module: string) => (isOnUse(module) ? `moduleOnUse("${bare(module)}")` : call));
    return { code: /\b(?:function|module)OnUse\(/.test(required) ? afterImports(required, helpers) : required };
  },
};

type IsOnUse = (module: string) => boolean;

function withoutImports(code: string, mayWait: IsOnUse): string {
  const imported = code.replace(
    importLine,
    (line, whole?: string, names?: string, namespace?: string, module?: string): string => {
      if (module === undefined || !isBuiltin(module)) return line;
      const taken = [whole, namespace].flatMap((name) =>
        name === undefined ? [] : [takeModule(name, module, mayWait)],
      );
      const named = names === undefined ? [] : takeNames(code, names.split(", "), " as ", module, mayWait);
      return [...taken, ...named].join(" ");
    },
  );
  const [remaining] = /^import .*"node:.*$/m.exec(imported) ?? [];
  if (remaining !== undefined) throw new Error(`cannot replace the import: ${remaining}`);
  return imported;
}

function bare(module: string): string {
  return module.replace(/^node:/, "");
}

function isOnUse(module: string): boolean {
  return loadedOnUse.has(bare(module));
}

function takeModule(name: string, module: string, mayWait: IsOnUse): string {
  return `const ${name} = ${mayWait(module) ? "moduleOnUse" : "process.getBuiltinModule"}("${bare(module)}");`;
}

/**
 * Returns declarations of the names: of a function that loads the module when it is called, or of the export itself.
 *
 * @param names each an export, or an export and its local name with the separator between them.
 */
function takeNames(
  code: string,
  names: readonly string[],
  separator: string,
  module: string,
  mayWait: IsOnUse,
): readonly string[] {
  const exports = process.getBuiltinModule(`node:${bare(module)}`) as unknown as Readonly<Record<string, unknown>>;
  const pairs = names.map((each) => {
    const [name = "", local = name] = each.split(separator);
    return { name, local, isOnUse: mayWait(module) && typeof exports[name] === "function" };
  });
  const calls = pairs.filter((pair) => pair.isOnUse);
  for (const { name, local } of calls) {
    // A function that stands for a class can be called with `new`, but nothing else.
    if (new RegExp(`\\b(?:extends|instanceof) ${local}\\b`).test(code)) {
      throw new Error(`${module} is loaded at the first call, so ${name} cannot be extended or compared with`);
    }
  }
  const taken = pairs.filter((pair) => !pair.isOnUse);
  const properties = taken.map(({ name, local }) => (name === local ? name : `${name}: ${local}`)).join(", ");
  return [
    ...calls.map(({ name, local }) => `const ${local} = functionOnUse("${bare(module)}", "${name}");`),
    ...(taken.length === 0 ? [] : [`const { ${properties} } = process.getBuiltinModule("${bare(module)}");`]),
  ];
}

/** Inserts `text` after the imports of a chunk, or at its start, but after `#!`. */
function afterImports(code: string, text: string): string {
  const [head = ""] = /^(?:#!.*\n)?(?:import .*\n)*/.exec(code) ?? [];
  return head + text + code.slice(head.length);
}
