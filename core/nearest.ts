/** Most letters that may be wrong in a word for a suggestion. */
const MAX_DISTANCE = 2;

/**
 * Finds the known word that is probably meant by an unknown one: it begins with that, or has a letter or two that differ.
 *
 * @param word The unknown word.
 * @param words The known words.
 * @returns The word; undefined if none is near.
 */
export function nearestOf(word: string, words: readonly string[]): string | undefined {
  const [first] = words
    .map((each) => ({ each, distance: each.startsWith(word) ? 0 : distanceOf(word, each) }))
    .filter(({ distance, each }) => distance <= Math.min(MAX_DISTANCE, each.length - 2))
    .sort((a, b) => a.distance - b.distance);
  return first?.each;
}

/** Counts the letters to insert, delete or replace (Levenshtein distance). */
function distanceOf(a: string, b: string): number {
  let row = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const next = [i];
    for (let j = 1; j <= b.length; j++) {
      const replaced = row[j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1);
      next.push(Math.min(replaced, row[j]! + 1, next[j - 1]! + 1));
    }
    row = next;
  }
  return row.at(-1)!;
}
