/** A listener of a Gateway or a ListenerSet (Gateway API v1.7 `Listener`, `ListenerEntry`). */
import * as z from "zod";
import { gatewayGroup } from "./names.ts";
import {
  group,
  hostname,
  type Immutable,
  kindName,
  labelSelector,
  list,
  namespaceName,
  portNumber,
  sectionName,
  strictObject,
  targetName,
  text,
  textMap,
} from "./schema.ts";

/** A reference to a certificate and its key. */
export const secretReference = strictObject({
  group: group.default(""),
  kind: kindName.default("Secret"),
  name: targetName,
  namespace: namespaceName.optional(),
});

const listenerTls = strictObject({
  mode: z.enum(["Terminate", "Passthrough"]).default("Terminate"),
  certificateRefs: list(secretReference, { max: 64 }).default([]),
  options: textMap.default({}),
}).refine((tls) => tls.mode !== "Terminate" || tls.certificateRefs.length > 0 || Object.keys(tls.options).length > 0, {
  error: "certificateRefs or options are required where mode is Terminate",
});

const allowedRoutes = strictObject({
  namespaces: strictObject({
    from: z.enum(["All", "Selector", "Same"]).default("Same"),
    selector: labelSelector.optional(),
  }).default({ from: "Same" }),
  kinds: list(strictObject({ group: group.default(gatewayGroup), kind: kindName }), { max: 8 }).optional(),
});

const listener = strictObject({
  name: sectionName,
  hostname: hostname.optional(),
  port: portNumber,
  protocol: text("a protocol such as HTTP", { max: 255, pattern: /^[a-zA-Z0-9][-a-zA-Z0-9./]*$/ }),
  tls: listenerTls.optional(),
  allowedRoutes: allowedRoutes.default({ namespaces: { from: "Same" } }),
}).superRefine((value, context) => {
  for (const { path, message } of listenerErrors(value)) context.addIssue({ code: "custom", path: [path], message });
});

interface ListenerTraits {
  readonly protocol: string;
  readonly hostname?: string | undefined;
  readonly tls?: { readonly mode: string } | undefined;
}

/** The CRD's rules on the fields that each protocol allows and requires. */
function* listenerErrors({ protocol, hostname, tls }: ListenerTraits): Iterable<{ path: string; message: string }> {
  if (tls !== undefined && ["HTTP", "TCP", "UDP"].includes(protocol)) {
    yield { path: "tls", message: `tls must not be set where protocol is ${protocol}` };
  }
  if (tls?.mode === "Passthrough" && protocol === "HTTPS") {
    yield { path: "tls", message: "mode must be Terminate where protocol is HTTPS" };
  }
  if (tls === undefined && protocol === "TLS") yield { path: "tls", message: "tls is required where protocol is TLS" };
  if (hostname !== undefined && ["TCP", "UDP"].includes(protocol)) {
    yield { path: "hostname", message: `hostname must not be set where protocol is ${protocol}` };
  }
}

/** `spec.listeners` of a Gateway and of a ListenerSet. */
export const listeners = list(listener, { min: 1, max: 64 }).superRefine((all, context) => {
  const names = new Set<string>();
  const endpoints = new Set<string>();
  all.forEach(({ name, port, protocol, hostname }, index) => {
    const endpoint = `port ${port}, protocol ${protocol}, ${hostname === undefined ? "no hostname" : `hostname ${hostname}`}`;
    if (names.has(name)) {
      context.addIssue({ code: "custom", path: [index, "name"], message: `a second listener has the name "${name}"` });
    }
    if (endpoints.has(endpoint)) {
      context.addIssue({ code: "custom", path: [index], message: `a second listener has ${endpoint}` });
    }
    names.add(name);
    endpoints.add(endpoint);
  });
});

/** An item of `listeners`. */
export type Listener = Immutable<z.output<typeof listener>>;
/** `tls` of a listener. */
export type ListenerTls = Immutable<z.output<typeof listenerTls>>;
/** A reference to a Secret. */
export type SecretReference = Immutable<z.output<typeof secretReference>>;
/** `allowedRoutes` of a listener. */
export type AllowedRoutes = Listener["allowedRoutes"];
