/** Words that open a summary with a clause, where a noun or a verb should stand. */
const RELATIVE = new RegExp(
  "^(?:What|Who|Whose|How|Whether|Where|When|Which|That|Why|If|Until|Since|Before|After|By|For|From|" +
    "With|Without|Under|Within)\\b",
);

/** Doc comment that stands on lines of its own. */
const DOC_COMMENT = /^[ \t]*\/\*\*((?:[^*]|\*(?!\/))*)\*\//gm;

/** Summary of a doc comment, with its place. */
export interface DocSummary {
  /** Line on which the comment begins, from 1. */
  readonly line: number;
  /** First paragraph of the comment. */
  readonly text: string;
  /** Rule that the summary breaks; undefined if it keeps them all. */
  readonly flaw: string | undefined;
}

/**
 * Finds the summaries of all doc comments in a file, public or not. A comment that holds only tags has
 * none.
 *
 * @param source The file's text.
 * @returns The summaries, in the order of the file.
 */
export function docSummariesOf(source: string): DocSummary[] {
  const unix = source.replaceAll("\r\n", "\n");
  return [...unix.matchAll(DOC_COMMENT)].flatMap((match) => {
    const text = summaryOf(match[1]!);
    const line = unix.slice(0, match.index).split("\n").length;
    return text === "" ? [] : [{ line, text, flaw: flawOf(text) }];
  });
}

/** Takes the first paragraph of a comment, up to a blank line, a tag, a list or a code block. */
function summaryOf(comment: string): string {
  const lines = comment.split("\n").map((line) => line.trim().replace(/^\*\s?/, "").trim());
  const first = lines.findIndex((line) => line !== "");
  const rest = lines.slice(Math.max(first, 0));
  const end = rest.findIndex((line) => /^(?:$|@|- |```)/.test(line));
  return rest.slice(0, end < 0 ? rest.length : end).join(" ");
}

function flawOf(summary: string): string | undefined {
  const [relative] = RELATIVE.exec(summary) ?? [];
  if (relative) return `opens with "${relative}": begin with a noun or a verb in the third person`;
  if (/^\p{Ll}/u.test(summary)) return "begins with a small letter";
  return summary.endsWith(".") ? undefined : "does not end with a period";
}
