import { raw } from "@hono/hono/html";
import { type Html, number, visible } from "./_format.ts";

// A payload is shown from its bytes, not from what `JSON.parse` makes of them: a number beyond 2^53 would
// be shown as another one, and of a name that is given twice only the last value.

/** Most bytes of a payload that are shown. */
export const MAX_SHOWN_BYTES = 131_072;

/** Most values that are shown. */
const MAX_VALUES = 4_000;

/** Deepest nesting that is shown: no intake accepts a deeper payload. */
const MAX_DEPTH = 64;

/** Longest text that is shown. */
const MAX_TEXT = 4_000;

/** Most characters of a text that is not JSON that are shown. */
const MAX_PLAIN = 16_000;

/** Longest document that is shown with everything unfolded. */
const MAX_UNFOLDED = 6_000;

const NUMBER = /-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?/y;

const ESCAPES: Readonly<Record<string, string>> = {
  ...{ "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" },
};

const escaped = (text: string) => visible(text).replace(/[&<>"']/g, (each) => ESCAPES[each]!);

/** Payload as it is shown. */
export interface PayloadView {
  /** Content. */
  readonly content: Html;
  /** True if it is shown as JSON, and not as plain text. */
  readonly isJson: boolean;
  /** Limit at which it ends, for people, if only the beginning is shown; otherwise undefined. */
  readonly limit: string | undefined;
}

/**
 * Shows a payload.
 *
 * @param bytes The payload.
 * @returns What is shown of it.
 */
export function viewOf(bytes: Uint8Array): PayloadView {
  const isLong = bytes.length > MAX_SHOWN_BYTES;
  const decoder = new TextDecoder("utf-8", { ignoreBOM: true });
  const text = decoder.decode(bytes.subarray(0, MAX_SHOWN_BYTES), { stream: isLong });
  const view = new JsonView(text, isLong);
  const json = view.render();
  if (json !== undefined) return { content: raw(json), isJson: true, limit: view.limit };
  const plain = text.slice(0, MAX_PLAIN);
  return {
    content: raw(`<pre>${escaped(plain)}</pre>`),
    isJson: false,
    limit: plain.length < text.length ? `${number(MAX_PLAIN)} characters` : undefined,
  };
}

/** Rendering of one JSON document, which may end early. */
class JsonView {
  /** Limit that is reached: whatever comes after is left out. */
  limit: string | undefined;
  readonly #text: string;
  readonly #isPart: boolean;
  #at = 0;
  #values = 0;
  #isMarked = false;

  constructor(text: string, isPart: boolean) {
    this.#text = text;
    this.#isPart = isPart;
  }

  get #isCut(): boolean {
    return this.limit !== undefined;
  }

  /** Renders the document; undefined if it is not JSON. */
  render(): string | undefined {
    try {
      // An intake accepts a byte order mark before the document.
      if (this.#text.startsWith("\ufeff")) this.#at = 1;
      const html = this.#value("", 0);
      this.#space();
      return this.#isCut || this.#at === this.#text.length ? html : undefined;
    } catch (error) {
      if (error instanceof SyntaxError) return undefined;
      throw error;
    }
  }

  #value(label: string, depth: number): string {
    this.#space();
    if (++this.#values > MAX_VALUES) this.limit = `${number(MAX_VALUES)} values`;
    else if (depth > MAX_DEPTH) this.limit = `${MAX_DEPTH} levels deep`;
    const first = this.#text[this.#at];
    if (this.#isCut || (first === undefined && this.#ended())) return "";
    if (first === "{" || first === "[") return this.#container(label, depth, first);
    return `<div>${label}${first === '"' ? this.#string() : this.#scalar()}</div>`;
  }

  #container(label: string, depth: number, open: "{" | "["): string {
    const close = open === "{" ? "}" : "]";
    const members: string[] = [];
    this.#at++;
    while (!this.#isCut && this.#next(close, members.length > 0)) {
      const name = open === "{" ? this.#name() : "";
      members.push(this.#value(name, depth + 1));
    }
    if (members.length === 0) return `<div>${label}${open}${this.#isCut ? "…" : close}</div>`;
    const isOpen = depth < 2 || this.#text.length <= MAX_UNFOLDED;
    const count = `<i>${open}${number(members.length)}${this.#isCut ? "+" : ""}${close}</i>`;
    return `<details${isOpen ? " open" : ""}><summary>${label}${count}</summary>` +
      `${members.join("")}${this.#mark()}</details>`;
  }

  /** Marks where the document was cut, once: in the innermost part. */
  #mark(): string {
    if (!this.#isCut || this.#isMarked) return "";
    this.#isMarked = true;
    return "<div>…</div>";
  }

  /** Steps over the comma before the next member, or over the end. */
  #next(close: string, needsComma: boolean): boolean {
    this.#space();
    const character = this.#text[this.#at];
    if (character === undefined) return !this.#ended();
    if (character === close) return this.#at++ < 0;
    if (!needsComma) return true;
    if (character !== ",") throw new SyntaxError("No comma");
    this.#at++;
    return true;
  }

  #name(): string {
    this.#space();
    if (this.#text[this.#at] === undefined && this.#ended()) return "";
    if (this.#text[this.#at] !== '"') throw new SyntaxError("No name");
    const name = this.#string("k");
    this.#space();
    if (this.#text[this.#at] === undefined && this.#ended()) return name;
    if (this.#text[this.#at++] !== ":") throw new SyntaxError("No colon");
    return `${name}: `;
  }

  #string(kind: "k" | "s" = "s"): string {
    const start = this.#at++;
    for (;;) {
      const code = this.#text.charCodeAt(this.#at);
      if (Number.isNaN(code)) {
        this.#ended();
        return `<span class="${kind}">${beginningOf(this.#text.slice(start))}</span>`;
      }
      if (code < 0x20) throw new SyntaxError("A control character");
      this.#at += code === 0x5c ? 2 : 1;
      if (code === 0x22) break;
    }
    return `<span class="${kind}">${shortened(this.#text.slice(start, this.#at))}</span>`;
  }

  #scalar(): string {
    const word = ["true", "false", "null"].find((each) => this.#text.startsWith(each, this.#at));
    NUMBER.lastIndex = this.#at;
    const found = word ?? NUMBER.exec(this.#text)?.[0];
    if (found === undefined) {
      if (this.#isPart && this.#text.length - this.#at < 5) return this.#ended() ? "…" : "";
      throw new SyntaxError("No value");
    }
    this.#at += found.length;
    return `<span class="${word ? "w" : "n"}">${found}</span>`;
  }

  #space(): void {
    while (" \t\n\r".includes(this.#text[this.#at] ?? "x")) this.#at++;
  }

  /** Notes that the text ends here. A document that ends in the middle is not JSON, unless it was cut. */
  #ended(): true {
    if (!this.#isPart) throw new SyntaxError("The end");
    this.#at = this.#text.length;
    this.limit = `${number(MAX_SHOWN_BYTES)} bytes`;
    return true;
  }
}

/** Longest part of an escape, which a cut string may end with: `\\u12f`. */
const MAX_ESCAPE_PART = 5;

/** Shows the beginning of a string of JSON that was cut. */
function beginningOf(source: string): string {
  const part = source.slice(0, MAX_TEXT);
  for (let less = 0;; less++) {
    try {
      const text = JSON.parse(`${part.slice(0, part.length - less)}"`);
      return `${escaped(JSON.stringify(text).slice(0, -1))}…`;
    } catch (error) {
      if (less === Math.min(MAX_ESCAPE_PART, part.length - 1)) throw error;
    }
  }
}

/** Shows a string of JSON: escapes of what can be shown are resolved, and nothing else is changed. */
function shortened(source: string): string {
  // It throws a SyntaxError for escapes that are not valid: then the document is not JSON.
  const text = JSON.stringify(JSON.parse(source));
  const rest = text.length - MAX_TEXT;
  if (rest <= 0) return escaped(text);
  return `${escaped(text.slice(0, MAX_TEXT))}… (${number(rest)} more characters)`;
}
