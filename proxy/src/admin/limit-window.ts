/** The fields of responses that describe the windows of a limit. */
import type { LimitCounter } from "@gatewayproxy/admin-api/limits";
import type { LimitWindow } from "../ir/limit.ts";

/** Describes how the windows of a limit follow one another. */
export function describeWindow(window: LimitWindow | undefined): Pick<LimitCounter, "window" | "timeZone"> {
  return window?.kind === "Calendar"
    ? { window: "Calendar", timeZone: window.timeZone }
    : { window: window?.kind ?? "Fixed" };
}
