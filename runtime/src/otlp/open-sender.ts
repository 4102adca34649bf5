/** Opens senders of OTLP messages, with the transports that only processes that export load. */
import type { ReportProblem } from "./export-observer.ts";
import type { OtlpSender, OtlpTransport } from "./otlp-sender.ts";

/**
 * Opens a sender.
 *
 * @param onProblem called with a problem for which no message fails, such as items that a collector has rejected.
 */
export type OpenSender = (transport: OtlpTransport, onProblem: ReportProblem) => OtlpSender | Promise<OtlpSender>;

/** Opens a sender whose transport runs in this thread. */
export async function openSender(transport: OtlpTransport, onProblem: ReportProblem): Promise<OtlpSender> {
  const { openOtlpSender } = await import("./otlp-sender.ts");
  return await openOtlpSender(transport, onProblem);
}
