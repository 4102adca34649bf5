import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { type AiRequestRules, aiRequestNames, bodyNeeded, mayBeginObject, prepareAiRequest } from "./ai-request.ts";
import { maxRepeats, readJson } from "./request-json.ts";

const openai: AiRequestRules = { refusesDeferred: false, judgesBody: false };
const withModel: AiRequestRules = { model: "gpt-mock-1", refusesDeferred: false, judgesBody: false };
const refusing: AiRequestRules = { refusesDeferred: true, judgesBody: false };
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
  ])("asks for the usage of a stream: %s", (_name, body, expected) => {
    expect(prepared(body)).toEqual({ body: expected, asksUsage: true });
  });

  test.each([
    ["the client asks itself", '{"stream":true,"stream_options":{"include_usage":true}}'],
    ["it is no stream", '{"stream":false}'],
    ["it says nothing of a stream", "{}"],
    ["the stream is in a message", '{"messages":[{"stream":true}]}'],
    ["stream is null", '{"stream":null}'],
  ])("asks for nothing when %s", (_name, body) => {
    expect(prepared(body)).toMatchObject({ body, asksUsage: false });
  });

  const utf16 = Buffer.from('{"stream":true}', "utf16le");
  test.each([
    ["is empty", Buffer.from("")],
    ["is no object", Buffer.from('[{"stream":true}]')],
    ["breaks off", Buffer.from('{"stream":true')],
    ["is JSON to lenient readers only", Buffer.from('{"stream":true,}')],
    ["is not UTF-8", Buffer.from([...Buffer.from('{"a":"'), 0xff, ...Buffer.from('"}')])],
    ["is followed by something", Buffer.from('{"stream":true}{}')],
    ["is in UTF-16, little end first", utf16],
    ["is in UTF-16, big end first", Buffer.from(utf16).swap16()],
  ])("makes no request of a body that %s", (_name, body) => {
    expect(prepareAiRequest(withModel, chat, readJson(body, aiRequestNames))).toBe("notObject");
  });

  test.each(["model", "MODEL", "mod\\u0065l", "stream", "stream_options", "models"])(
    "makes no request of a body with %s more often than is accepted",
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
  ])("asks also in the words of tolerant servers: %s", (_name, body, expected) => {
    expect(prepared(body)).toMatchObject({ body: expected, asksUsage: true });
  });

  test("asks only at a path that may be one of completions", () => {
    const body = '{"stream":true}';
    expect(prepared(body, openai, "/v1/Chat%2FCompletions;x=1/?x=1")).toHaveProperty("asksUsage", true);
    for (const path of ["/v1/responses", "/v1/messages?x=/chat/completions"]) {
      expect(prepared(body, openai, path)).toHaveProperty("asksUsage", false);
    }
  });

  test("gives the same bytes back when nothing is to be changed", () => {
    const body = Buffer.from('{"model":"x"}');
    expect(prepareAiRequest(openai, chat, readJson(body, aiRequestNames))).toHaveProperty("body", body);
  });

  test.each([
    ["in its place", '{"a":1, "model" : "ü" ,"b":2}', '{"a":1, "model" : "gpt-mock-1" ,"b":2}'],
    ["as often as it is given", '{"model":"a","model":{"b":1}}', '{"model":"gpt-mock-1","model":"gpt-mock-1"}'],
    ["in every case", '{"Model":"a","model":"b"}', '{"Model":"gpt-mock-1","model":"gpt-mock-1"}'],
    ["where there was none", '{"input":[{"model":"x"}]}', '{"input":[{"model":"x"}],"model":"gpt-mock-1"}'],
    ["in an empty object", "{}", '{"model":"gpt-mock-1"}'],
  ])("puts the prescribed model %s", (_name, body, expected) => {
    expect(prepared(body, withModel, "/v1/embeddings")).toEqual({ body: expected, asksUsage: false });
  });

  test("does both at once", () => {
    expect(prepared('{"stream":true}', withModel)).toHaveProperty(
      "body",
      '{"stream":true,"model":"gpt-mock-1","stream_options":{"include_usage":true}}',
    );
  });

  test.each(["models", "Fallbacks", "extra_body"])(
    "makes no request of a body with %s where a model is prescribed",
    (name) => {
      const body = JSON.stringify({ [name]: [] });
      expect(prepared(body, withModel)).toBe("alternatives");
      expect(prepared(body)).toHaveProperty("body", body);
    },
  );

  test("changes nothing but what it must, for any body", () => {
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
        expect(request.asksUsage).toBe(named.stream_options?.["include_usage"] !== true);
      }),
    );
  });
});

describe("bodyNeeded", () => {
  const judging: AiRequestRules = { refusesDeferred: false, judgesBody: true };
  test.each<[string, AiRequestRules, string, string]>([
    ["a completion", openai, chat, "all"],
    ["every request whose model is prescribed", withModel, "/v1/embeddings", "all"],
    ["what may be in the background", refusing, "/v1/responses", "all"],
    ["an endpoint without such work", refusing, "/v1/embeddings", "none"],
    ["a path that leaves it open", judging, "/invocations", "object"],
    ["a path with escapes", judging, "/v1%2Fmessages", "object"],
    ["an API whose streams tell their usage", judging, "/v1/messages", "none"],
    ["an endpoint that generates nothing", judging, "/v1/files", "none"],
    ["any path where nothing is counted", openai, "/invocations", "none"],
  ])("of %s", (_what, rules, path, needed) => {
    expect(bodyNeeded(rules, path)).toBe(needed);
  });

  test.each(["{", " \n{", "\ufeff{", "\u0000{", "// x", "", "   "])("takes %j for the start of an object", (start) => {
    expect(mayBeginObject(Buffer.from(start))).toBe(true);
    expect(mayBeginObject(Buffer.from(start, "utf16le"))).toBe(true);
  });

  test.each(["--x\r\n", "a=b", "[{", '"', "not JSON", "\u001f\u008b"])("does not take %j for one", (start) => {
    expect(mayBeginObject(Buffer.from(start, "latin1"))).toBe(false);
  });
});

describe("at a path that leaves it open", () => {
  const judging: AiRequestRules = { refusesDeferred: true, judgesBody: true };
  test.each(["messages", "prompt", "prompt_embeds", "Messages"])("a stream of %s asks for its usage", (name) => {
    const body = `{"${name}":[],"stream":true}`;
    expect(prepared(body, judging, "/invocations")).toMatchObject({ asksUsage: true });
    expect(prepared(body, judging, "/v1/messages")).toEqual({ body, asksUsage: false });
  });

  test("a stream of something else stays as it is", () => {
    const body = '{"inputs":"x","stream":true}';
    expect(prepared(body, judging, "/x")).toEqual({ body, asksUsage: false });
  });

  test("work in the background is refused", () => {
    expect(prepared('{"background":true}', judging, "/v1/agents/x/invocations")).toBe("deferred");
    expect(prepared('{"background":"transparent"}', judging, "/v1/images/generations")).toMatchObject({
      asksUsage: false,
    });
  });
});

describe("a name of a model that chooses none", () => {
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
    const rules: AiRequestRules = { ...withModel, judgesBody: true };
    expect(prepared(`{"model":"m",${member}}`, rules)).toMatchObject({ body: `{"model":"gpt-mock-1",${member}}` });
  });
});

describe("a member that chooses another model than the prescribed one", () => {
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
    const rules: AiRequestRules = { ...withModel, judgesBody: true };
    expect(prepared(`{"model":"m",${member}}`, rules)).toBe("alternatives");
    expect(prepared(`{${member}}`)).toMatchObject({ asksUsage: false });
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
