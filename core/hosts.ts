/** Names and addresses of the machine itself. */
const OWN_HOST = /^(localhost|.*\.localhost|127\.[\d.]+|0\.0\.0\.0|\[::1?\]|\[::ffff:7f.*\])\.?$/;

/** Names and addresses within a network, which nobody outside of it can reach. */
const INNER_HOST =
  /^(10\.[\d.]+|192\.168\.[\d.]+|172\.(1[6-9]|2\d|3[01])\.[\d.]+|169\.254\.[\d.]+|\[f[cde].*\]|[^.[]+|.*\.(local|internal|lan))$/;

/** Checks whether a host, as a URL has it, is this machine. */
export function isOwnHost(hostname: string): boolean {
  return OWN_HOST.test(hostname);
}

/** Checks whether a host, as a URL has it, is in a private network: nobody outside can reach it. */
export function isInnerHost(hostname: string): boolean {
  return INNER_HOST.test(hostname);
}

/** Reads a URL with http or https; undefined for anything else. */
export function httpUrl(text: unknown): URL | undefined {
  const url = typeof text === "string" ? URL.parse(text) : null;
  return url !== null && /^https?:$/.test(url.protocol) ? url : undefined;
}

/** Checks whether a secret may be sent to a URL: over TLS, or within a private network. */
export function keepsSecrets({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || isOwnHost(hostname) || isInnerHost(hostname);
}

/** Checks whether a text may hold a password or a token: it is a URL, or may be one with a typing error. */
export function mayHoldSecrets(text: string): boolean {
  return /@|\/\/[^]/.test(text);
}

/**
 * Removes credentials from a text. Of a URL only the host is shown, and what may hold credentials is not shown at all.
 *
 * @param text The text.
 * @param given What may be quoted in it, such as the arguments of a command line.
 * @param what The words that are shown for these.
 * @returns The text without credentials.
 */
export function withoutCredentials(text: string, given: readonly string[], what: string): string {
  let safe = text;
  for (const each of given.filter(mayHoldSecrets)) safe = safe.replaceAll(each, what);
  return safe.replaceAll(/\w+:\/\/\S+/g, hostOf);
}

function hostOf(url: string): string {
  const { protocol, host } = URL.parse(url) ?? {};
  return host === undefined ? "the URL" : `${protocol}//${host}`;
}
