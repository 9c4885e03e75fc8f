import { assertEquals } from "@std/assert";
import { docSummariesOf } from "../../../dev/tools/_doc_summaries.ts";

const RELATIVE = 'opens with "What": begin with a noun or a verb in the third person';

const CASES: readonly [comment: string, flaw: string | undefined][] = [
  ["/** What is known of a value. */", RELATIVE],
  ["/**\n * What is known.\n *\n * @returns A text.\n */", RELATIVE],
  ["  /** Whatever is thrown. */", undefined],
  ["/** Description of a value. */", undefined],
  ["/** `null` for none. */", undefined],
  ["/** 128 bits of a digest. */", undefined],
  ["/** description of a value. */", "begins with a small letter"],
  ["/** Description of a value */", "does not end with a period"],
  ["/**\n * Description of a value, over\n * two lines.\n */", undefined],
  ["/**\n * Two sentences. The second has no end\n *\n * More.\n */", "does not end with a period"],
];

for (const [comment, flaw] of CASES) {
  Deno.test(`docSummariesOf() judges ${JSON.stringify(comment)}`, () => {
    assertEquals(docSummariesOf(`${comment}\nconst a = 1;`).map((each) => each.flaw), [flaw]);
  });
}

for (const word of ["Who", "How", "Whether", "Where", "When", "Until", "Since", "By", "Within"]) {
  Deno.test(`docSummariesOf() refuses a summary that opens with ${word}`, () => {
    const [summary] = docSummariesOf(`/** ${word} it is. */`);
    assertEquals(summary?.flaw?.startsWith(`opens with "${word}"`), true);
  });
}

Deno.test("docSummariesOf() names the line, of members as well", () => {
  const source = "/** An answer. */\ninterface A {\r\n  /** Its text. */\n  text: string;\n}\n";
  assertEquals(docSummariesOf(source).map(({ line, text }) => [line, text]), [
    [1, "An answer."],
    [3, "Its text."],
  ]);
});

Deno.test("docSummariesOf() passes over other comments, and over tags without a summary", () => {
  assertEquals(docSummariesOf("/* What. */\n// What.\n/** @param a The text. */\n"), []);
});
