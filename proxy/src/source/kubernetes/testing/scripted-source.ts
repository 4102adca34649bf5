/** A source over an API server whose responses a test scripts, with a fake clock, and the objects that it lists. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { waitFor } from "@gatewayproxy/runtime/testing/wait-for";
import { expect, onTestFinished, vi } from "vitest";
import { proxyGroup } from "../../../api/names.ts";
import type { NamedObject, ResourceSet } from "../../../api/resource.ts";
import { ClusterConnection } from "../../../kube/connection.ts";
import { type ApiCall, openScriptedApiServer } from "../../../kube/testing/scripted-api-server.ts";
import {
  type KubernetesConfiguration,
  type KubernetesSourceOptions,
  openKubernetesSource,
} from "../kubernetes-source.ts";

const quiet = vi.fn();
const log = { error: quiet, warn: quiet, info: quiet, debug: quiet, trace: quiet, isLevelEnabled: () => false };

/** A moment for sockets and promises. */
export async function settle(): Promise<void> {
  for (let turn = 0; turn < 50; turn++) await new Promise((resolve) => setImmediate(resolve));
}

/** Last part of a collection's path, with the name that a field selector asks for. */
function collectionOf({ url }: ApiCall): string {
  const name = url.searchParams.get("fieldSelector")?.replace("metadata.name=", "/") ?? "";
  return `${url.pathname.split("/").at(-1) ?? ""}${name}`;
}

/** Responds to a list. */
export type Handler = (call: ApiCall) => void;

/** Responds with these objects. */
export const listing =
  (items: readonly object[], resourceVersion = "1"): Handler =>
  (call) =>
    call.respond(200, { kind: "List", metadata: { resourceVersion }, items });

/**
 * A source over an API server on which every collection is empty, except where `handlers` has a response for its list.
 * Backends name Secrets as they do in truth.
 */
export async function sourcing(
  handlers: Readonly<Record<string, Handler>> = {},
  options: Partial<Pick<KubernetesSourceOptions, "maxNamedLength" | "maxKindBytes" | "maxAllBytes" | "applied">> & {
    /** Whether a selection is in progress until the next call. */
    readonly isSelecting?: () => boolean;
  } = {},
) {
  const { isSelecting = () => false, ...ofSource } = options;
  const server = await openScriptedApiServer();
  const clock = new FakeClock();
  const connection = new ClusterConnection(server.cluster);
  const published: KubernetesConfiguration[] = [];
  const selections: ResourceSet[] = [];
  const responses: Record<string, Handler> = { ...handlers };
  const lists: string[] = [];
  const watches = new Map<string, ApiCall>();
  const source = openKubernetesSource({
    ...{ connection, clock, log, random: () => 1, keepsStatus: false },
    ...ofSource,
    *select(resources) {
      selections.push(resources);
      while (isSelecting()) yield;
      const named = resources.Backend.flatMap(({ spec, metadata: { namespace } }): NamedObject[] => {
        const ref = spec.ai?.auth?.secretRef;
        return ref === undefined ? [] : [{ kind: "Secret", namespace, name: ref.name }];
      });
      return { resources, named };
    },
    publish: (configuration) => published.push(configuration),
  });
  onTestFinished(async () => {
    await source.close();
    connection.close();
  });
  const serve = async (): Promise<void> => {
    for (;;) {
      const call = await server.next();
      const collection = collectionOf(call);
      if (call.url.pathname === "/version") {
        call.respond(200, { major: "1", minor: "36" });
      } else if (call.isWatch) {
        watches.set(collection, call);
        call.open();
      } else {
        lists.push(collection);
        (responses[collection] ?? listing([]))(call);
      }
    }
  };
  void serve();
  /** Lets what is on its way arrive, and everything that is gathered be published. */
  const quieten = async (ms = 250): Promise<void> => {
    await settle();
    clock.advance(ms);
    await settle();
  };
  const send = async (collection: string, ...events: readonly object[]): Promise<void> => {
    await waitFor(() => expect(watches.has(collection)).toBe(true));
    watches.get(collection)?.send(...events);
  };
  const publishedTimes = async (times: number): Promise<KubernetesConfiguration> => {
    // A wait of 3 s is many moments, which take longer on a busy machine.
    await waitFor(
      async () => {
        await quieten();
        expect(published.length).toBeGreaterThanOrEqual(times);
      },
      { timeout: 20_000 },
    );
    const last = published.at(-1);
    if (last === undefined) throw new Error("nothing was published");
    return last;
  };
  return { source, clock, published, selections, responses, lists, watches, quieten, send, publishedTimes };
}

let version = 1;

/** An object of the namespace `default`, with a version of its own. */
export function object(apiVersion: string, kind: string, name: string, parts: object) {
  const metadata = { namespace: "default", name, resourceVersion: String(++version) };
  return { apiVersion, kind, metadata, ...parts };
}

/** A Service with one port. */
export const service = (name: string, port = 80) => object("v1", "Service", name, { spec: { ports: [{ port }] } });
/** An EndpointSlice without endpoints. */
export const endpointSlice = (name: string) =>
  object("discovery.k8s.io/v1", "EndpointSlice", name, { addressType: "IPv4", endpoints: [], ports: [] });
/** A Secret with an API key. */
export const secret = (name: string) => object("v1", "Secret", name, { stringData: { apiKey: "k" } });
/** A Backend `llm` that names a Secret. */
export const llm = (secretName: string, model?: string) => {
  const ai = { provider: { openai: { model } }, auth: { secretRef: { name: secretName } } };
  return object(`${proxyGroup}/v1alpha1`, "Backend", "llm", { spec: { ai } });
};
/** An event of a watch. */
export const event = (type: "ADDED" | "MODIFIED" | "DELETED", of: object) => ({ type, object: of });

/** The names of resources, in their order. */
export const namesOf = (resources: readonly { readonly metadata: { readonly name: string } }[]) =>
  resources.map(({ metadata }) => metadata.name);
