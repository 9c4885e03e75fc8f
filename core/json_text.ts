/**
 * Parts of JSON documents, cut out as they were written. `JSON.parse` changes numbers beyond 2^53, and
 * GitHub's delivery ids are such numbers. All functions take JSON that `JSON.parse` has accepted.
 *
 * @module
 */

/** Cuts out the elements of an array. */
export function elementsOf(json: string): string[] {
  return json.trimStart().startsWith("[") ? partsOf(json) : [];
}

/** Cuts out a member of an object; undefined if there is none. The last of several counts, as for `JSON.parse`. */
export function memberOf(json: string | undefined, name: string): string | undefined {
  if (!json?.trimStart().startsWith("{")) return undefined;
  const parts = partsOf(json);
  for (let i = parts.length - 2; i >= 0; i -= 2) {
    if (JSON.parse(parts[i]!) === name) return parts[i + 1];
  }
  return undefined;
}

/** Cuts out the elements of an array, or the names and values of an object in turn. */
function partsOf(json: string): string[] {
  const parts: string[] = [];
  const structure = /["{}[\],:]/g;
  let start = json.search(/[[{]/) + 1;
  let depth = 0;
  structure.lastIndex = start;
  for (let found; (found = structure.exec(json)) !== null;) {
    const [char] = found;
    const closes = char === "}" || char === "]";
    if (char === '"') structure.lastIndex = endOfString(json, found.index);
    else if (char === "{" || char === "[") depth++;
    else if (depth > 0) depth -= closes ? 1 : 0;
    else {
      const part = json.slice(start, found.index).trim();
      if (part !== "") parts.push(part);
      if (closes) break;
      start = found.index + 1;
    }
  }
  return parts;
}

/** Finds the position after a string. A regular expression for it overflows the stack on long ones. */
function endOfString(json: string, start: number): number {
  let end = json.indexOf('"', start + 1);
  while (isEscaped(json, end)) end = json.indexOf('"', end + 1);
  return end + 1;
}

function isEscaped(json: string, at: number): boolean {
  let backslashes = 0;
  while (json[at - 1 - backslashes] === "\\") backslashes++;
  return backslashes % 2 === 1;
}
