import { createPublicKey, generateKeyPairSync, verify } from "node:crypto";
import { type ApiCall, type StandIn, startStandIn } from "./_stand_in.ts";

/** The id of the GitHub App in tests. */
export const APP_ID = "4711";

/** A private key in the form that GitHub hands out. */
export function privateKey(): string {
  return generateKeyPairSync("rsa", {
    modulusLength: 2048,
    publicKeyEncoding: { type: "spki", format: "pem" },
    privateKeyEncoding: { type: "pkcs1", format: "pem" },
  }).privateKey;
}

/** The key of the App in tests. */
export const PRIVATE_KEY = privateKey();

const PUBLIC_KEY = createPublicKey(PRIVATE_KEY);

const COMMENTS = /^\/repos\/octo\/app\/issues\/7\/comments(?:\?.*)?$/;

/** Answers that GitHub gives out of the ordinary. */
export interface GithubTrouble {
  /** An answer in the place of the ordinary one: the call has no effect. */
  readonly before?: (call: ApiCall) => Response | undefined;
  /** An answer in the place of the ordinary one, after the call had its effect. */
  readonly after?: (call: ApiCall) => Response | undefined;
}

/** A stand-in for GitHub's API, with one issue: `octo/app#7`. */
export interface Github extends StandIn {
  /** The labels of the issue. */
  readonly labels: readonly string[];
  /** The comments of the issue. */
  readonly comments: readonly string[];
  /** The calls that were made as an installation: method, path and token. */
  readonly asked: readonly string[];
  /** The installations that tokens were made for. */
  readonly installations: readonly string[];
}

/** Answers as GitHub does when something is wrong. */
export function refusal(status: number, message: string, headers?: Record<string, string>) {
  return Response.json({ message, documentation_url: "https://docs.github.com/rest" }, {
    status,
    ...(headers && { headers }),
  });
}

/** Starts a stand-in that answers as GitHub's documentation says. */
export function startGithub({ before, after }: GithubTrouble = {}): Github {
  const [labels, comments, asked, installations] = [new Set<string>(), [], [], []] as [
    Set<string>,
    string[],
    string[],
    string[],
  ];
  const answer = (call: ApiCall): Response => {
    const { method, path, authorization, body } = call;
    const [, installation] = /^\/app\/installations\/(\d+)\/access_tokens$/.exec(path) ?? [];
    if (installation) {
      if (!isSigned(authorization)) return refusal(401, "A JSON web token could not be decoded");
      installations.push(installation);
      const expires_at = new Date(Date.now() + 3_600_000).toISOString();
      return Response.json({ token: `ghs_${installation}`, expires_at }, { status: 201 });
    }
    if (!/^token ghs_\d+$/.test(authorization ?? "")) return refusal(401, "Bad credentials");
    asked.push(`${method} ${path} ${authorization?.slice("token ".length)}`);
    if (method === "POST" && path === "/repos/octo/app/issues/7/labels") {
      for (const label of body.labels) labels.add(label);
      return Response.json([...labels].map((name, id) => ({ id, name })));
    }
    if (!COMMENTS.test(path)) return refusal(404, "Not Found");
    if (method === "GET") return Response.json(comments.map((text, id) => ({ id, body: text })));
    comments.push(body.body);
    return Response.json({ id: comments.length, body: body.body }, { status: 201 });
  };
  const api = startStandIn((call) => {
    const refused = before?.(call);
    if (refused) return refused;
    const ordinary = answer(call);
    return after?.(call) ?? ordinary;
  });
  return Object.defineProperty({ ...api, comments, asked, installations }, "labels", {
    get: () => [...labels],
  }) as unknown as Github;
}

/** Checks a JSON Web Token as GitHub does: of this App, signed with its key, and for 10 minutes at most. */
function isSigned(authorization: string | null): boolean {
  const [header = "", claims = "", signature = ""] = authorization?.split(" ")[1]?.split(".") ?? [];
  const { alg } = parse(header);
  const { iss, iat, exp } = parse(claims);
  const now = Date.now() / 1_000;
  return alg === "RS256" && iss === APP_ID && iat <= now && exp > now && exp <= now + 600 &&
    verify(
      "sha256",
      new TextEncoder().encode(`${header}.${claims}`),
      PUBLIC_KEY,
      base64(signature),
    );
}

function base64(text: string): Uint8Array {
  return Uint8Array.fromBase64(text, { alphabet: "base64url" });
}

// deno-lint-ignore no-explicit-any -- What a stranger has sent may be anything.
function parse(part: string): any {
  return part === "" ? {} : JSON.parse(new TextDecoder().decode(base64(part)));
}
