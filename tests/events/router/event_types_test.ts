import { assert, assertEquals } from "@std/assert";
import {
  createEventRouter,
  type EventName,
  type EventPayload,
  type ForgeEvents,
  type MessengerEvents,
  type PlatformEvents,
} from "../../../events/router/mod.ts";
import { testWith } from "../../_permissions.ts";

type Same<A, B> = [A] extends [B] ? [B] extends [A] ? true : false : false;

/** Checked by the compiler: nothing of it runs. */
export const TYPES: readonly true[] = [
  true satisfies Same<keyof ForgeEvents & keyof MessengerEvents, never>,
  true satisfies Same<EventPayload<PlatformEvents, "issues.opened">["action"], "opened">,
  true satisfies Same<EventPayload<PlatformEvents, "push">["ref"], string>,
  true satisfies Same<
    "pull_request_review_thread.resolved" extends EventName<ForgeEvents> ? 1 : 0,
    1
  >,
  true satisfies Same<"sub_issues.sub_issue_added" extends EventName<ForgeEvents> ? 1 : 0, 1>,
  true satisfies Same<"isues.opened" extends EventName<PlatformEvents> ? 1 : 0, 0>,
];

Deno.test("createEventRouter() knows the payloads that the platforms publish", () => {
  const router = createEventRouter()
    .on("issues.labeled", ({ payload }) => [payload.issue.number, payload.label?.name])
    .on(["issues.opened", "issue_comment.created"], ({ payload }) => payload.issue.title)
    .on("workflow_run.completed", ({ payload }) => payload.workflow_run.conclusion)
    .on("message", ({ payload }) => [payload.update_id, payload.message.chat.id])
    .on("callback_query", ({ payload }) => payload.callback_query.data)
    .on("issues.labeled", ({ payload }) => payload.label?.name, { id: "second" })
    // @ts-expect-error: an option that there is not.
    .on("callback_query", () => {}, { name: "third", id: "third" })
    // @ts-expect-error: a name that is misspelled.
    .on("isues.opened", () => {})
    // @ts-expect-error: an action that the event does not have.
    .on("push.opened", () => {})
    // @ts-expect-error: a field that the payload does not have.
    .on("push", ({ payload }) => payload.issue);
  assert(router.handle);
});

Deno.test("createEventRouter() takes a map of events of one's own", () => {
  interface GitLabEvents {
    readonly merge_request: { readonly object_attributes: { readonly iid: number } };
    readonly note: { readonly action: "create" | "update" };
  }
  const router = createEventRouter<GitLabEvents>()
    .on("merge_request", ({ payload }) => payload.object_attributes.iid)
    .on("note.create", ({ payload }) => payload.action satisfies "create")
    // @ts-expect-error: a name that is not in the map.
    .on("push", () => {});
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
    assertEquals([...loaded].filter((each) => /octokit|grammy/.test(each)), []);
    assert([...loaded].some((each) => each.endsWith("events/router/event_router.ts")));
  },
);
