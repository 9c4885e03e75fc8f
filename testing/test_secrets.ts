/** The secrets that deliveries for tests are proved by, and that a test bot is given. */
export interface TestSecrets {
  /** What a forge signs with. */
  readonly signing: string;
  /** What GitLab signs with, in the place of that. */
  readonly gitlab: string;
  /** What GitLab sends along where it does not sign. */
  readonly gitlabToken: string;
  /** What a messenger sends along. */
  readonly messenger: string;
}

/** The secrets of tests. They are published: use them for nothing else. */
export const TEST_SECRETS: TestSecrets = {
  signing: "a published secret, for tests only",
  gitlab: `whsec_${btoa("a published key, for tests only!")}`,
  gitlabToken: "a-published-token-for-tests-only",
  messenger: "a-published-secret-token-for-tests-only",
};
