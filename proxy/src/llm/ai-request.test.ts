import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AiRequestRules, aiRequestNames, bodyNeeded, mayBeginObject, prepareAiRequest } from "./ai-request.ts";
import { maxRepeats, readJson } from "./request-json.ts";

const openai: AiRequestRules = { rejectsDeferred: false, inspectsBody: false };
const withModel: AiRequestRules = { model: "gpt-mock-1", rejectsDeferred: false, inspectsBody: false };
const rejecting: AiRequestRules = { rejectsDeferred: true, inspectsBody: false };
const chat = "/v1/chat/completions";

function prepared(body: string, ai = openai, path = chat) {
  const request = prepareAiRequest(ai, path, readJson(Buffer.from(body), aiRequestNames));
  return typeof request === "string" ? request : { ...request, body: request.body.toString() };
}

describe("prepareAiRequest", () => {
  test.each([
    ["no options", '{"stream":true}', '{"stream":true,"stream_options":{"include_usage":true}}'],
    ["white space", '{\n  "stream": true\n}\n', '{\n  "stream": true\n,"stream_options":{"include_usage":true}}\n'],
    [
      "options that are null",
      '{"stream_options": null ,"stream":true}',
      '{"stream_options": {"include_usage":true} ,"stream":true}',
    ],
    [
      "empty options",
      '{"stream":true,"stream_options":{ }}',
      '{"stream":true,"stream_options":{ "include_usage":true}}',
    ],
    ...["[]", '""', "0", "false", '"x"', '[{"include_usage":true}]'].map((options) => [
      `options that are ${options}`,
      `{"stream":true,"stream_options": ${options} }`,
      '{"stream":true,"stream_options": {"include_usage":true} }',
    ]),
    [
      "other options",
      '{"stream_options":{"x":[1]},"stream":true}',
      '{"stream_options":{"x":[1],"include_usage":true},"stream":true}',
    ],
    [
      "a client that does not want it",
      '{"stream_options": {"include_usage" : false}, "stream":true}',
      '{"stream_options": {"include_usage" : true}, "stream":true}',
    ],
    [
      "a name written with escapes",
      String.raw`{"str\u0065am":true}`,
      String.raw`{"str\u0065am":true,"stream_options":{"include_usage":true}}`,
    ],
  ])("requests the usage of a stream: %s", (_name, body, expected) => {
    expect(prepared(body)).toEqual({ body: expected, requestsUsage: true });
  });

  test.each([
    ["the client requests it", '{"stream":true,"stream_options":{"include_usage":true}}'],
    ["it is not a stream", '{"stream":false}'],
    ["it does not mention a stream", "{}"],
    ["the stream is in a message", '{"messages":[{"stream":true}]}'],
    ["stream is null", '{"stream":null}'],
  ])("requests nothing if %s", (_name, body) => {
    expect(prepared(body)).toMatchObject({ body, requestsUsage: false });
  });

  const utf16 = Buffer.from('{"stream":true}', "utf16le");
  test.each([
    ["is empty", Buffer.from("")],
    ["is not an object", Buffer.from('[{"stream":true}]')],
    ["is incomplete", Buffer.from('{"stream":true')],
    ["is JSON to lenient readers only", Buffer.from('{"stream":true,}')],
    ["is not UTF-8", Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')])],
    ["is followed by other text", Buffer.from('{"stream":true}{}')],
    ["is in UTF-16, little-endian", utf16],
    ["is in UTF-16, big-endian", Buffer.from(utf16).swap16()],
  ])("rejects a body that %s", (_name, body) => {
    expect(prepareAiRequest(withModel, chat, readJson(body, aiRequestNames))).toBe("notObject");
  });

  test.each(["model", "MODEL", "mod\\u0065l", "stream", "stream_options", "models"])(
    "rejects a body that repeats %s too often",
    (name) => {
      const members = (count: number) => `{${Array.from({ length: count }, () => `"${name}":null`).join(",")}}`;
      expect(prepared(members(maxRepeats))).toHaveProperty("body");
      expect(prepared(members(maxRepeats + 1))).toBe("repeated");
      expect(prepared(`{"messages":[${members(100)}]}`)).toHaveProperty("body");
    },
  );

  test("counts the spellings of a name, and all options, together", () => {
    const half = '"include_usage":1,"Include_Usage":1,"include\\u005fusage":1';
    expect(prepared(`{"stream":true,"stream_options":{${half},${half}}}`)).toHaveProperty("body");
    expect(prepared(`{"stream_options":{${half}},"stream_options":{${half}},"stream_options":{${half}}}`)).toBe(
      "repeated",
    );
  });

  test.each([
    ["a byte order mark", '\ufeff{"stream":true}', '\ufeff{"stream":true,"stream_options":{"include_usage":true}}'],
    ["another case", '{"STREAM":true}', '{"STREAM":true,"stream_options":{"include_usage":true}}'],
    [
      "a letter that folds to s",
      '{"\u017ftream":true}',
      '{"\u017ftream":true,"stream_options":{"include_usage":true}}',
    ],
    ["text for a boolean", '{"stream":"true"}', '{"stream":"true","stream_options":{"include_usage":true}}'],
    [
      "two words on it",
      '{"stream":true,"stream":false}',
      '{"stream":true,"stream":false,"stream_options":{"include_usage":true}}',
    ],
    [
      "options twice",
      '{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":false}}',
      '{"stream":true,"stream_options":{"include_usage":true},"stream_options":{"include_usage":true}}',
    ],
    [
      "options in another case",
      '{"stream":true,"stream_options":{"include_usage":true,"Include_Usage":false}}',
      '{"stream":true,"stream_options":{"include_usage":true,"Include_Usage":true}}',
    ],
  ])("requests the usage from tolerant servers too: %s", (_name, body, expected) => {
    expect(prepared(body)).toMatchObject({ body: expected, requestsUsage: true });
  });

  test("requests the usage only at a path that may be of completions", () => {
    const body = '{"stream":true}';
    expect(prepared(body, openai, "/v1/Chat%2FCompletions;x=1/?x=1")).toHaveProperty("requestsUsage", true);
    for (const path of ["/v1/responses", "/v1/messages?x=/chat/completions"]) {
      expect(prepared(body, openai, path)).toHaveProperty("requestsUsage", false);
    }
  });

  test("returns the same bytes if no edit is necessary", () => {
    const body = Buffer.from('{"model":"x"}');
    expect(prepareAiRequest(openai, chat, readJson(body, aiRequestNames))).toHaveProperty("body", body);
  });

  test.each([
    ["at the same position", '{"a":1, "model" : "ü" ,"b":2}', '{"a":1, "model" : "gpt-mock-1" ,"b":2}'],
    ["for each occurrence", '{"model":"a","model":{"b":1}}', '{"model":"gpt-mock-1","model":"gpt-mock-1"}'],
    ["in every case", '{"Model":"a","model":"b"}', '{"Model":"gpt-mock-1","model":"gpt-mock-1"}'],
    ["if there was none", '{"input":[{"model":"x"}]}', '{"input":[{"model":"x"}],"model":"gpt-mock-1"}'],
    ["in an empty object", "{}", '{"model":"gpt-mock-1"}'],
  ])("sets the prescribed model %s", (_name, body, expected) => {
    expect(prepared(body, withModel, "/v1/embeddings")).toEqual({ body: expected, requestsUsage: false });
  });

  test("sets the model and requests the usage together", () => {
    expect(prepared('{"stream":true}', withModel)).toHaveProperty(
      "body",
      '{"stream":true,"model":"gpt-mock-1","stream_options":{"include_usage":true}}',
    );
  });

  test.each(["models", "Fallbacks", "extra_body"])("rejects a body with %s if a model is prescribed", (name) => {
    const body = JSON.stringify({ [name]: [] });
    expect(prepared(body, withModel)).toBe("alternatives");
    expect(prepared(body)).toHaveProperty("body", body);
  });

  test("changes only the edited members of any body", () => {
    const body = fc.record({
      rest: fc.dictionary(fc.string({ unit: "binary" }), fc.jsonValue()),
      model: fc.option(fc.string({ unit: "binary" }), { nil: undefined }),
      stream_options: fc.option(fc.dictionary(fc.constantFrom("include_usage", "x"), fc.boolean()), { nil: undefined }),
    });
    fc.assert(
      fc.property(body, fc.boolean(), ({ rest, ...named }, indented) => {
        const given = { ...rest, ...named, stream: true };
        const request = prepared(JSON.stringify(given, undefined, indented ? 2 : 0), withModel);
        if (typeof request === "string") throw new Error(request);
        expect(JSON.parse(request.body)).toEqual({
          ...(JSON.parse(JSON.stringify(given)) as object),
          model: "gpt-mock-1",
          stream_options: { ...named.stream_options, include_usage: true },
        });
        expect(request.requestsUsage).toBe(named.stream_options?.["include_usage"] !== true);
      }),
    );
  });
});

describe("bodyNeeded", () => {
  const inspecting: AiRequestRules = { rejectsDeferred: false, inspectsBody: true };
  test.each<[string, AiRequestRules, string, string]>([
    ["a completion", openai, chat, "all"],
    ["each request with a prescribed model", withModel, "/v1/embeddings", "all"],
    ["a request that may be in the background", rejecting, "/v1/responses", "all"],
    ["an endpoint without such work", rejecting, "/v1/embeddings", "none"],
    ["a path that does not decide", inspecting, "/invocations", "object"],
    ["a path with escapes", inspecting, "/v1%2Fmessages", "object"],
    ["an API whose streams report their usage", inspecting, "/v1/messages", "none"],
    ["an endpoint that generates nothing", inspecting, "/v1/files", "none"],
    ["any path without a token limit", openai, "/invocations", "none"],
  ])("of %s", (_what, rules, path, needed) => {
    expect(bodyNeeded(rules, path)).toBe(needed);
  });

  test.each(["{", " \n{", "\ufeff{", "\u0000{", "// x", "", "   "])("accepts %j as the start of an object", (start) => {
    expect(mayBeginObject(Buffer.from(start))).toBe(true);
    expect(mayBeginObject(Buffer.from(start, "utf16le"))).toBe(true);
  });

  test.each(["--x\r\n", "a=b", "[{", '"', "not JSON", "\u001f\u008b"])(
    "does not accept %j as the start of an object",
    (start) => {
      expect(mayBeginObject(Buffer.from(start, "latin1"))).toBe(false);
    },
  );
});

describe("at a path that does not decide", () => {
  const inspecting: AiRequestRules = { rejectsDeferred: true, inspectsBody: true };
  test.each(["messages", "prompt", "prompt_embeds", "Messages"])(
    "the usage of a stream with %s is requested",
    (name) => {
      const body = `{"${name}":[],"stream":true}`;
      expect(prepared(body, inspecting, "/invocations")).toMatchObject({ requestsUsage: true });
      expect(prepared(body, inspecting, "/v1/messages")).toEqual({ body, requestsUsage: false });
    },
  );

  test("another stream stays unchanged", () => {
    const body = '{"inputs":"x","stream":true}';
    expect(prepared(body, inspecting, "/x")).toEqual({ body, requestsUsage: false });
  });

  test("work in the background is rejected", () => {
    expect(prepared('{"background":true}', inspecting, "/v1/agents/x/invocations")).toBe("deferred");
    expect(prepared('{"background":"transparent"}', inspecting, "/v1/images/generations")).toMatchObject({
      requestsUsage: false,
    });
  });
});

describe("a model name that does not select a model", () => {
  test.each([
    '"messages":[{"content":[{"type":"tool_use","input":{"model":"x"}}]}]',
    '"tools":[{"type":"function","function":{"parameters":{"type":"object","properties":{"model":{"type":"string"}}}}}]',
    '"tools":[{"input_schema":{"$defs":{"model":{}}}}]',
    '"toolConfig":{"tools":[{"toolSpec":{"inputSchema":{"json":{"model":1}}}}]}',
    '"response_format":{"json_schema":{"schema":{"properties":{"car_model":{}}}}}',
    '"contents":[{"parts":[{"functionCall":{"args":{"model":"x"}}}]}]',
    '"input":[{"type":"message","model":"x"}]',
    '"metadata":{"model":"x"}',
    '"requests":[{"model":"models/gpt-mock-1","content":{"model":"x"}},{"model":"gpt-mock-1"}]',
    '"provider":{"allow_fallbacks":true}',
  ])("%s", (member) => {
    const rules: AiRequestRules = { ...withModel, inspectsBody: true };
    expect(prepared(`{"model":"m",${member}}`, rules)).toMatchObject({ body: `{"model":"gpt-mock-1",${member}}` });
  });
});

describe("a member that selects a model other than the prescribed one", () => {
  test.each([
    '"context_window_fallbacks":[]',
    '"content_policy_fallbacks":[]',
    '"Mock_Testing_Fallbacks":true',
    '"model_list":[]',
    '"user_config":{}',
    '"providerOptions":{"gateway":{"models":["x"]}}',
    '"router_settings_override":{}',
    '"preset":"x"',
    '"agent":"x"',
    '"lora_path":"x"',
    '"tools":[{"type":"a"},{"type":"advisor","model":"x"}]',
    '"plugins":[{"id":"fusion","models":["x"]}]',
    '"tools":{"model":"x"}',
    '"route":"fallback"',
    '"lora":"x"',
    '"tools":[{"retrieval":{"vertexRagStore":{"ranking":{"llmRanker":{"modelName":"x"}}}}}]',
    '"generationConfig":{"routingConfig":{"manualMode":{"ModelName":"x"}}}',
    '"compound_custom":{"models":{"answering_model":"x"}}',
    '"parameters":{"adapter_id":"x"}',
    '"anything":[[{"a":{"m\\u006fdel":"x"}}]]',
    '"requests":[{"model":"models/gpt-mock-1"},{"model":"models/x"}]',
    '"generateContentRequest":{"model":"models/x"}',
    '"input":{"model":"x"}',
  ])("%s", (member) => {
    const rules: AiRequestRules = { ...withModel, inspectsBody: true };
    expect(prepared(`{"model":"m",${member}}`, rules)).toBe("alternatives");
    expect(prepared(`{${member}}`)).toMatchObject({ requestsUsage: false });
  });

  test.each([
    '"tools":[{"type":"function","function":{"parameters":{"properties":{"model":{}}}}}]',
    '"additionalModelRequestFields":{}',
    '"messages":[{"role":"user","model":"x"}]',
    '"modalities":["text"]',
  ])("not %s", (member) => {
    expect(prepared(`{"model":"gpt-mock-1",${member}}`, withModel)).toMatchObject({
      body: `{"model":"gpt-mock-1",${member}}`,
    });
  });
});
