/**
 * Describes the protobuf messages as file descriptors, for gRPC reflection. protobufjs creates one file per protobuf
 * package, uses relative type names, has its own names for map entries and omits imports. Clients need the output of
 * protoc, so this module computes it.
 */
import { loadSync, type PackageDefinition } from "@grpc/proto-loader";
import descriptor, { type IDescriptorProto, type IFileDescriptorProto } from "protobufjs/ext/descriptor/index.js";
import { protoDirectory, type ProtoFile } from "./options.ts";

/** The file descriptors of some services, in the form that gRPC reflection returns (`grpc.reflection.v1`). */
export interface DescriptorFiles {
  /** Full names of all services, sorted. */
  readonly services: readonly string[];
  /**
   * Returns serialized FileDescriptorProtos: the file that defines the message, enum, service or method, then all its
   * imports. Returns `undefined` for an unknown name.
   */
  ofSymbol(fullName: string): readonly Uint8Array[] | undefined;
  /** Returns the same for a file by its name. */
  ofFile(name: string): readonly Uint8Array[] | undefined;
}

/** Describes everything in the files and in their imports. */
export function describeFiles(...protoFiles: readonly ProtoFile[]): DescriptorFiles {
  // Descriptors contain the names of the .proto files, so the case is kept.
  const definitions = loadSync([...protoFiles], { keepCase: true, includeDirs: [protoDirectory] });
  const files = readFiles(definitions);
  for (const type of [...files.values()].flatMap((file) => file.messageType ?? [])) renameMapEntries(type);
  const owners = new Map(
    [...files.values()].flatMap((file) => symbolsOf(file).map((symbol) => [symbol, file] as const)),
  );
  for (const file of files.values()) qualify(file, owners);
  const withImports = (file: IFileDescriptorProto | undefined) =>
    file === undefined
      ? undefined
      : closureOf(file, files).map((each) => descriptor.FileDescriptorProto.encode(each).finish());
  return {
    services: [...files.values()]
      .flatMap((file) => (file.service ?? []).map(({ name }) => fullName(file, name)))
      .sort(),
    ofSymbol: (name) => withImports(owners.get(name)),
    ofFile: (name) => withImports(files.get(name)),
  };
}

/** Reads the files by name. Every message of the loader carries the files of its definition. */
function readFiles(definitions: PackageDefinition): Map<string, IFileDescriptorProto> {
  const files = new Map<string, IFileDescriptorProto>();
  for (const definition of Object.values(definitions)) {
    if (!("format" in definition)) continue;
    for (const bytes of definition.fileDescriptorProtos as readonly Buffer[]) {
      // The descriptor of descriptors decodes to exactly this shape.
      const file = descriptor.FileDescriptorProto.decode(bytes) as IFileDescriptorProto;
      files.set(file.name ?? "", file);
    }
  }
  return files;
}

function fullName(file: IFileDescriptorProto, name: string | undefined): string {
  return `${file.package ?? ""}.${name ?? ""}`;
}

function symbolsOf(file: IFileDescriptorProto): string[] {
  const services = (file.service ?? []).flatMap((service) => {
    const name = fullName(file, service.name);
    return [name, ...(service.method ?? []).map((method) => `${name}.${method.name ?? ""}`)];
  });
  const enums = (file.enumType ?? []).map((type) => fullName(file, type.name));
  const messages = (file.messageType ?? []).flatMap((type) => symbolsOfMessage(fullName(file, type.name), type));
  return [...services, ...enums, ...messages];
}

function symbolsOfMessage(name: string, type: IDescriptorProto): string[] {
  const enums = (type.enumType ?? []).map((nested) => `${name}.${nested.name ?? ""}`);
  const messages = (type.nestedType ?? []).flatMap((nested) =>
    symbolsOfMessage(`${name}.${nested.name ?? ""}`, nested),
  );
  return [name, ...enums, ...messages];
}

/** Renames map entries: protoc names the type after its field, `FieldsEntry` for `fields`; protobufjs uses `Fields`. */
function renameMapEntries(type: IDescriptorProto): void {
  for (const nested of type.nestedType ?? []) {
    if (nested.options?.mapEntry === true) {
      const field = type.field?.find(({ typeName }) => typeName === nested.name);
      nested.name = `${nested.name ?? ""}Entry`;
      if (field !== undefined) field.typeName = nested.name;
    }
    renameMapEntries(nested);
  }
}

/** Sets the full name of every type that the file uses, and the imports of the file. */
function qualify(file: IFileDescriptorProto, owners: ReadonlyMap<string, IFileDescriptorProto>): void {
  const imports = new Set<string>();
  const resolve = (scope: string, name: string): string => {
    const found = resolveName(scope, name, owners);
    const owner = owners.get(found)?.name;
    if (owner !== undefined && owner !== file.name) imports.add(owner);
    return `.${found}`;
  };
  for (const type of file.messageType ?? []) qualifyMessage(fullName(file, type.name), type, resolve);
  for (const method of (file.service ?? []).flatMap((service) => service.method ?? [])) {
    method.inputType = resolve(file.package ?? "", method.inputType ?? "");
    method.outputType = resolve(file.package ?? "", method.outputType ?? "");
  }
  file.dependency = [...imports].sort();
}

function qualifyMessage(scope: string, type: IDescriptorProto, resolve: (scope: string, name: string) => string): void {
  for (const field of type.field ?? []) {
    if (field.typeName !== undefined && field.typeName !== "") field.typeName = resolve(scope, field.typeName);
    field.jsonName = (field.name ?? "").replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());
  }
  for (const nested of type.nestedType ?? []) qualifyMessage(`${scope}.${nested.name ?? ""}`, nested, resolve);
}

/** Resolves a name to the nearest definition, from the scope outwards. */
function resolveName(scope: string, name: string, owners: ReadonlyMap<string, IFileDescriptorProto>): string {
  if (name.startsWith(".")) return name.slice(1);
  const parts = scope.split(".");
  for (let depth = parts.length; depth > 0; depth--) {
    const candidate = `${parts.slice(0, depth).join(".")}.${name}`;
    if (owners.has(candidate)) return candidate;
  }
  return name;
}

function closureOf(
  file: IFileDescriptorProto,
  files: ReadonlyMap<string, IFileDescriptorProto>,
  found = new Set<IFileDescriptorProto>(),
): IFileDescriptorProto[] {
  if (!found.has(file)) {
    found.add(file);
    for (const name of (file.dependency ?? []) as readonly string[]) {
      const imported = files.get(name);
      if (imported !== undefined) closureOf(imported, files, found);
    }
  }
  return [...found];
}
