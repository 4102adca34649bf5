/**
 * Exports metrics by OTLP at an interval, one export at a time, so that its memory is bounded by the number of series.
 * Counts that a collector does not take are part of the next export.
 */
import { openSender } from "../otlp/open-sender.ts";
import { errorMessage } from "../text/thrown-value.ts";
import { isSettledWithin } from "../timing/settled-within.ts";
import type { Clock, Timer } from "../timing/clock.ts";
import type { MetricFamily } from "../metrics/metric-families.ts";
import { ExportedSeries } from "./exported-series.ts";
import type { MetricExportSettings } from "./metric-export-settings.ts";
import { otlpMessages } from "./otlp-messages.ts";
import type { OtlpSender } from "../otlp/otlp-sender.ts";

/** The metrics to export, and the observer of the export. */
export interface MetricExportOptions {
  readonly settings: MetricExportSettings;
  /** Name and version of the program. */
  readonly scope: { readonly name: string; readonly version: string };
  readonly clock: Clock;
  /** Collects the metrics of all threads. */
  readonly collect: () => Promise<readonly MetricFamily[]>;
  readonly observer: MetricExportObserver;
}

/** Observes the export. */
export interface MetricExportObserver {
  /** An export has ended. @param points in all of its messages, or before the one that failed. */
  ended(outcome: "exported" | "failed", points: number): void;
  /** A problem of the export. It contains no metric. */
  problem(message: string): void;
}

/** Loads the exporter, which no process without export needs, and begins. */
export async function openMetricExport(options: MetricExportOptions): Promise<MetricExport> {
  const { settings, observer } = options;
  const { protocol, timeoutMs } = settings;
  const sender = await openSender({ signal: "points", protocol, timeoutMs }, (message) => observer.problem(message));
  return new MetricExport(options, sender);
}

/** The export of a process. */
export class MetricExport {
  readonly #options: MetricExportOptions;
  readonly #sender: OtlpSender;
  readonly #exported: ExportedSeries;
  #timer: Timer | undefined;
  /** The export in progress. Never rejects. */
  #current: Promise<void> = Promise.resolve();
  #isClosed = false;

  /** Begins. The first export is after one interval. */
  constructor(options: MetricExportOptions, sender: OtlpSender) {
    const { settings, clock } = options;
    this.#options = options;
    this.#sender = sender;
    this.#exported = new ExportedSeries(settings.temporality, clock.nowMs());
    this.#schedule(clock.monotonicMs());
  }

  /** Exports once more, and ends, within `timeoutMs`. */
  async close(timeoutMs: number): Promise<void> {
    this.#isClosed = true;
    this.#timer?.cancel();
    const { clock } = this.#options;
    await isSettledWithin(
      this.#current.then(() => this.#export()),
      clock,
      timeoutMs,
    );
    this.#sender.close();
  }

  /** Keeps the rhythm of the first export, whatever time an export takes. */
  #schedule(lastMs: number): void {
    const { clock, settings } = this.#options;
    const dueMs = Math.max(lastMs + settings.intervalMs, clock.monotonicMs());
    this.#timer = clock.setTimer(dueMs - clock.monotonicMs(), () => {
      this.#current = this.#export().then(() => {
        if (!this.#isClosed) this.#schedule(dueMs);
      });
    });
  }

  async #export(): Promise<void> {
    const { collect, clock, observer, settings, scope } = this.#options;
    let points = 0;
    try {
      const families = await collect();
      this.#exported.begin(clock.nowMs());
      const { temporality, histograms, resource } = settings;
      const messages = [...otlpMessages(families, this.#exported, { temporality, histograms, resource, scope })];
      this.#exported.end();
      for (const message of messages) {
        await this.#sender.send(message.bytes);
        message.commit();
        points += message.points;
      }
      observer.ended("exported", points);
    } catch (error) {
      observer.problem(errorMessage(error));
      observer.ended("failed", points);
    }
  }
}
