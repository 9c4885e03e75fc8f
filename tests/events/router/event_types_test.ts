import { assert, assertEquals } from "@std/assert";
import {
  createEventRouter,
  type EventName,
  type EventPayload,
  type ForgeEvents,
  type GithubEvents,
  type GitlabEvents,
  type TelegramEvents,
  type WebhookEvent,
} from "../../../events/router/mod.ts";
import type { JsonObject } from "../../../core/parse_json.ts";
import { testWith } from "../../_permissions.ts";

type Same<A, B> = [A] extends [B] ? [B] extends [A] ? true : false : false;

type IsName<TEvents, TName> = TName extends EventName<TEvents> ? true : false;

/** Events of one's own: types with dots, actions in either place, and some that may be left out. */
interface OwnEvents {
  readonly "invoice": { readonly action: "paid"; readonly number: string };
  readonly "invoice.paid": { readonly amount: number };
  readonly "user.role": { readonly action: "added" | "removed" };
  readonly "ticket": { readonly object_attributes: { readonly action?: "open" | "close" } };
}

/** Checked by the compiler: nothing of it runs. */
export const TYPES: readonly true[] = [
  true satisfies Same<keyof ForgeEvents & keyof TelegramEvents, never>,
  true satisfies Same<keyof ForgeEvents, keyof GithubEvents | keyof GitlabEvents>,

  true satisfies Same<EventPayload<GithubEvents, "issues.opened">["action"], "opened">,
  true satisfies Same<EventPayload<GithubEvents, "push">["ref"], string>,
  true satisfies IsName<GithubEvents, "pull_request_review_thread.resolved">,
  true satisfies IsName<GithubEvents, "sub_issues.sub_issue_added">,
  true satisfies Same<IsName<GithubEvents, "isues.opened">, false>,

  true satisfies Same<EventPayload<GitlabEvents, "tag_push">["object_kind"], "tag_push">,
  true satisfies Same<EventPayload<GitlabEvents, "release.delete">["action"], "delete">,
  true satisfies Same<
    EventPayload<GitlabEvents, "note.create">["object_attributes"]["action"],
    "create"
  >,
  true satisfies Same<
    EventPayload<GitlabEvents, "issue" | "confidential_issue">,
    GitlabEvents["issue"]
  >,
  true satisfies Same<IsName<GitlabEvents, "pipeline.success">, false>,

  true satisfies Same<ForgeEvents["push"], GithubEvents["push"] | GitlabEvents["push"]>,
  true satisfies Same<ForgeEvents["star"], GithubEvents["star"]>,
  true satisfies Same<ForgeEvents["tag_push"], GitlabEvents["tag_push"]>,
  true satisfies Same<
    EventPayload<ForgeEvents, "release.created">,
    EventPayload<GithubEvents, "release.created">
  >,
  true satisfies Same<
    EventPayload<ForgeEvents, "release.create">,
    EventPayload<GitlabEvents, "release.create">
  >,

  true satisfies Same<
    EventName<OwnEvents>,
    | ("invoice" | "invoice.paid" | "ticket" | "ticket.open" | "ticket.close")
    | ("user.role" | "user.role.added" | "user.role.removed")
  >,
  // An event of either type can have that name.
  true satisfies Same<
    EventPayload<OwnEvents, "invoice.paid">,
    OwnEvents["invoice.paid"] | OwnEvents["invoice"]
  >,
  true satisfies Same<EventPayload<OwnEvents, "user.role.added">["action"], "added">,
  true satisfies Same<
    EventPayload<OwnEvents, "ticket.open">["object_attributes"]["action"],
    "open"
  >,

  true satisfies Same<EventName<Record<string, JsonObject>>, string>,
  true satisfies Same<EventPayload<Record<string, JsonObject>, "any.name">, JsonObject>,
];

Deno.test("createEventRouter() knows the payloads that GitHub publishes", () => {
  const label = ({ payload }: WebhookEvent<EventPayload<GithubEvents, "issues.labeled">>) =>
    payload.label?.name;
  const router = createEventRouter<GithubEvents>()
    .on("issues.labeled", ({ payload }) => [payload.issue.number, payload.label?.name])
    .on(["issues.opened", "issue_comment.created"], ({ payload }) => payload.issue.title)
    .on("workflow_run.completed", ({ payload }) => payload.workflow_run.conclusion)
    .on("issues.labeled", label, { id: "second" })
    // @ts-expect-error: an option that there is not.
    .on("star", () => {}, { name: undefined, id: "third" })
    // @ts-expect-error: a name that is misspelled.
    .on("isues.opened", () => {})
    // @ts-expect-error: an action that the event does not have.
    .on("push.opened", () => {})
    // @ts-expect-error: a field that the payload does not have.
    .on("push", ({ payload }) => payload.issue);
  assert(router.handle);
});

Deno.test("createEventRouter() knows the payloads that GitLab documents", () => {
  const router = createEventRouter<GitlabEvents>()
    .on("merge_request.open", ({ payload }) => payload.object_attributes.title)
    .on("merge_request.merge", ({ payload }) => payload.object_attributes.action satisfies "merge")
    // @ts-expect-error: without an action in the name it may be any.
    .on("merge_request", ({ payload }) => payload.object_attributes.action satisfies "merge")
    .on(["issue", "confidential_issue"], ({ payload }) => payload.labels.map(({ title }) => title))
    .on("note.create", ({ payload }) => payload.merge_request?.iid ?? payload.issue?.iid)
    .on("push", ({ payload }) => payload.total_commits_count)
    .on("release.create", ({ payload }) => payload.assets.links)
    .on("member", createEventRouter().handle)
    // @ts-expect-error: an action that is another forge's.
    .on("merge_request.opened", () => {})
    // @ts-expect-error: a type that is another forge's.
    .on("pull_request", () => {});
  assert(router.handle);
});

Deno.test("createEventRouter() knows a payload of several forges as either of them", () => {
  const router = createEventRouter<ForgeEvents>()
    .on(
      "push",
      ({ payload }) => "pusher" in payload ? payload.pusher.name : payload.user_username,
    )
    .on("pull_request.opened", ({ payload }) => payload.pull_request.title)
    .on("merge_request.open", ({ payload }) => payload.object_attributes.title)
    // @ts-expect-error: a field that only one of them has.
    .on("push", ({ payload }) => payload.pusher, { id: "second" });
  assert(router.handle);
});

Deno.test("createEventRouter() refuses names of messengers for a forge, and of forges for a messenger", () => {
  const forge = createEventRouter<GithubEvents>()
    // @ts-expect-error: a messenger's.
    .on("message", () => {})
    // @ts-expect-error: a messenger's.
    .on("callback_query", () => {});
  const messenger = createEventRouter<TelegramEvents>()
    .on("message", ({ payload }) => [payload.update_id, payload.message.chat.id])
    .on("callback_query", ({ payload }) => payload.callback_query.data)
    // @ts-expect-error: a forge's.
    .on("push", () => {})
    // @ts-expect-error: a forge's.
    .on("issues.opened", () => {});
  assert(forge && messenger);
});

Deno.test("createEventRouter() takes a map of events of one's own", () => {
  const paid = createEventRouter<{ "invoice.paid": { amount: number } }>()
    .on("invoice.paid", ({ payload }) => payload.amount.toFixed(2))
    // @ts-expect-error: a part of a type is not a type.
    .on("invoice", () => {});
  const router = createEventRouter<OwnEvents>()
    .on("ticket.open", ({ payload }) => payload.object_attributes.action satisfies "open")
    .on("user.role.added", ({ payload }) => payload.action satisfies "added")
    .on("invoice", ({ payload }) => payload.number)
    // @ts-expect-error: a name that is not in the map.
    .on("push", () => {})
    // @ts-expect-error: an action that the event does not have.
    .on("user.role.changed", () => {});
  assert(paid && router);
});

Deno.test("createEventRouter() takes any name without a map", () => {
  const router = createEventRouter()
    .on("anything.at.all", ({ payload }) => payload satisfies JsonObject)
    .on(["push", "message"], ({ payload }) => payload.text satisfies unknown)
    // @ts-expect-error: nothing is known of the payload.
    .on("star", ({ payload }) => payload.repository.id);
  assert(router.handle);
});

interface Module {
  readonly specifier: string;
  readonly dependencies?: readonly { readonly code?: { readonly specifier: string } }[];
}

testWith(
  ["run", "read"],
  "mod.ts loads nothing of the packages that its types are from",
  async () => {
    const root = new URL("../../../mod.ts", import.meta.url).href;
    const args = ["info", "--json", "--quiet", root];
    const { stdout } = await new Deno.Command(Deno.execPath(), { args, stderr: "null" }).output();
    const { modules } = JSON.parse(new TextDecoder().decode(stdout)) as { modules: Module[] };
    const loaded = new Set([root]);
    for (const specifier of loaded) {
      const found = modules.find((each) => each.specifier === specifier);
      for (const { code } of found?.dependencies ?? []) if (code) loaded.add(code.specifier);
    }
    assertEquals([...loaded].filter((each) => /octokit|grammy|@slack/.test(each)), []);
    assert([...loaded].some((each) => each.endsWith("events/router/event_router.ts")));
  },
);
