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

/** Checks whether the place of a KV is the URL of a remote one. */
export function isRemoteKv(place: string): boolean {
  return /^https?:\/\//i.test(place);
}

/** Checks whether the place of a KV is a URL with which no KV can be opened. */
export function isOtherUrl(place: string): boolean {
  return /^\w+:\/\//.test(place) && !isRemoteKv(place);
}

/** Checks whether a secret may be sent to a URL: over TLS, or within a private network. */
export function keepsSecrets({ protocol, hostname }: URL): boolean {
  return protocol === "https:" || isOwnHost(hostname) || isInnerHost(hostname);
}
