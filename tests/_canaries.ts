const encoder = new TextEncoder();

/** A text as bytes, one for each character: what a file or a socket holds. */
const binary = (bytes: Uint8Array) =>
  Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");

/** Forms of a text in base64 within another one: by where it begins, its edges cut off. */
function base64Forms(bytes: Uint8Array): string[] {
  return [0, 1, 2].map((shift) => {
    const shifted = Uint8Array.from([...Array(shift).fill(0), ...bytes]);
    const whole = shifted.toBase64({ omitPadding: true });
    return whole.slice(shift === 0 ? 0 : shift + 1, -2);
  });
}

/** All that a text can be written as: plain, in base64, hex and URL encoding, in JSON, in UTF-16. */
export function formsOf(text: string): string[] {
  const bytes = encoder.encode(text);
  const base64 = base64Forms(bytes);
  const url = encodeURIComponent(text);
  const all = [
    ...[text, JSON.stringify(text).slice(1, -1), binary(bytes)],
    ...base64,
    ...base64.map((each) => each.replaceAll("+", "-").replaceAll("/", "_")),
    ...[bytes.toHex(), bytes.toHex().toUpperCase()],
    ...[url, url.toLowerCase(), new URLSearchParams([["", text]]).toString().slice(1)],
    [...text].map((character) => `${character}\0`).join(""),
  ];
  return [...new Set(all)];
}

/** Finds which of some texts, by name, stand in another text, in any form. */
export function foundIn(where: string, texts: Readonly<Record<string, string>>): string[] {
  return Object.entries(texts)
    .filter(([, text]) => formsOf(text).some((form) => where.includes(form)))
    .map(([name]) => name);
}

/** Finds which of some texts stand in the files of a folder. */
export async function foundInFolder(
  folder: string,
  texts: Readonly<Record<string, string>>,
): Promise<string[]> {
  const found: string[] = [];
  for await (const { name } of Deno.readDir(folder)) {
    const content = binary(await Deno.readFile(`${folder}/${name}`));
    found.push(...foundIn(content, texts).map((each) => `${each} in ${name}`));
  }
  return found;
}
