import { assertEquals } from "@std/assert";
import {
  type GITHUB,
  type GITLAB,
  meantBy,
  type TELEGRAM,
} from "../../../events/router/event_names.ts";
import type {
  EventName,
  GithubEvents,
  GitlabEvents,
  TelegramEvents,
} from "../../../events/router/mod.ts";

/** The words of a text. */
type Words<TText extends string, TFound = never> = TText extends "*" ? string
  : TText extends `${infer Word} ${infer Rest}` ? Words<Rest, TFound | Word>
  : TText extends "" ? TFound
  : TFound | TText;

/** The names of events in a table of types and actions. */
type NamesIn<TTable extends Readonly<Record<string, string>>> = {
  [TType in keyof TTable & string]: TType | `${TType}.${Words<TTable[TType]>}`;
}[keyof TTable & string];

/** Members that only one of two unions has. */
type Difference<TOne, TOther> = Exclude<TOne, TOther> | Exclude<TOther, TOne>;

/** Checked by the compiler: nothing of it runs. */
export const NONE: readonly [never, never, never][] = [] as [
  Difference<NamesIn<typeof GITHUB>, EventName<GithubEvents>>,
  Difference<NamesIn<typeof GITLAB>, EventName<GitlabEvents>>,
  Difference<NamesIn<typeof TELEGRAM>, EventName<TelegramEvents>>,
][];

for (
  const [product, name, meant] of [
    ["forge", "isues.opened", "issues.opened"],
    ["forge", "issues.openend", "issues.opened"],
    ["forge", "issues.open", "issues.opened"],
    ["forge", "issue.opened", "issues.opened"],
    ["forge", "pull-request.opened", "pull_request.opened"],
    ["forge", "push.created", "push"],
    ["github", "pull_request.synchronized", "pull_request.synchronize"],
    ["gitea", "pull_request.synchronised", "pull_request.synchronized"],
    ["gitlab", "merge_request.opne", "merge_request.open"],
    ["telegram", "mesage", "message"],
    ["gitea", "wiki.created", undefined],
    ["gitea", "release.updated", undefined],
    ["gitea", "action_run_failure.failure", undefined],
    ["gitea", "issues.opened", undefined],
    ["forge", "pull_request.synchronized", undefined],
    ["forge", "wiki", undefined],
    ["messenger", "mesage", "message"],
    ["messenger", "message:text", "message"],
    ["messenger", "callback-query", "callback_query"],
    ["forge", "issues.opened", undefined],
    ["forge", "merge_request.open", undefined],
    ["forge", "issues.haunted", undefined],
    ["forge", "repository_dispatch.build", undefined],
    ["forge", "deploy.done", undefined],
    ["stripe", "isues", undefined],
  ] as const
) {
  Deno.test(`meantBy() finds ${meant} for ${name} of ${product}`, () => {
    assertEquals(meantBy(product, name), meant);
  });
}
