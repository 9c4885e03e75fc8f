/** Which of the secrets or tokens has proved a request, counted from 1 in the order they are given. */
export type ProvedBy = `secret ${number}` | `token ${number}`;

/**
 * Finds the secret that proves a request. All are always tried, so that the time taken does not tell.
 *
 * @typeParam TSecret What stands for a secret.
 * @param secrets The secrets.
 * @param proves Tells whether a secret proves it.
 * @returns The position of the one that does, from 1; 0 if none does.
 */
export function positionOf<TSecret>(
  secrets: readonly TSecret[],
  proves: (secret: TSecret) => boolean,
): number {
  let position = 0;
  for (const [index, secret] of secrets.entries()) {
    if (proves(secret)) position = index + 1;
  }
  return position;
}
