import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import fc from "fast-check";
import { parseJsonObject } from "../../core/parse_json.ts";
import { MAX_SHOWN_BYTES, viewOf } from "../../console/_json_view.ts";

const view = (text: string) => {
  const { content, ...rest } = viewOf(new TextEncoder().encode(text));
  return { html: String(content), ...rest };
};

const UNESCAPED: Record<string, string> = { amp: "&", lt: "<", gt: ">", quot: '"', "#39": "'" };

/** Reads the text of what is shown. */
const textOf = (html: string) =>
  html.replaceAll(/<[^>]*>/g, "").replaceAll(
    /&(amp|lt|gt|quot|#39);/g,
    (_, name) => UNESCAPED[name]!,
  );

Deno.test("viewOf() shows numbers as they were sent", () => {
  for (const number of ["9007199254740993", "-0", "1.10", "1e400", "12345678901234567890.5"]) {
    assertStringIncludes(view(`{"id":${number}}`).html, `<span class="n">${number}</span>`);
  }
});

Deno.test("viewOf() shows a name that is given twice both times", () => {
  assertEquals(view(`{"a":1,"a":2}`).html.match(/&quot;a&quot;/g)?.length, 2);
});

Deno.test("viewOf() shows any JSON document, and nothing of it as markup", () => {
  fc.assert(fc.property(fc.jsonValue(), fc.string(), (value, text) => {
    const { html, isJson, limit } = view(JSON.stringify([value, text, `<b>${text}`]));
    assert(isJson && limit === undefined);
    assert(!html.includes("<b>"));
    assertEquals(html.match(/<details/g)?.length, html.match(/<\/details>/g)?.length);
  }));
});

Deno.test("viewOf() shows anything else as text", () => {
  for (
    const text of ["", "{", `{"a"}`, "[1,]", "nul", "{}x", `"\n"`, `"\\x"`, "<b>", "01", "[1 2]"]
  ) {
    const { html, isJson } = view(text);
    assert(!isJson, text);
    assertEquals(textOf(html), text.replaceAll("\u0000", "\\u0000"));
  }
});

Deno.test("viewOf() shows the beginning of a long document", () => {
  const long = JSON.stringify(
    Array.from({ length: 1_000 }, (_, i) => ({ text: "x".repeat(200), i })),
  );
  assert(long.length > MAX_SHOWN_BYTES);
  const { html, isJson, limit } = view(long);
  assertEquals([isJson, limit], [true, "131,072 bytes"]);
  assertEquals(html.match(/<details/g)?.length, html.match(/<\/details>/g)?.length);
});

Deno.test("viewOf() shows a document that was cut anywhere", () => {
  const part = JSON.stringify({ a: [1, true, null, 'é\\"', { b: -1.5e3 }], c: {} });
  const tail = `,"z":"${"x".repeat(MAX_SHOWN_BYTES)}"}`;
  for (let pad = 0; pad < part.length + 4; pad++) {
    const filler = `{"pad":"${"x".repeat(MAX_SHOWN_BYTES - 11 - pad)}","p":${part}`;
    assert(view(filler + tail).isJson, String(pad));
  }
});

Deno.test("viewOf() shows the beginning of a string that is cut, wherever", () => {
  const text = String.raw`<b>"\\\n\u00e9`.repeat(MAX_SHOWN_BYTES);
  for (let pad = 0; pad < 24; pad++) {
    const { html, isJson } = view(JSON.stringify({ pad: "x".repeat(pad), text }));
    assert(isJson, String(pad));
    const shown = textOf(html);
    assert(shown.length > 4_000 && shown.includes(JSON.stringify(text).slice(0, 3_900)), shown);
  }
  for (let pad = 0; pad < 24; pad++) {
    const filler = `{"a":"${"x".repeat(MAX_SHOWN_BYTES - 14 - pad)}","b":"`;
    assert(view(`${filler}${String.raw`\u00e9\\`.repeat(99)}`).isJson, String(pad));
  }
});

Deno.test("viewOf() shows all levels and a byte order mark that an intake accepts", () => {
  for (const text of [`${'{"a":'.repeat(64)}1${"}".repeat(64)}`, '\ufeff{"a":1}']) {
    parseJsonObject(new TextEncoder().encode(text));
    const { isJson, limit } = view(text);
    assertEquals([isJson, limit], [true, undefined]);
  }
});

Deno.test("viewOf() bounds what a document can cost", () => {
  const deep = view("[".repeat(60_000) + "]".repeat(60_000));
  assertEquals(deep.limit, "64 levels deep");
  assertEquals(deep.html.match(/…/g)?.length, 1);
  assert(deep.html.length < 20_000);
  const wide = view(`[${"1,".repeat(50_000)}1]`);
  assertEquals(wide.limit, "4,000 values");
  assert(wide.html.length < 300_000);
  const plain = view("x".repeat(200_000));
  assertEquals([plain.isJson, plain.limit], [false, "16,000 characters"]);
  assert(plain.html.length < 20_000);
});

Deno.test("viewOf() shows characters that would hide or reorder others", () => {
  const { html } = view(JSON.stringify({ "a\u202eb": "\u0000\u200b\ufeff" }));
  assertStringIncludes(html, "a\\u202eb");
  assert(!/[\u202e\u200b\ufeff]/.test(html));
});
