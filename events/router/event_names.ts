/**
 * Names of events, for a hint about a misspelt one: types, each with its actions; `*` is any action. Unlike the types of
 * payloads they are there when an app runs: `deno run` does not check types.
 *
 * @module
 */
import { nearestOf } from "../../core/nearest.ts";

/** Events of GitHub, and most of those of Gitea and Forgejo. */
export const GITHUB = {
  branch_protection_configuration: "disabled enabled",
  branch_protection_rule: "created deleted edited",
  check_run: "completed created requested_action rerequested",
  check_suite: "completed requested rerequested",
  code_scanning_alert:
    "appeared_in_branch closed_by_user created fixed reopened reopened_by_user updated_assignment",
  commit_comment: "created",
  create: "",
  custom_property: "created deleted promote_to_enterprise updated",
  custom_property_values: "updated",
  delete: "",
  dependabot_alert:
    "assignees_changed auto_dismissed auto_reopened created dismissed fixed reintroduced reopened",
  deploy_key: "created deleted",
  deployment: "created",
  deployment_protection_rule: "requested",
  deployment_review: "approved rejected requested",
  deployment_status: "created",
  discussion:
    "answered category_changed closed created deleted edited labeled locked pinned reopened transferred unanswered unlabeled unlocked unpinned",
  discussion_comment: "created deleted edited",
  fork: "",
  github_app_authorization: "revoked",
  gollum: "",
  installation: "created deleted new_permissions_accepted suspend unsuspend",
  installation_repositories: "added removed",
  installation_target: "renamed",
  issue_comment: "created deleted edited pinned unpinned",
  issue_dependencies: "blocked_by_added blocked_by_removed blocking_added blocking_removed",
  issue_relates_to: "relates_to_added relates_to_removed",
  issues:
    "assigned closed deleted demilestoned edited field_added field_removed labeled locked milestoned opened pinned reopened transferred typed unassigned unlabeled unlocked unpinned untyped",
  label: "archived created deleted edited unarchived",
  marketplace_purchase: "cancelled changed pending_change pending_change_cancelled purchased",
  member: "added edited removed",
  membership: "added removed",
  merge_group: "checks_requested destroyed",
  meta: "deleted",
  milestone: "closed created deleted edited opened",
  org_block: "blocked unblocked",
  organization: "deleted member_added member_invited member_removed renamed",
  package: "published updated",
  page_build: "",
  personal_access_token_request: "approved cancelled created denied",
  ping: "",
  project_card: "converted created deleted edited moved",
  project: "closed created deleted edited reopened",
  project_column: "created deleted edited moved",
  projects_v2: "closed created deleted edited reopened",
  projects_v2_item: "archived converted created deleted edited reordered restored",
  projects_v2_status_update: "created deleted edited",
  public: "",
  pull_request:
    "assigned auto_merge_disabled auto_merge_enabled closed converted_to_draft demilestoned dequeued edited enqueued labeled locked milestoned opened ready_for_review reopened review_request_removed review_requested stacked synchronize unassigned unlabeled unlocked",
  pull_request_review_comment: "created deleted edited",
  pull_request_review: "dismissed edited submitted",
  pull_request_review_thread: "resolved unresolved",
  push: "",
  registry_package: "published updated",
  release: "created deleted edited prereleased published released unpublished",
  repository_advisory: "published reported",
  repository:
    "archived created deleted edited privatized publicized renamed transferred unarchived",
  repository_dispatch: "*",
  repository_import: "",
  repository_ruleset: "created deleted edited",
  repository_vulnerability_alert: "create dismiss reopen resolve",
  secret_scanning_alert:
    "assigned created metadata_created metadata_removed publicly_leaked reopened resolved unassigned validated",
  secret_scanning_alert_location: "created",
  secret_scanning_scan: "completed",
  security_advisory: "published updated withdrawn",
  security_and_analysis: "",
  sponsorship: "cancelled created edited pending_cancellation pending_tier_change tier_changed",
  star: "created deleted",
  status: "",
  sub_issues: "parent_issue_added parent_issue_removed sub_issue_added sub_issue_removed",
  team_add: "",
  team: "added_to_repository created deleted edited removed_from_repository",
  watch: "started",
  workflow_dispatch: "",
  workflow_job: "completed in_progress queued waiting",
  workflow_run: "completed in_progress requested",
} as const;

/** Events of Gitea and Forgejo that GitHub does not have. */
const GITEA = {
  action_run_failure: "*",
  action_run_recover: "*",
  action_run_success: "*",
  issues: "label_cleared label_updated",
  package: "created deleted",
  pull_request: "label_cleared label_updated reviewed synchronized",
  pull_request_approved: "reviewed",
  pull_request_comment: "created deleted edited reviewed",
  pull_request_rejected: "reviewed",
  release: "updated",
  wiki: "created deleted edited",
} as const;

/** Events of GitLab. */
export const GITLAB = {
  push: "",
  tag_push: "",
  issue: "open close reopen update",
  confidential_issue: "open close reopen update",
  note: "create update",
  confidential_note: "create update",
  merge_request: "open close reopen update approval approved unapproval unapproved merge",
  wiki_page: "create update delete",
  pipeline: "",
  job: "",
  deployment: "",
  feature_flag: "",
  release: "create update delete",
  milestone: "create close reopen delete",
  emoji: "award revoke",
  resource_access_token: "",
  vulnerability: "",
  member: "",
  project: "",
  subgroup: "",
} as const;

/** Updates of Telegram. They have no actions. */
export const TELEGRAM = {
  message: "",
  edited_message: "",
  channel_post: "",
  edited_channel_post: "",
  business_connection: "",
  business_message: "",
  edited_business_message: "",
  deleted_business_messages: "",
  guest_message: "",
  stopped_message_generation: "",
  message_reaction: "",
  message_reaction_count: "",
  inline_query: "",
  chosen_inline_result: "",
  callback_query: "",
  shipping_query: "",
  pre_checkout_query: "",
  purchased_paid_media: "",
  poll: "",
  poll_answer: "",
  my_chat_member: "",
  chat_member: "",
  chat_join_request: "",
  chat_boost: "",
  removed_chat_boost: "",
  managed_bot: "",
  subscription: "",
} as const;

/** Tables of names, by the product that sends them. */
const TABLES: Readonly<Record<string, readonly Readonly<Record<string, string>>[]>> = {
  github: [GITHUB],
  gitea: [GITHUB, GITEA],
  gitlab: [GITLAB],
  forge: [GITHUB, GITEA, GITLAB],
  telegram: [TELEGRAM],
  messenger: [TELEGRAM],
};

/**
 * Finds the name that is probably meant by one that a product does not send.
 *
 * @param product The product that a platform of the package is for: `github`, `forge`. Of another one no names are known.
 * @param name The name that a handler is registered for: a type, perhaps with an action.
 * @returns The name that is meant; undefined if the name is known, or resembles none: it may be a new one.
 */
export function meantBy(product: string, name: string): string | undefined {
  const tables = TABLES[product] ?? [];
  const [type = name] = name.split(/[.:]/, 1);
  const actions = tables.flatMap((table) => table[type] ?? []);
  const names = tables.flatMap((table) => Object.entries(table).flatMap(namesOf));
  if (names.includes(name) || actions.includes("*")) return undefined;
  const hasNoActions = actions.length > 0 && actions.every((each) => each === "");
  return nearestOf(name, names) ?? (hasNoActions ? type : undefined);
}

function namesOf([type, actions]: readonly [string, string]): string[] {
  return [type, ...actions.split(" ").filter(Boolean).map((action) => `${type}.${action}`)];
}
