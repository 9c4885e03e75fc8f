import type { Platform } from "../webhook/platform.ts";

/**
 * Secrets for tests: test deliveries are signed with them, and the test bot accepts them. They are published:
 * use them for nothing else.
 *
 * @category Deliveries
 */
export const TEST_SECRETS: {
  /** Secret that a forge signs with. */
  readonly signing: string;
  /** Secret that GitLab signs with. */
  readonly gitlab: string;
  /** Token that GitLab sends if it does not sign. */
  readonly gitlabToken: string;
  /** Secret token that a messenger sends. */
  readonly messenger: string;
} = {
  signing: "a published secret, for tests only",
  gitlab: `whsec_${btoa("a published key, for tests only!")}`,
  gitlabToken: "a-published-token-for-tests-only",
  messenger: "a-published-secret-token-for-tests-only",
};

/**
 * Makes the values of a platform's variables.
 *
 * @param platform The platform.
 * @returns The values: its `testEnv`, and the secrets that the test kit signs with.
 */
export function testEnvOf({ testEnv, testSecrets }: Platform): Readonly<Record<string, string>> {
  const secrets = Object.entries(testSecrets).map(([name, secret]) => [name, TEST_SECRETS[secret]]);
  return { ...testEnv, ...Object.fromEntries(secrets) };
}
