import type { Platform } from "../webhook/mod.ts";
import { forgeDelivery, type ForgeSender, messengerUpdate } from "../testing/deliveries.ts";
import { ParameterError } from "./_query.ts";

/** Sender of example deliveries to the app itself, for development. */
export interface ExampleSender {
  /** Platforms that it can send to. */
  readonly platforms: readonly Platform[];
  /**
   * Signs and sends a delivery.
   *
   * @param platform The name of the platform.
   * @param type The type of the event.
   * @param payload The payload, a JSON document.
   * @returns The app's answer, and the id of the event that the delivery makes.
   */
  send(platform: string, type: string, payload: string): Promise<Sent>;
}

/** Delivery that was sent. */
export interface Sent {
  /** Answer. */
  readonly response: Response;
  /** Id that its event has, if it is stored. */
  readonly eventId: string;
}

const REPOSITORY = {
  ...{ id: 1_296_269, name: "hello-world", full_name: "octocat/hello-world", private: false },
  owner: { id: 583_231, login: "octocat", type: "User" },
};

const SENDER = { id: 583_231, login: "octocat", type: "User" };

const USER = { id: 42, is_bot: false, first_name: "Ada", username: "ada" };

const CHAT = { id: 42, type: "private" };

const COMMIT = { id: "6dcb09b5b57875f334f61aebed695e2e4193db5e", message: "Fix all the bugs" };

/** Examples for code hosts, by type. */
const FORGE: Readonly<Record<string, object>> = {
  push: { ref: "refs/heads/main", after: COMMIT.id, commits: [COMMIT], head_commit: COMMIT },
  issues: {
    action: "opened",
    issue: { id: 1, number: 1_347, title: "Found a bug", body: "Help!" },
  },
  issue_comment: {
    ...{ action: "created", issue: { id: 1, number: 1_347, title: "Found a bug" } },
    comment: { id: 1, body: "Me too" },
  },
  pull_request: {
    ...{ action: "opened", number: 1_347 },
    pull_request: { id: 1, number: 1_347, title: "Amazing new feature", draft: false },
  },
  release: { action: "published", release: { id: 1, tag_name: "v1.0.0", name: "v1.0.0" } },
};

const MESSAGE = { message_id: 1, date: 1_767_225_600, chat: CHAT, from: USER, text: "hello" };

/** Examples for messengers, by type. */
const MESSENGER: Readonly<Record<string, object>> = {
  message: { message: MESSAGE },
  edited_message: { edited_message: { ...MESSAGE, edit_date: MESSAGE.date + 60 } },
  callback_query: {
    callback_query: { id: "1", from: USER, message: MESSAGE, chat_instance: "1", data: "yes" },
  },
};

/** Lists the types that there are examples of for a kind of platform. */
export const exampleTypes = (kind: string): readonly string[] =>
  Object.keys(kind === "messenger" ? MESSENGER : FORGE);

/** Writes an example. */
export function exampleOf(kind: string, type: string): string {
  const isMessenger = kind === "messenger";
  const examples = isMessenger ? MESSENGER : FORGE;
  const example = examples[type] ?? {};
  const payload = isMessenger ? example : { ...example, repository: REPOSITORY, sender: SENDER };
  return JSON.stringify(payload, null, 2);
}

/**
 * Makes the sender of examples.
 *
 * @param platforms The platforms of the app.
 * @param variable Reads a variable, for the secrets.
 * @param fetch Answers a request as the app does.
 * @returns The sender, for the platforms whose secrets are in variables.
 */
export function exampleSender(
  platforms: readonly Platform[],
  variable: (name: string) => string | undefined,
  fetch: (request: Request) => Promise<Response>,
): ExampleSender {
  const secretOf = (platform: Platform) => {
    const found = Object.entries(platform.testSecrets)
      .find(([name]) => (variable(name) ?? "").trim() !== "");
    return found && { kind: found[1], secret: variable(found[0])! };
  };
  const sendable = platforms.filter((platform) =>
    (platform.kind === "forge" || platform.kind === "messenger") && secretOf(platform)
  );
  return {
    platforms: sendable,
    async send(name, type, payload) {
      const platform = sendable.find((each) => each.name === name);
      if (!platform) throw new ParameterError("'platform' must be one of the app's");
      const { kind, secret } = secretOf(platform)!;
      if (!exampleTypes(platform.kind).includes(type)) {
        throw new ParameterError("'type' must be one of the examples'");
      }
      const id = kind === "messenger" ? numberOf(payload) : crypto.randomUUID();
      const { method, headers, body } = kind === "messenger"
        ? messengerUpdate(numbered(payload, id), { from: messengerOf(platform), secret })
        : forgeDelivery(type, payload, { from: forgeOf(platform, kind, secret), secret, id });
      const url = new URL(platform.path, "http://localhost");
      const response = await fetch(new Request(url, { method, headers, body }));
      return { response, eventId: `${name}:${id}` };
    },
  };
}

/** Finds the sender whose headers and signature a platform takes. */
function forgeOf({ name }: Platform, kind: string, secret: string): ForgeSender {
  if (name === "gitea" || name === "forgejo") return name;
  if (kind === "signing") return "github";
  return kind === "gitlab" && secret.startsWith("whsec_") ? "gitlab" : "gitlab-token";
}

const messengerOf = ({ name }: Platform) => name === "telegram" ? "telegram" : "messenger";

/** Finds the number of an update, or makes one. */
function numberOf(payload: string): string {
  const [, own] = UPDATE_ID.exec(payload) ?? [];
  return own ?? String(Date.now() % 2 ** 31);
}

const UPDATE_ID = /^\s*\{\s*"update_id"\s*:\s*(\d{1,15})\s*[,}]/;

/** Puts the number into an update that has none. */
function numbered(payload: string, id: string): string {
  if (UPDATE_ID.test(payload)) return payload;
  return payload.replace(/^\s*\{(\s*\})?/, (_, end) => `{"update_id":${id}${end ?? ","}`);
}
