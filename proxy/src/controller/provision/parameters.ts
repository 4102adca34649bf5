/**
 * Parameters of a GatewayClass or a Gateway: a ConfigMap whose keys hold YAML that is merged over the objects we make.
 * Those of the Gateway go over those of its class, and are confined to what `tenant-parameters.ts` accepts.
 */
import { readYaml, type YamlFault } from "../../api/yaml-text.ts";
import type { ConfigMap } from "../../api/config-map.ts";
import type { Gateway } from "../../api/gateway.ts";
import type { GatewayClass } from "../../api/gateway-class.ts";
import { isObject, type KubeObject } from "../../kube/object.ts";
import { isRefusedClass, refusedClassMessage } from "../../translate/environment.ts";
import { parameterKeys, type ParameterKey, type Parameters } from "./parameter-keys.ts";
import { tenantFault } from "./tenant-parameters.ts";

/** Fields by which objects are found and owned, which are ours in every object. */
const identity = ["apiVersion", "kind", "status"];

/**
 * Characters of a ConfigMap, and tokens of each of its keys. Whoever writes a Gateway decides how long the controller is
 * busy with reading it. What a Gateway may set has some 3,000 characters, a whole Deployment 10,000.
 */
const bounds = {
  Gateway: { characters: 16_384, tokens: 2_000 },
  GatewayClass: { characters: 65_536, tokens: 32_000 },
} as const;

/** How many faults of a text are reported: a condition has a bounded length. */
const maxFaults = 3;

export type ReadParameters =
  | { readonly kind: "parameters"; readonly parameters: Parameters }
  /** In one sentence. */
  | { readonly kind: "fault"; readonly message: string };

const none: ReadParameters = { kind: "parameters", parameters: {} };

/** The parameters that an object names; none where it names none; a fault where it is not known which. Never throws. */
export function parametersOf(owner: Gateway | GatewayClass, configMaps: readonly ConfigMap[]): ReadParameters {
  if (isRefusedClass(owner)) return fault(refusedClassMessage);
  const ref = refOf(owner);
  if (ref === undefined) return none;
  if (ref.kind !== "ConfigMap" || ref.group !== "") {
    const found = `${ref.kind} (group "${ref.group}")`;
    return fault(`parameters of kind ${found} are not known, accepted is ConfigMap (group "")`);
  }
  const { namespace, name } = ref;
  if (namespace === undefined) return fault(`the ConfigMap ${name} of a GatewayClass needs its namespace`);
  const found = configMaps.find(({ metadata }) => metadata.namespace === namespace && metadata.name === name);
  if (found === undefined) return fault(`ConfigMap ${namespace}/${name} does not exist`);
  const known = readings[owner.kind].get(found);
  if (known !== undefined) return known;
  const read = readParameters(found, owner.kind);
  readings[owner.kind].set(found, read);
  return read;
}

/**
 * The parameters of each version of a ConfigMap, read as those of a Gateway or of a class. Every plan asks for them several
 * times, and a tenant decides how long reading them takes.
 */
const readings = {
  Gateway: new WeakMap<ConfigMap, ReadParameters>(),
  GatewayClass: new WeakMap<ConfigMap, ReadParameters>(),
};

interface ParametersRef {
  readonly group: string;
  readonly kind: string;
  readonly namespace: string | undefined;
  readonly name: string;
}

/** Which object an owner's parameters are in. */
export function refOf(owner: Gateway | GatewayClass): ParametersRef | undefined {
  if (owner.kind === "GatewayClass") {
    const ref = owner.spec.parametersRef;
    return ref === undefined ? undefined : { ...ref, namespace: ref.namespace };
  }
  const ref = owner.spec.infrastructure?.parametersRef;
  return ref === undefined ? undefined : { ...ref, namespace: owner.metadata.namespace };
}

function readParameters({ metadata, data }: ConfigMap, owner: "Gateway" | "GatewayClass"): ReadParameters {
  const place = `ConfigMap ${metadata.namespace}/${metadata.name}`;
  const parameters: Partial<Record<ParameterKey, KubeObject>> = {};
  const { characters, tokens } = bounds[owner];
  const length = Object.values(data).reduce((sum, text) => sum + text.length, 0);
  if (length > characters) {
    return fault(`${place} has ${length} characters, accepted for a ${owner} are at most ${characters}`);
  }
  for (const [key, text] of Object.entries(data)) {
    const known = parameterKeys.find((each) => each === key);
    if (known === undefined) {
      return fault(`${place}: key ${JSON.stringify(key)} is not known, accepted are ${parameterKeys.join(", ")}`);
    }
    const read = readMap(text, tokens);
    if (typeof read === "string") return fault(`${place}: ${key} ${read}`);
    const taken = identity.find((field) => field in read);
    if (taken !== undefined) return fault(`${place}: ${key}.${taken} cannot be set`);
    const refused = owner === "Gateway" ? tenantFault(known, read) : undefined;
    if (refused !== undefined) return fault(`${place}: ${refused}`);
    parameters[known] = read;
  }
  return { kind: "parameters", parameters };
}

/** The fields of a YAML text, or what is wrong with it, to follow its name in a sentence. */
function readMap(text: string, maxTokens: number): KubeObject | string {
  const [document, second] = readYaml({ path: "", text }, maxTokens);
  if (document?.kind === "unreadable") {
    return `is no YAML: ${document.faults.slice(0, maxFaults).map(describeFault).join("; ")}`;
  }
  if (second !== undefined) return "must be one document";
  if (!isObject(document?.value)) return "must be a map of fields";
  return document.value;
}

function describeFault({ message, location: { line, column } }: YamlFault): string {
  return `${message.replace(/^invalid YAML: /, "")} at line ${line}, column ${column}`;
}

function fault(message: string): ReadParameters {
  return { kind: "fault", message };
}
