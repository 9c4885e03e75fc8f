/**
 * Ways to send a call to GitHub's API: with a token, as a GitHub App, or through the user's client.
 *
 * @module
 */
import { fieldOf } from "../core/parse_json.ts";
import { Buffer } from "node:buffer";
import { createPrivateKey, type KeyObject, sign } from "node:crypto";
import {
  type ApiAnswer,
  ApiError,
  callApi,
  type Hints,
  networkReasonOf,
  refuseRedirect,
  unknownForm,
} from "../core/call_api.ts";
import { dateOf } from "../core/retry_at.ts";
import { type CatchUpOptions, GITHUB_API } from "./options.ts";

/** Version of the API that the answers are read as. */
const API_VERSION = "2022-11-28";

/** Longest wait for one answer. */
const CALL_MS = 30_000;

/** Lifetime of a token that an app signs: the longest that GitHub accepts. */
const SIGNED_MS = 600_000;

/** Difference between the clocks that a token allows for. */
const CLOCK_SLACK_MS = 30_000;

/** Remaining lifetime at which an installation's token is replaced. */
const RENEWED_MS = 60_000;

type Github = CatchUpOptions["github"];

/** Call of the API. */
export interface GithubCall {
  /** Name for messages. */
  readonly name: string;
  readonly method: "GET" | "POST" | "PATCH";
  readonly path: string;
  readonly query?: Readonly<Record<string, string>>;
  readonly body?: object;
  /** Version of the known answer: without a newer one, the answer is 304. */
  readonly etag?: string | undefined;
  readonly hints: Hints;
  readonly signal: AbortSignal;
}

/**
 * Function that sends a call.
 *
 * @throws {ApiError} If there is no answer, or it is a redirect.
 */
export type SendCall = (call: GithubCall) => Promise<ApiAnswer>;

/**
 * Makes the function that sends calls.
 *
 * @throws {TypeError} If a private key cannot be read.
 */
export function senderOf(github: Github): SendCall {
  if ("request" in github) return (call) => sendBy(github, call);
  const api = (github.api ?? GITHUB_API).replace(/\/+$/, "");
  if ("token" in github) return (call) => sendTo(api, call, github.token);
  return asApp(github, (call, token) => sendTo(api, call, token));
}

/** Sends a call to an address. */
function sendTo(api: string, call: GithubCall, token: string): Promise<ApiAnswer> {
  const { name, path, query, method, body, hints, signal } = call;
  const search = query === undefined ? "" : `?${new URLSearchParams(query)}`;
  return callApi({
    ...{ name, url: `${api}${path}${search}`, method, hints, signal, timeoutMs: CALL_MS },
    headers: {
      ...{ ...headersOf(call), Authorization: `Bearer ${token}`, "User-Agent": "edge-base" },
      ...body !== undefined && { "Content-Type": "application/json" },
    },
    ...body !== undefined && { body: JSON.stringify(body) },
  });
}

/** Sends a call through the user's client. Like an Octokit, it may throw errors that hold the answer. */
async function sendBy(
  client: Extract<Github, { request: unknown }>,
  call: GithubCall,
): Promise<ApiAnswer> {
  const { name, path, query, method, body, hints } = call;
  const signal = AbortSignal.any([call.signal, AbortSignal.timeout(CALL_MS)]);
  const answer = await client.request(`${method} ${path}`, {
    ...{ ...query, ...body, headers: headersOf(call), request: { signal, redirect: "manual" } },
  }).catch((error) => {
    call.signal.throwIfAborted();
    const { response, message } = Object(error);
    if (response !== undefined) return { ...response, data: response.data ?? { message } };
    const reason = networkReasonOf(error);
    throw new ApiError(`${name} cannot be reached: ${reason}`, { isTemporary: true });
  });
  const sent = Object.entries(Object(answer.headers)).filter((each): each is [string, string] =>
    /^[\w-]+$/.test(each[0]) && /^[ -~]*$/.test(String(each[1]))
  );
  const { status, data: json } = answer;
  const read = { status, headers: new Headers(sent), text: "", json };
  refuseRedirect(name, read, hints);
  return read;
}

function headersOf({ etag }: GithubCall): Record<string, string> {
  return {
    ...{ Accept: "application/vnd.github+json", "X-GitHub-Api-Version": API_VERSION },
    ...etag !== undefined && { "If-None-Match": etag },
  };
}

/**
 * Makes the function that sends calls as a GitHub App. For its own webhook it signs a token (RFC 7519); for the
 * webhooks of others it uses the token of its installation.
 */
function asApp(
  { appId, privateKey, installationId }: Extract<Github, { privateKey: string }>,
  send: (call: GithubCall, token: string) => Promise<ApiAnswer>,
): SendCall {
  const key = keyIn(privateKey);
  let clockMs = 0;
  let installation = { token: "", until: 0 };

  async function sendSigned(call: GithubCall): Promise<ApiAnswer> {
    const answer = await send(call, tokenOf(appId, key, Date.now() + clockMs));
    const differenceMs = (dateOf(answer.headers) ?? Date.now()) - Date.now();
    if (answer.status !== 401 || Math.abs(differenceMs - clockMs) < CLOCK_SLACK_MS) return answer;
    // The clock of this machine is wrong.
    clockMs = differenceMs;
    return await send(call, tokenOf(appId, key, Date.now() + clockMs));
  }

  return async (call) => {
    if (call.path.startsWith("/app/")) return await sendSigned(call);
    if (installation.until - RENEWED_MS < Date.now() + clockMs) {
      const { name, hints, signal } = call;
      const path = `/app/installations/${installationId}/access_tokens`;
      const answer = await sendSigned({ name, method: "POST", path, body: {}, hints, signal });
      if (answer.status >= 400) return answer;
      const token = fieldOf(answer.json, "token");
      const until = Date.parse(String(fieldOf(answer.json, "expires_at")));
      if (typeof token !== "string" || Number.isNaN(until)) {
        throw unknownForm(name, "no token", answer.status);
      }
      installation = { token, until };
    }
    return await send(call, installation.token);
  };
}

/** Signs the token of an app. It is dated back a little, in case GitHub's clock is slow. */
function tokenOf(appId: string | number, key: KeyObject, now: number): string {
  const encoded = (part: object) => Buffer.from(JSON.stringify(part)).toString("base64url");
  const signedAt = Math.floor((now - CLOCK_SLACK_MS) / 1_000);
  const claims = { iss: String(appId), iat: signedAt, exp: signedAt + SIGNED_MS / 1_000 };
  const text = `${encoded({ alg: "RS256", typ: "JWT" })}.${encoded(claims)}`;
  return `${text}.${sign("RSA-SHA256", Buffer.from(text), key).toString("base64url")}`;
}

/** Reads a private key. In a variable its line breaks may be escaped. */
function keyIn(pem: string): KeyObject {
  try {
    const key = createPrivateKey(pem.replaceAll("\\n", "\n"));
    if (key.asymmetricKeyType === "rsa") return key;
  } catch {
    // The error might quote it.
  }
  throw new TypeError(
    "Cannot catch up, in 'github': 'privateKey' must be a private RSA key in the form PEM, as GitHub hands it " +
      "out",
  );
}
