/** Tests a way to call the service (the core with a store, or a transport) against the table of cases. */
import { describe, expect, test } from "vitest";
import type { RateLimitRequest, RateLimitResponse } from "../../model/rate-limit.ts";
import type { CaseSettings } from "./case.ts";
import { cases } from "./cases.ts";
import { parseCall, renderResponse } from "./notation.ts";

/**
 * A running service for one case: the configuration of the cases, fresh counters, and the clock at the case's start.
 */
export interface CaseSubject {
  readonly ask: (request: RateLimitRequest) => Promise<RateLimitResponse>;
  readonly advance: (seconds: number) => void;
  readonly close: () => Promise<void>;
}

/** Runs every case of the table against the services that `open` creates. */
export function describeCases(name: string, open: (settings: CaseSettings) => Promise<CaseSubject>): void {
  describe(`the cases, asked of ${name}`, () => {
    test.each(cases)("$id: $requirement", async ({ domain, settings = {}, calls }) => {
      const subject = await open(settings);
      try {
        for (const call of calls) {
          subject.advance(call.after ?? 0);
          const response = await subject.ask(parseCall(call.domain ?? domain, call.ask, call.hits));
          expect(renderResponse(response)).toBe(call.response);
          if (call.reset !== undefined) expect(response.statuses[0]?.durationUntilResetSeconds).toBe(call.reset);
          if (call.name !== undefined) expect(response.statuses[0]?.currentLimit?.name).toBe(call.name);
          if (call.headers !== undefined) {
            expect(response.responseHeaders.map(({ key, value }) => `${key}: ${value}`)).toEqual(call.headers);
          }
          if (call.metadata !== undefined) {
            expect(response.dynamicMetadata?.["metadata"] ?? null).toEqual(call.metadata);
          }
        }
      } finally {
        await subject.close();
      }
    });
  });
}
