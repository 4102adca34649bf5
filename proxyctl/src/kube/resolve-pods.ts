/**
 * Resolves `gateway/web` to the pods that serve it: running pods with the label that the Gateway API defines for
 * provisioned infrastructure; by default the first ready one by name. If there are none, the error explains why.
 */
import { gatewayLabelValue } from "@gatewayproxy/proxy/gateway-label";
import { gatewayNameLabel } from "@gatewayproxy/proxy/names";
import { CommandError, exitCodes } from "../command-error.ts";
import type { Cluster, GatewayObject, Pod } from "./cluster.ts";
import type { Target } from "./target.ts";

/** Selects the pods of a command. */
export interface PodSelection {
  /** Absent: the only Gateway of the namespace. */
  readonly target?: Target;
  /** A pod by name, ready or not. */
  readonly pod?: string;
  /** Selects all ready pods of the Gateway instead of the first. */
  readonly all: boolean;
}

/** Returns at least one pod, sorted by name. Throws a `CommandError` that lists what exists instead. */
export async function resolvePods(cluster: Cluster, choice: PodSelection): Promise<readonly Pod[]> {
  const { target } = choice;
  const podName = choice.pod ?? (target?.kind === "pod" ? target.name : undefined);
  if (podName !== undefined) return [await namedPod(cluster, podName, target)];
  const gateway = target?.name ?? (await onlyGateway(cluster));
  const pods = await cluster.listPods(labelOf(gateway));
  if (pods.length === 0) throw await noPodsError(cluster, gateway);
  const ready = pods.filter(({ isReady }) => isReady);
  const [first] = ready;
  if (first === undefined) throw noneReadyError(cluster, gateway, pods);
  return choice.all ? ready : [first];
}

/** Returns the label selector of a Gateway's pods. */
function labelOf(gateway: string): string {
  return `${gatewayNameLabel}=${gatewayLabelValue(gateway)}`;
}

async function namedPod(cluster: Cluster, name: string, target: Target | undefined): Promise<Pod> {
  if (target?.kind === "pod" && target.name !== name) {
    throw new CommandError({
      message: `pod/${target.name} is named, but also --pod ${name}`,
      advice: ["leave out one of them"],
      exitCode: exitCodes.usage,
    });
  }
  const pod = await cluster.findPod(name);
  if (pod !== undefined) {
    const gateway = pod.labels[gatewayNameLabel];
    if (target?.kind !== "gateway" || gateway === gatewayLabelValue(target.name)) return pod;
    throw new CommandError({
      message: `find the pod ${JSON.stringify(name)} of gateway/${target.name}: it ${gateway === undefined ? "serves no Gateway" : `serves gateway/${gateway}`}`,
      advice: [
        `name it as pod/${name}`,
        `list the pods of the Gateway: kubectl get pods -n ${pod.namespace} -l ${labelOf(target.name)}`,
      ],
    });
  }
  throw new CommandError({
    message: `find the pod ${JSON.stringify(name)}: there is none in namespace ${JSON.stringify(cluster.namespace)}`,
    advice: [`list the pods of proxies: kubectl get pods -n ${cluster.namespace} -l ${gatewayNameLabel}`],
  });
}

async function onlyGateway(cluster: Cluster): Promise<string> {
  const gateways = await cluster.listGateways();
  const [first, second] = gateways;
  if (first !== undefined && second === undefined) return first.name;
  const namespace = JSON.stringify(cluster.namespace);
  if (first === undefined) {
    throw new CommandError({
      message: `find a Gateway: there is none in namespace ${namespace}`,
      advice: [await listOtherNamespaces(cluster), "choose another namespace with -n"],
    });
  }
  throw new CommandError({
    message: `choose a Gateway: there are ${gateways.length} in namespace ${namespace}`,
    advice: [`name one: ${gateways.map(({ name }) => `gateway/${name}`).join(", ")}`],
  });
}

async function noPodsError(cluster: Cluster, name: string): Promise<CommandError> {
  const gateways = await cluster.listGateways();
  const gateway = gateways.find((candidate) => candidate.name === name);
  if (gateway !== undefined) return missingPodsError(gateway);
  const names = gateways.map((candidate) => `gateway/${candidate.name}`).join(", ");
  return new CommandError({
    message: `find the Gateway ${JSON.stringify(name)}: there is none in namespace ${JSON.stringify(cluster.namespace)}`,
    advice: [
      names === "" ? await listOtherNamespaces(cluster, name) : `there are: ${names}`,
      "choose another namespace with -n",
    ],
  });
}

function missingPodsError({ namespace, name, gatewayClass, conditions }: GatewayObject): CommandError {
  const unmet = conditions.filter(({ status }) => status !== "True");
  const reasons = unmet.map(
    ({ type, status, reason, message }) => `its condition ${type} is ${status} (${reason}): ${message}`,
  );
  return new CommandError({
    message: `find the proxy of gateway/${name}: namespace ${JSON.stringify(namespace)} has no pod labelled ${labelOf(name)}`,
    advice: [...reasons, `its class is ${JSON.stringify(gatewayClass)}; check that the controller of that class runs`],
  });
}

function noneReadyError(cluster: Cluster, gateway: string, pods: readonly Pod[]): CommandError {
  return new CommandError({
    message: `find the proxy of gateway/${gateway}: none of its pods is ready: ${pods.map(({ name, state }) => `${name} is ${state}`).join(", ")}`,
    advice: [
      `see why: kubectl describe pods -n ${cluster.namespace} -l ${labelOf(gateway)}`,
      `use one anyway: --pod ${pods[0]?.name ?? "NAME"}`,
    ],
  });
}

/** Lists the Gateways of other namespaces, as far as the user may see them. */
async function listOtherNamespaces(cluster: Cluster, name?: string): Promise<string> {
  const all = await cluster.listGateways("cluster").catch(() => []);
  const named = all.filter((candidate) => name === undefined || candidate.name === name);
  if (named.length === 0) {
    return all.length === 0 ? "no other namespace has a visible Gateway either" : "no namespace has one of that name";
  }
  return `there are: ${named.map((candidate) => `gateway/${candidate.name} -n ${candidate.namespace}`).join(", ")}`;
}
