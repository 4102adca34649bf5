/**
 * Reads the usage in the events of a server of OpenAI's realtime API, or of its responses API, over WebSocket. Each
 * message is one event: `response.done` has the usage of a response, `response.completed` and the like in the responses
 * API, and `conversation.item.input_audio_transcription.completed` that of a transcription
 * (https://platform.openai.com/docs/api-reference/realtime-server-events), `transcription.done` in vLLM and at Mistral.
 */
import type { TokenUsage } from "../ir/usage.ts";
import { tokensOfText } from "./estimate.ts";
import { JsonMembers, type Member, memberPaths } from "./json-members.ts";
import { maxTokens, UsageTally } from "./usage.ts";
import type { MessageSink } from "./web-socket-frames.ts";

const paths = memberPaths(
  ...["type", "delta", "usage", "transcript", "text", "item_id"],
  ...["response.usage", "response.model", "session.model"],
);

/** Events that end a response, with its usage in `response.usage`. */
const endsOfResponse: ReadonlySet<unknown> = new Set([
  "response.done",
  "response.completed",
  "response.incomplete",
  "response.failed",
  "response.cancelled",
]);
const transcriptionEnds: ReadonlySet<unknown> = new Set([
  "conversation.item.input_audio_transcription.completed",
  "transcription.done",
]);
const failedTranscription = "conversation.item.input_audio_transcription.failed";
/** Parts of a transcription: `…input_audio_transcription.delta`, `transcription.delta`, `transcription.text.delta`. */
const transcriptionPart = /\btranscription\.(?:text\.)?delta$|_transcription\.delta$/;

/** Transcriptions that are distinguished. */
const maxTranscriptions = 100;
/** Tokens of text of a transcription that are charged before its end, which may never come. */
const tokensAtOnce = 1_000;

/** A transcription that has begun and not ended. */
interface Transcription {
  /** Bytes of its text that are not charged. */
  bytes: number;
  /** Tokens that are charged. */
  input: number;
  output: number;
}

/**
 * Base64 characters of an audio delta for each token of the output: a token is 50 ms, of 24,000 samples a second with
 * two bytes each (OpenAI, "Managing realtime costs").
 */
const audioCharactersPerToken = 3_200;

/** As `audioCharactersPerToken`, for the input: a token is 100 ms. */
const inputAudioCharactersPerToken = 6_400;
const inputTokensPerSecond = 10;

/** No server makes so many responses of a session at once. Beyond it, a few bytes would cost a whole input each. */
const maxSureResponses = 100;

const inputPaths = memberPaths("type", "audio", "model", "session.model", "response.model");

/**
 * Reads the events of a client. Estimates the input in them: bytes of text ÷ 4, and the audio of
 * `input_audio_buffer.append` by its duration.
 */
export class RealtimeInput implements MessageSink {
  /** That events may name; undefined: any. */
  models: ReadonlySet<string> | undefined;
  #event: JsonMembers | undefined;
  #audioCharacters = 0;
  #untranscribedCharacters = 0;
  #textBytes = 0;
  #eventAudio = 0;
  #requestsResponse = false;
  /** Responses that were requested, and that the server has neither begun nor rejected. */
  #awaited = 0;
  /** Events of which any may be the one that an error rejects, beside the requests of responses. */
  #otherEvents = 0;
  /** Errors that may have rejected a request. */
  #rejections = 0;
  #namesOtherModel = false;

  /** The tokens since the last `reset`. */
  get tokens(): number {
    return tokensOfText(this.#textBytes) + Math.ceil(this.#audioCharacters / inputAudioCharactersPerToken);
  }

  /** Whether the client has requested a response, and the server has not begun or rejected it. */
  get awaitsResponse(): boolean {
    return this.#awaited > 0;
  }

  /** The number of requested responses of which nothing suggests that the server has rejected them, up to a maximum. */
  get sureResponses(): number {
    return Math.min(maxSureResponses, Math.max(0, this.#awaited - this.#rejections));
  }

  /** Whether an event names another model than those that events may name. It is known before the event has ended. */
  get namesOtherModel(): boolean {
    return this.#namesOtherModel;
  }

  /** The input so far has been reported. */
  reset(): void {
    this.#audioCharacters = 0;
    this.#textBytes = 0;
  }

  /** The server has begun or rejected a response. Others may be requested: a server makes them at once or in turn. */
  onResponse(): void {
    this.#awaited = Math.max(0, this.#awaited - 1);
    if (this.#awaited === 0) this.forgetRequests();
  }

  /** No response is awaited any more. */
  forgetRequests(): void {
    this.#awaited = 0;
    this.#otherEvents = 0;
    this.#rejections = 0;
  }

  /** The server has rejected an event. A client may have sent one for that, beside its request of a response. */
  onError(): void {
    if (this.#otherEvents === 0) {
      this.onResponse();
    } else {
      this.#otherEvents--;
      this.#rejections++;
    }
  }

  /** Returns the tokens of the audio since the last call, which the server has transcribed. */
  takeTranscribed(): number {
    const tokens = Math.ceil(this.#untranscribedCharacters / inputAudioCharactersPerToken);
    this.#untranscribedCharacters = 0;
    return tokens;
  }

  onPayload(part: Buffer): void {
    this.#event ??= new JsonMembers(inputPaths, (member) => this.#report(member));
    this.#event.push(part);
  }

  #report({ path, value, after, valueStart }: Member): void {
    if (path === "audio") {
      this.#eventAudio = after - valueStart;
    } else if (path === "type") {
      // A repeated member may be read as any of its values, and one that is too long to be kept has an unknown value.
      this.#requestsResponse ||= value === undefined || parsed(value) === "response.create";
    } else if (this.models !== undefined) {
      const model = parsed(value);
      this.#namesOtherModel ||= model !== null && !(typeof model === "string" && this.models.has(model));
    }
  }

  onMessageEnd(): void {
    this.#audioCharacters += this.#eventAudio;
    this.#untranscribedCharacters += this.#eventAudio;
    this.#textBytes += Math.max(0, (this.#event?.textBytes ?? 0) - this.#eventAudio);
    // An event with another model does not reach the server.
    if (this.#requestsResponse && !this.#namesOtherModel) this.#awaited++;
    else this.#otherEvents++;
    this.#event = undefined;
    this.#eventAudio = 0;
    this.#requestsResponse = false;
  }
}

/** The reader of the events of one session. `onUsage` is called with the usage of each response. No method throws. */
export class RealtimeUsage implements MessageSink {
  readonly #input: RealtimeInput;
  readonly #onUsage: (usage: TokenUsage) => void;
  #event: JsonMembers | undefined;
  #type: unknown;
  #deltaBytes = 0;
  #usage: unknown;
  #eventUsage: unknown;
  #transcriptBytes = 0;
  #item: unknown;
  #model: unknown;
  #openResponses = 0;
  /** Of the responses that have begun and not ended. */
  #openTextBytes = 0;
  #openAudioCharacters = 0;
  /** By their item. */
  readonly #transcriptions = new Map<string, Transcription>();
  /** The input of the last response: the conversation, which is the input of the next one. */
  #lastInput = 0;

  /** @param input what the client sends, for an estimate. */
  constructor(input: RealtimeInput, onUsage: (usage: TokenUsage) => void) {
    this.#input = input;
    this.#onUsage = onUsage;
  }

  /** Whether a response or a transcription was requested or has begun, and its usage has not been read. */
  get hasOpenResponse(): boolean {
    return this.#begunResponses > 0 || this.#input.awaitsResponse || this.#transcriptions.size > 0;
  }

  /** Not every server says that a response begins: its text or its audio does. */
  get #begunResponses(): number {
    return Math.max(this.#openResponses, this.#openTextBytes + this.#openAudioCharacters > 0 ? 1 : 0);
  }

  onPayload(part: Buffer): void {
    this.#event ??= new JsonMembers(paths, (member) => this.#report(member));
    this.#event.push(part);
  }

  #report({ path, value, after, valueStart }: Member): void {
    switch (path) {
      case "type":
        this.#type = parsed(value);
        break;
      case "delta":
        this.#deltaBytes = after - valueStart;
        break;
      case "usage":
        this.#eventUsage = parsed(value);
        break;
      case "transcript":
      case "text":
        this.#transcriptBytes = after - valueStart;
        break;
      case "item_id":
        this.#item = parsed(value);
        break;
      case "response.usage":
        this.#usage = parsed(value);
        break;
      default:
        this.#model = parsed(value) ?? this.#model;
    }
  }

  onMessageEnd(): void {
    const type = this.#type;
    if (type === "error") this.#input.onError();
    if (type === "response.created") this.#beginResponse();
    else if (endsOfResponse.has(type)) this.#endResponse();
    else if (transcriptionEnds.has(type)) this.#endTranscription();
    else if (type === failedTranscription) this.#failTranscription();
    else if (type === "session.closed") this.end();
    else if (typeof type === "string" && type.endsWith(".delta")) this.#addDelta(type);
    this.#event = undefined;
    this.#type = undefined;
    this.#usage = undefined;
    this.#eventUsage = undefined;
    this.#transcriptBytes = 0;
    this.#deltaBytes = 0;
    this.#item = undefined;
  }

  #beginResponse(): void {
    this.#input.onResponse();
    this.#openResponses++;
  }

  #endResponse(): void {
    const usage = this.#charge(this.#usage);
    if (usage === undefined) this.#chargeEstimate(1);
    else this.#lastInput = usage.input ?? this.#lastInput;
    // It is a part of the next input that is reported.
    this.#input.reset();
    // Not every server says that a response begins.
    if (this.#openResponses === 0) this.#input.onResponse();
    this.#openResponses = Math.max(0, this.#openResponses - 1);
    this.#openTextBytes = 0;
    this.#openAudioCharacters = 0;
  }

  /** A transcription that is billed by its duration reports no tokens. It costs its audio, and its text. */
  #endTranscription(): void {
    const { input: paidInput, output: paidOutput } = this.#takeTranscription() ?? { input: 0, output: 0 };
    const sent = this.#input.takeTranscribed();
    const usage = this.#reported(this.#eventUsage);
    const hasPaid = paidInput + paidOutput > 0;
    if (usage !== undefined && usage.total > 0) {
      const input = Math.max(0, (usage.input ?? 0) - paidInput);
      if (hasPaid) this.#chargeTokens(input, Math.max(0, usage.total - paidInput - paidOutput - input));
      else this.#onUsage(usage);
      return;
    }
    const seconds = secondsOf(this.#eventUsage);
    const input = seconds === undefined ? sent : Math.max(0, Math.ceil(seconds * inputTokensPerSecond) - paidInput);
    this.#chargeTokens(input, Math.max(0, tokensOfText(this.#transcriptBytes) - paidOutput));
  }

  /** The text that the client has got before is charged. */
  #failTranscription(): void {
    const begun = this.#takeTranscription();
    if (begun !== undefined) this.#chargeTokens(this.#input.takeTranscribed(), tokensOfText(begun.bytes));
  }

  #takeTranscription(): Transcription | undefined {
    const key = this.#transcription;
    const begun = this.#transcriptions.get(key);
    this.#transcriptions.delete(key);
    return begun;
  }

  /** @returns undefined if there is no valid report. */
  #charge(report: unknown): TokenUsage | undefined {
    const usage = this.#reported(report);
    if (usage !== undefined && usage.total > 0) this.#onUsage(usage);
    return usage;
  }

  #reported(report: unknown): TokenUsage | undefined {
    const tally = new UsageTally();
    tally.add(report ?? null);
    tally.setModel(this.#model);
    const outcome = tally.reported();
    return outcome.kind === "uncounted" ? undefined : outcome.usage;
  }

  #addDelta(type: string): void {
    const isAudio = type.endsWith("audio.delta");
    if (transcriptionPart.test(type)) {
      this.#addTranscript(this.#deltaBytes + this.#transcriptBytes);
    } else if (type.startsWith("session.")) {
      this.#addTranscript(isAudio ? textOfAudio(this.#deltaBytes) : this.#deltaBytes);
    } else if (isAudio) {
      this.#openAudioCharacters += this.#deltaBytes;
    } else {
      this.#openTextBytes += this.#deltaBytes;
    }
  }

  /** Also of a translation (`session.output_audio.delta`, `session.output_transcript.delta`), which has no report. */
  #addTranscript(bytes: number): void {
    if (bytes === 0) return;
    const key = this.#transcription;
    const begun = this.#transcriptions.get(key) ?? { bytes: 0, input: 0, output: 0 };
    this.#transcriptions.set(key, begun);
    begun.bytes += bytes;
    const output = tokensOfText(begun.bytes);
    if (output < tokensAtOnce) return;
    const input = this.#input.takeTranscribed();
    begun.bytes = 0;
    begun.input += input;
    begun.output += output;
    this.#chargeTokens(input, output);
  }

  /** The key of the transcription of an event. */
  get #transcription(): string {
    const item = typeof this.#item === "string" ? this.#item : "";
    return this.#transcriptions.has(item) || this.#transcriptions.size < maxTranscriptions ? item : "";
  }

  /** Charges an estimate of all whose usage will not be read, since the session has been interrupted. */
  end(): void {
    if (this.#transcriptions.size > 0) {
      const bytes = this.#transcriptions.values().reduce((sum, begun) => sum + begun.bytes, 0);
      this.#transcriptions.clear();
      this.#chargeTokens(this.#input.takeTranscribed(), tokensOfText(bytes));
    }
    const responses = this.#begunResponses + this.#input.sureResponses;
    if (responses > 0) this.#chargeEstimate(responses);
    this.#openResponses = 0;
    this.#openTextBytes = 0;
    this.#openAudioCharacters = 0;
    this.#input.forgetRequests();
  }

  /** @param responses each of which has the conversation as its input. */
  #chargeEstimate(responses: number): void {
    const output = tokensOfText(this.#openTextBytes) + Math.ceil(this.#openAudioCharacters / audioCharactersPerToken);
    this.#chargeTokens((this.#lastInput + this.#input.tokens) * responses, output);
  }

  #chargeTokens(input: number, output: number): void {
    const tally = new UsageTally();
    tally.setModel(this.#model);
    const outcome = tally.estimated(Math.min(maxTokens, input), Math.min(maxTokens, output));
    if (outcome.kind === "counted" && outcome.usage.total > 0) this.#onUsage(outcome.usage);
  }
}

/** Returns the bytes of text that cost as much as base64 characters of audio. */
function textOfAudio(characters: number): number {
  return Math.ceil((characters / audioCharactersPerToken) * 4);
}

/** Returns the duration of a transcription, as OpenAI (`seconds`) and Mistral report it; undefined if there is none. */
function secondsOf(usage: unknown): number | undefined {
  if (typeof usage !== "object" || usage === null) return undefined;
  const members = new Map<string, unknown>(Object.entries(usage));
  const seconds = members.get("seconds") ?? members.get("prompt_audio_seconds");
  return typeof seconds === "number" && seconds >= 0 ? seconds : undefined;
}

/** Returns undefined for a value that is not JSON, or that was too long to be kept. */
function parsed(value: Buffer | undefined): unknown {
  if (value === undefined) return undefined;
  try {
    return JSON.parse(value.toString()) as unknown;
  } catch {
    return undefined;
  }
}
