/** The variables of expressions of the access log that read the fields of its line. */
import { type CelInput, CelScalar, type CelType, listType } from "@bufbuild/cel";
import { type LogFieldKind, type LogFieldName, logFieldKinds, type ValueOfKind } from "./log-fields.ts";
import type { RequestView } from "./request-view.ts";

/** How expressions see each kind. A field without a value is empty, so that a condition on it has a result. */
const kinds: {
  readonly [K in LogFieldKind]: {
    readonly type: CelType;
    readonly read: (value: ValueOfKind[K] | undefined) => CelInput;
  };
} = {
  text: { type: CelScalar.STRING, read: (value) => value ?? "" },
  integer: { type: CelScalar.INT, read: (value) => BigInt(value ?? 0) },
  decimal: { type: CelScalar.DOUBLE, read: (value) => value ?? 0 },
  flag: { type: CelScalar.BOOL, read: (value) => value ?? false },
  texts: { type: listType(CelScalar.STRING), read: (value) => (value === undefined ? [] : [...value]) },
};

/** The variables by their full names, each with its type and its reader. */
export const logVariables = Object.entries(logFieldKinds).map(([name, kind]) => {
  // The table gives each field values of its own kind.
  const { type, read } = kinds[kind] as { readonly type: CelType; readonly read: (value: unknown) => CelInput };
  return {
    name: `log.${name}`,
    type,
    phase: "end" as const,
    read: ({ log }: RequestView): CelInput | undefined =>
      log === undefined ? undefined : read(log[name as LogFieldName]),
  };
});
