/** The fields of a line of the access log, which expressions of the access log read as `log.NAME`. */

/** The type of the values of each kind. */
export interface ValueOfKind {
  readonly text: string;
  readonly integer: number;
  readonly decimal: number;
  readonly flag: boolean;
  readonly texts: readonly string[];
}
/** The kind of the values of a field. */
export type LogFieldKind = keyof ValueOfKind;

/** Each field with the kind of its values, in the order of the line. */
export const logFieldKinds = {
  time: "text",
  requestId: "text",
  trace_id: "text",
  span_id: "text",
  source: "text",
  protocol: "text",
  serverName: "text",
  method: "text",
  scheme: "text",
  authority: "text",
  path: "text",
  httpVersion: "text",
  userAgent: "text",
  listener: "text",
  route: "text",
  rule: "text",
  identity: "text",
  backend: "text",
  endpoint: "text",
  provider: "text",
  failovers: "texts",
  calls: "integer",
  status: "integer",
  grpcStatus: "integer",
  reason: "text",
  durationMs: "decimal",
  upstreamMs: "decimal",
  requestBytes: "integer",
  responseBytes: "integer",
  inputTokens: "integer",
  outputTokens: "integer",
  totalTokens: "integer",
  cachedInputTokens: "integer",
  cacheCreationTokens: "integer",
  reasoningTokens: "integer",
  cost: "decimal",
  currency: "text",
  clientModel: "text",
  requestModel: "text",
  model: "text",
  usageEstimated: "flag",
  usageUnread: "text",
  deniedBy: "texts",
  shadowDeniedBy: "texts",
  globalLimits: "texts",
} as const satisfies Readonly<Record<string, LogFieldKind>>;

/** The name of a field. */
export type LogFieldName = keyof typeof logFieldKinds;

/** The fields of one request, redacted. A field without a value is undefined. */
export type LogFields = {
  readonly [Name in LogFieldName]: ValueOfKind[(typeof logFieldKinds)[Name]] | undefined;
};
