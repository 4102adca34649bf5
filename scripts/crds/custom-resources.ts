/** The CustomResourceDefinitions of our kinds, generated from the schemas of the parser. */
import type * as z from "zod";
import { backendSchema } from "../../proxy/src/api/backend.ts";
import { proxyGroup } from "../../proxy/src/api/names.ts";
import { proxyPolicySchema } from "../../proxy/src/api/proxy-policy.ts";
import { backendStatus, policyStatus } from "./status-schema.ts";
import { editorSchema, type JsonSchema, structuralSchema } from "./structural-schema.ts";

export interface CustomResource {
  readonly kind: string;
  readonly plural: string;
  readonly shortNames: readonly string[];
  /** A sentence for `kubectl explain`. */
  readonly description: string;
  readonly labels: Readonly<Record<string, string>>;
  readonly spec: z.ZodType;
  readonly status: JsonSchema;
  readonly columns: readonly PrinterColumn[];
}

/** A column of `kubectl get`. */
interface PrinterColumn {
  readonly name: string;
  readonly type: "string" | "date";
  readonly jsonPath: string;
  readonly description?: string;
  /** A column with 1 is shown only with `-o wide`. */
  readonly priority?: number;
}

const age: PrinterColumn = { name: "Age", type: "date", jsonPath: ".metadata.creationTimestamp" };

export const customResources: readonly CustomResource[] = [
  {
    kind: "ProxyPolicy",
    plural: "proxypolicies",
    shortNames: ["ppol"],
    description:
      "Limits on the traffic of the routes and Gateways that it targets, in requests, in LLM tokens and in connections.",
    // Direct, says GEP-713: what is limited is the target's own traffic. No policy overrides or defaults another's.
    labels: { "gateway.networking.k8s.io/policy": "Direct" },
    spec: proxyPolicySchema.shape.spec,
    status: policyStatus,
    // A column shows one value of its path, and a policy has several targets, limits and ancestors: hence the summary.
    columns: [
      { name: "Target", type: "string", jsonPath: ".status.summary.target", description: "What it names." },
      { name: "Limits", type: "string", jsonPath: ".status.summary.limits", description: "How much it admits." },
      { name: "Accepted", type: "string", jsonPath: ".status.summary.accepted", description: "Whether it is sound." },
      {
        name: "Attached",
        type: "string",
        jsonPath: ".status.summary.attached",
        description: "Whether it is enforced: of several targets, on how many.",
      },
      age,
    ],
  },
  {
    kind: "Backend",
    plural: "backends",
    shortNames: [],
    description: "A target of routes that is not a Service: a server by its address, or an LLM provider.",
    labels: {},
    spec: backendSchema.shape.spec,
    status: backendStatus,
    columns: [
      {
        name: "Accepted",
        type: "string",
        jsonPath: '.status.conditions[?(@.type=="Accepted")].status',
        description: "Whether it is sound.",
      },
      { name: "Host", type: "string", jsonPath: ".spec.static.host", description: "Its address.", priority: 1 },
      age,
    ],
  },
];

const text: JsonSchema = { type: "string" };

/** The resource as `kubectl apply` takes it. */
export function customResourceDefinition(resource: CustomResource): object {
  const { kind, plural, shortNames, description, labels, spec, status, columns } = resource;
  return {
    apiVersion: "apiextensions.k8s.io/v1",
    kind: "CustomResourceDefinition",
    metadata: { name: `${plural}.${proxyGroup}`, ...(Object.keys(labels).length > 0 && { labels }) },
    spec: {
      group: proxyGroup,
      names: {
        kind,
        listKind: `${kind}List`,
        plural,
        singular: kind.toLowerCase(),
        ...(shortNames.length > 0 && { shortNames }),
        categories: ["gateway-api", "gatewayproxy"],
      },
      scope: "Namespaced",
      versions: [
        {
          name: "v1alpha1",
          served: true,
          storage: true,
          subresources: { status: {} },
          additionalPrinterColumns: columns,
          schema: {
            openAPIV3Schema: {
              description,
              type: "object",
              required: ["spec"],
              properties: {
                apiVersion: { ...text, description: `${proxyGroup}/v1alpha1` },
                kind: { ...text, description: kind },
                metadata: { type: "object" },
                spec: structuralSchema(spec),
                status,
              },
            },
          },
        },
      ],
    },
  };
}

/** JSON Schema of whole manifests, for editors. */
export function manifestSchema({ kind, description, spec }: CustomResource): object {
  return {
    $schema: "http://json-schema.org/draft-07/schema#",
    title: `${kind} (${proxyGroup}/v1alpha1)`,
    description,
    type: "object",
    required: ["apiVersion", "kind", "metadata", "spec"],
    properties: {
      apiVersion: { ...text, enum: [`${proxyGroup}/v1alpha1`] },
      kind: { ...text, enum: [kind] },
      metadata: { type: "object", required: ["name"], properties: { name: text, namespace: text } },
      spec: editorSchema(spec),
      status: { type: "object" },
    },
    additionalProperties: false,
  };
}
