import { createPrivateKey } from "node:crypto";
import { Octokit } from "@octokit/core";
import { checkNoRedirect } from "./_github_log.ts";
import type { GithubClient } from "./catch_up.ts";

/**
 * Token, or the id and private key of a GitHub App, and the address of the API.
 *
 * @category Catching up
 */
export type GithubAuth =
  & {
    /**
     * Address of the API, for GitHub Enterprise Server.
     *
     * @default {"https://api.github.com"}
     */
    readonly api?: string | undefined;
  }
  & (
    | {
      /** Token with the permission Webhooks (read and write). */
      readonly token: string;
    }
    | {
      /** Id of the GitHub App. */
      readonly appId: string | number;
      /** Private key of the GitHub App, in the form PEM. */
      readonly privateKey: string;
      /**
       * Id of the installation through which the app reads the webhooks of a repository or an organization.
       *
       * @default {undefined} None: the app reads its own webhook only.
       */
      readonly installationId?: string | number | undefined;
    }
  );

/** Opens a client, unless one is given. What authenticates an app is loaded only for one. */
export async function openClient(github: GithubClient | GithubAuth): Promise<GithubClient> {
  if ("request" in github) return github;
  const common = {
    baseUrl: github.api ?? "https://api.github.com",
    userAgent: "edge-base-catch-up",
    log: { debug() {}, info() {}, warn() {}, error() {} },
    request: { redirect: "manual" as const },
  };
  if ("token" in github) return new Octokit({ ...common, auth: github.token });
  const { createAppAuth } = await import("@octokit/auth-app");
  const { appId, installationId } = github;
  // In a variable of one line the line breaks are escaped.
  const privateKey = github.privateKey.replaceAll("\\n", "\n");
  checkPrivateKey(privateKey);
  const auth = { appId, privateKey, ...installationId !== undefined && { installationId } };
  const octokit = new Octokit({ ...common, authStrategy: createAppAuth, auth });
  // The request for an installation's token, which carries a signature of the app's, is octokit's own.
  octokit.hook.after("request", (answer) => void checkNoRedirect(answer));
  return octokit;
}

/** Checks a key before anything is asked: octokit's error would look like one of the network. */
function checkPrivateKey(pem: string): void {
  try {
    if (createPrivateKey(pem).asymmetricKeyType === "rsa") return;
  } catch {
    // The error might quote it.
  }
  throw new TypeError(
    "Cannot catch up: the 'privateKey' of 'github' must be a private RSA key in the form PEM, as GitHub " +
      "hands it out",
  );
}
