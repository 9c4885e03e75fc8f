/** A tar archive is made of blocks of this size: a header for each file, then its bytes. */
const BLOCK = 512;

/** Places of the fields in a header. */
const [NAME, SIZE, TYPE, PREFIX] = [[0, 100], [124, 136], [156, 157], [345, 500]] as const;

const decoder = new TextDecoder();

/**
 * Reads the files of a tar archive.
 *
 * @param archive The archive, uncompressed.
 * @returns The files by their paths, which begin with a slash.
 */
export function readTar(archive: Uint8Array<ArrayBuffer>): Map<string, Uint8Array<ArrayBuffer>> {
  const files = new Map<string, Uint8Array<ArrayBuffer>>();
  for (let at = 0; at + BLOCK <= archive.length;) {
    const header = archive.subarray(at, at + BLOCK);
    const text = ([from, to]: readonly [number, number]) =>
      decoder.decode(header.subarray(from, to)).split("\0", 1)[0]!;
    const name = text(NAME);
    if (name === "") break;
    const size = parseInt(text(SIZE), 8);
    const start = at + BLOCK;
    const path = [text(PREFIX), name].filter((part) => part !== "").join("/").replace(/^\.?\//, "");
    if ("0".includes(text(TYPE))) files.set(`/${path}`, archive.slice(start, start + size));
    at = start + Math.ceil(size / BLOCK) * BLOCK;
  }
  return files;
}
