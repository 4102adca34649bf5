/** A request for the test of a single stage. It records the calls of the stage in their order. */
import { FakeClock } from "@gatewayproxy/runtime/testing/fake-clock";
import { compileFilters } from "../../filters/compile-filters.ts";
import type { Connection } from "../../listen/connection.ts";
import { EndedRequests } from "../../listen/connection.ts";
import { OutputMeans } from "../output-means.ts";
import type { RequestHead } from "../../listen/request-head.ts";
import { compileLimits } from "../../policy/ratelimit/local-limiter.ts";
import { freshTable, request as view } from "../../policy/ratelimit/testing/local-limits.ts";
import { recordOf } from "../../telemetry/testing/records.ts";
import { AbandonedResponses, defaultAbandonedResponses } from "../attempts/abandoned-responses.ts";
import { BodyBudget, createBodyMemory, defaultBodyMemoryBytes } from "../body/body-budget.ts";
import type { RequestBody } from "../body/request-body.ts";
import type { CompiledRule, CompiledTarget } from "../compiled-rule.ts";
import { copiesOf } from "../copy-memory.ts";
import type { Stage, StagedRequest, StageResult, Wait } from "../stage.ts";

/** What a test changes of a GET of `/items` that the rule `default/shop/0` serves without filters and limits. */
export interface RequestShape {
  readonly head?: Partial<RequestHead>;
  readonly rule?: Partial<CompiledRule>;
  readonly body?: RequestBody;
}

/** Returns a rule without filters, limits and targets. */
export function ruleOf(shape: Partial<CompiledRule> = {}): CompiledRule {
  return {
    route: "default/shop",
    key: "default/shop/0",
    gateway: "default/public",
    loopName: "gateway-proxy-0",
    mirrors: false,
    limits: compileLimits([], freshTable()),
    authentication: undefined,
    globalLimits: undefined,
    countsTokens: false,
    reserves: false,
    hasPrices: false,
    requiresPrice: false,
    usageChunk: undefined,
    isClosed: false,
    cors: undefined,
    queryNames: new Set(),
    readsPath: false,
    timeouts: undefined,
    retry: undefined,
    redirect: undefined,
    provider: undefined,
    pick: () => undefined,
    models: undefined,
    ...shape,
  };
}

/** Returns the target of a redirect to `https`. */
export function redirectTarget(): Extract<CompiledTarget, { kind: "redirect" }> {
  const filters = compileFilters([{ kind: "RequestRedirect", scheme: "https", statusCode: 301 }]);
  if (filters.redirect === undefined) throw new Error("the filter redirects");
  return { kind: "redirect", weight: 1, filters, redirect: filters.redirect };
}

/** Runs one stage. `calls` lists what it did, such as `reply RouteNotFound` or `respond 204`. */
export class RecordingRequest implements StagedRequest {
  readonly clock = new FakeClock();
  readonly calls: string[] = [];
  /** Header sections of `respond` and `respondWithCors`. */
  readonly headers: string[][] = [];
  readonly services = {
    listenerPort: 80,
    clock: this.clock,
    random: () => 0,
    abandonedResponses: new AbandonedResponses(this.clock, defaultAbandonedResponses),
    outputMeans: new OutputMeans(),
    copies: copiesOf(new BodyBudget(createBodyMemory(1), 1, defaultBodyMemoryBytes)),
    denied: () => void this.calls.push("denied"),
    mirrored: (backend: string, outcome: string) => void this.calls.push(`mirrored ${backend} ${outcome}`),
  };
  readonly span = undefined;
  readonly record = recordOf({ backend: undefined, endpoint: undefined, attempts: 0, status: 0 });
  readonly trace = undefined;
  readonly match = { path: { kind: "PathPrefix", value: "/" }, headers: [], query: [] } as const;
  readonly startMs = this.clock.monotonicMs();
  readonly client = "192.0.2.7";
  readonly view = view;
  readonly rule: CompiledRule;
  readonly downstream: StagedRequest["downstream"];
  readonly #body: RequestBody | undefined;
  #isOver = false;
  #wait: Wait<unknown> | undefined;

  isQueryAmbiguous = false;
  target: StagedRequest["target"];
  providers: StagedRequest["providers"];
  llm: StagedRequest["llm"];
  identities: StagedRequest["identities"];
  reservation: StagedRequest["reservation"];
  loop = "";
  deadline: StagedRequest["deadline"];
  outgoing: StagedRequest["outgoing"];

  constructor({ head, rule, body }: RequestShape = {}) {
    this.rule = ruleOf(rule);
    this.#body = body;
    const connection: Connection = {
      sourceAddress: "192.0.2.7",
      peer: "192.0.2.7 40000",
      tls: undefined,
      ended: new EndedRequests(),
    };
    this.downstream = {
      connection,
      upgrade: undefined,
      head: {
        method: "GET",
        path: "/items",
        authority: "shop.example.com",
        scheme: "http",
        rawHeaders: ["host", "shop.example.com"],
        ...head,
      },
      exchange: {
        httpVersion: "1.1",
        body: undefined,
        isReceiving: false,
        unreadBytes: 0,
        waitingBytes: 0,
        respond: unexpected,
        forward: unexpected,
        inform: unexpected,
        start: unexpected,
        write: unexpected,
        end: unexpected,
        switchProtocols: unexpected,
        reset: unexpected,
      },
    };
  }

  /** Runs `stage`. */
  run(stage: Stage): StageResult {
    return stage.run(this);
  }

  /** Ends what the stage waits for. @returns the result of the stage; `late` if the request had ended. */
  proceed(value: unknown): StageResult | "late" {
    const wait = this.#wait;
    if (wait === undefined) throw new Error("no stage waits");
    if (!this.#isOver) return wait.proceed(value);
    wait.onLate?.(value);
    return "late";
  }

  /** The request ends while a stage waits. */
  abandon(): void {
    this.#isOver = true;
    this.#wait?.onAbandoned?.();
  }

  takeBody(): RequestBody | undefined {
    this.calls.push("take body");
    return this.#body;
  }

  reply({ reason }: { readonly reason: string }): "responded" {
    this.calls.push(`reply ${reason}`);
    return "responded";
  }

  respond(status: number, headers: string[]): "responded" {
    this.calls.push(`respond ${status}`);
    this.headers.push(headers);
    return "responded";
  }

  respondWithCors(status: number, headers: string[]): "responded" {
    this.calls.push(`respond ${status} with CORS`);
    this.headers.push(headers);
    return "responded";
  }

  wait<Value>(wait: Wait<Value>): StageResult {
    let result: StageResult | undefined;
    let isStarting = true;
    wait.start((value) => {
      if (isStarting) result = wait.proceed(value);
      else throw new Error("the test continues the request by `proceed`");
    });
    isStarting = false;
    if (result !== undefined) return result;
    this.#wait = wait;
    return "waiting";
  }

  abort({ reason }: { readonly reason: string }): void {
    this.calls.push(`abort ${reason}`);
  }

  fault(error: unknown): void {
    throw error;
  }
}

function unexpected(): never {
  throw new Error("a stage responds through its request");
}
