/**
 * The payloads of GitLab's webhooks, with the fields that GitLab documents. A field is optional if GitLab leaves
 * it out, or an older version did.
 *
 * They are written here because the packages on npm do not fit: the small one lacks many of the events, and the
 * complete one is a client for the whole API. Each payload is a type alias: an interface could not be assigned to
 * a `JsonObject`.
 *
 * @see https://docs.gitlab.com/user/project/integrations/webhook_events/
 *
 * @module
 */

/**
 * A person at GitLab, as in a list of assignees.
 *
 * @category Types of payloads
 */
export type GitlabPerson = {
  readonly id?: number;
  readonly name: string;
  readonly username: string;
  readonly avatar_url: string | null;
  /** `[REDACTED]` unless the address is public. */
  readonly email?: string;
};

/**
 * The user behind one of GitLab's events.
 *
 * @category Types of payloads
 */
export type GitlabUser = GitlabPerson & { readonly id: number };

/**
 * The project of one of GitLab's events.
 *
 * @category Types of payloads
 */
export type GitlabProject = {
  readonly id: number;
  readonly name: string;
  readonly description: string | null;
  readonly web_url: string;
  readonly avatar_url: string | null;
  readonly git_ssh_url: string;
  readonly git_http_url: string;
  readonly namespace: string;
  readonly visibility_level: number;
  readonly path_with_namespace: string;
  readonly default_branch: string | null;
  readonly ci_config_path?: string | null;
  readonly homepage?: string;
  readonly url?: string;
  readonly ssh_url?: string;
  readonly http_url?: string;
};

/**
 * The repository of one of GitLab's events. GitLab advises to read the project.
 *
 * @category Types of payloads
 */
export type GitlabRepository = {
  readonly name: string;
  readonly url?: string;
  readonly description: string | null;
  readonly homepage: string;
  readonly git_http_url?: string;
  readonly git_ssh_url?: string;
  readonly visibility_level?: number;
};

/**
 * A commit at GitLab. Commits of a push also list the files that they change.
 *
 * @category Types of payloads
 */
export type GitlabCommit = {
  readonly id: string;
  readonly message: string;
  readonly title?: string;
  readonly timestamp: string;
  readonly url: string;
  readonly author: { readonly name: string; readonly email: string };
  readonly added?: readonly string[];
  readonly modified?: readonly string[];
  readonly removed?: readonly string[];
};

/**
 * A label at GitLab, of a project or of a group.
 *
 * @category Types of payloads
 */
export type GitlabLabel = {
  readonly id: number;
  readonly title: string;
  readonly color: string;
  readonly project_id: number | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly template: boolean;
  readonly description: string | null;
  readonly type: string;
  readonly group_id: number | null;
};

/**
 * A field of an issue or merge request, before and after an event.
 *
 * @category Types of payloads
 */
export type GitlabChange<TValue = unknown> = {
  readonly previous: TValue;
  readonly current: TValue;
};

/**
 * Fields that an event has changed. There may be none.
 *
 * @category Types of payloads
 */
export type GitlabChanges = {
  readonly [field: string]: GitlabChange | undefined;
  readonly assignees?: GitlabChange<readonly GitlabPerson[]>;
  readonly description?: GitlabChange<string | null>;
  readonly draft?: GitlabChange<boolean>;
  readonly labels?: GitlabChange<readonly GitlabLabel[]>;
  readonly last_edited_at?: GitlabChange<string | null>;
  readonly last_edited_by_id?: GitlabChange<number | null>;
  readonly reviewers?: GitlabChange<readonly GitlabPerson[]>;
  readonly title?: GitlabChange<string | null>;
  readonly updated_at?: GitlabChange<string | null>;
  readonly updated_by_id?: GitlabChange<number | null>;
};

/**
 * An issue or another work item at GitLab.
 *
 * @category Types of payloads
 */
export type GitlabIssue = {
  readonly id: number;
  readonly iid: number;
  readonly title: string;
  readonly description: string | null;
  readonly state: string;
  readonly state_id?: number;
  /** `Issue`, `Task`, `Incident`, ... */
  readonly type?: string;
  readonly url?: string;
  readonly author_id: number;
  readonly project_id: number | null;
  readonly assignee_ids: readonly number[];
  /** @deprecated The first assignee. */
  readonly assignee_id?: number | null;
  readonly milestone_id: number | null;
  readonly labels?: readonly GitlabLabel[];
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by_id?: number | null;
  readonly closed_at?: string | null;
  readonly last_edited_at?: string | null;
  readonly last_edited_by_id?: number | null;
  readonly relative_position?: number | null;
  readonly position?: number;
  readonly branch_name?: string | null;
  readonly confidential?: boolean;
  readonly discussion_locked?: boolean | null;
  readonly due_date?: string | null;
  readonly moved_to_id?: number | null;
  readonly duplicated_to_id?: number | null;
  readonly time_estimate?: number;
  readonly total_time_spent?: number;
  readonly time_change?: number;
  readonly human_total_time_spent?: string | null;
  readonly human_time_estimate?: string | null;
  readonly human_time_change?: string | null;
  readonly weight?: number | null;
  readonly health_status?: string | null;
  readonly severity?: string;
  readonly escalation_status?: string;
  readonly escalation_policy?: { readonly id: number; readonly name: string };
};

/**
 * A merge request at GitLab.
 *
 * @category Types of payloads
 */
export type GitlabMergeRequest = {
  readonly id: number;
  readonly iid: number;
  readonly title: string;
  readonly description: string | null;
  /** `opened`, `closed`, `locked` or `merged`. */
  readonly state: string;
  readonly state_id?: number;
  readonly url?: string;
  readonly author_id: number;
  readonly source_branch: string;
  readonly source_project_id: number | null;
  readonly target_branch: string;
  readonly target_project_id: number;
  /** The project that the commits come from; null if it was deleted. */
  readonly source: Omit<GitlabProject, "id"> & { readonly id?: number } | null;
  readonly target: Omit<GitlabProject, "id"> & { readonly id?: number };
  readonly last_commit: GitlabCommit | null;
  readonly assignee?: GitlabPerson | null;
  readonly assignee_ids?: readonly number[];
  /** @deprecated The first assignee. */
  readonly assignee_id?: number | null;
  readonly reviewer_ids?: readonly number[];
  readonly milestone_id: number | null;
  readonly labels?: readonly GitlabLabel[];
  readonly created_at: string;
  readonly updated_at: string;
  readonly prepared_at?: string | null;
  readonly last_edited_at?: string | null;
  readonly last_edited_by_id?: number | null;
  readonly position?: number;
  readonly work_in_progress: boolean;
  readonly draft?: boolean;
  readonly first_contribution?: boolean;
  readonly blocking_discussions_resolved?: boolean;
  /** @deprecated Read `detailed_merge_status`. */
  readonly merge_status?: string;
  readonly detailed_merge_status?: string;
  readonly total_time_spent?: number;
  readonly time_change?: number;
  readonly human_total_time_spent?: string | null;
  readonly human_time_estimate?: string | null;
  readonly human_time_change?: string | null;
};

/**
 * A comment at GitLab.
 *
 * @category Types of payloads
 */
export type GitlabNote = {
  readonly id: number;
  readonly note: string;
  readonly description?: string;
  /** `Commit`, `MergeRequest`, `Issue` or `Snippet`. */
  readonly noteable_type: string;
  readonly noteable_id: number | null;
  readonly author_id: number;
  readonly project_id: number | null;
  readonly created_at: string;
  readonly updated_at: string;
  readonly updated_by_id?: number | null;
  readonly url: string;
  readonly internal?: boolean;
  readonly system: boolean;
  readonly attachment: unknown;
  readonly line_code: string | null;
  readonly commit_id: string | null;
  readonly discussion_id?: string;
  readonly type?: string | null;
  readonly position?: unknown;
  readonly original_position?: unknown;
  readonly change_position?: unknown;
  readonly resolved_at?: string | null;
  readonly resolved_by_id?: number | null;
  readonly resolved_by_push?: boolean | null;
  readonly st_diff: {
    readonly diff: string;
    readonly new_path: string;
    readonly old_path: string;
    readonly a_mode: string;
    readonly b_mode: string;
    readonly new_file: boolean;
    readonly renamed_file: boolean;
    readonly deleted_file: boolean;
  } | null;
};

/**
 * The payloads of GitLab's events by their type: `merge_request` for a delivery with the header
 * `X-Gitlab-Event: Merge Request Hook`.
 *
 * @category Types of payloads
 */
export interface GitlabEvents {
  /** Commits pushed to a branch, or a branch made or deleted. */
  readonly push: {
    readonly object_kind: "push";
    readonly event_name: "push";
    /** Zeros if the branch or tag is new. */
    readonly before: string;
    /** Zeros if the branch or tag was deleted. */
    readonly after: string;
    readonly ref: string;
    readonly ref_protected?: boolean;
    /** Null if the branch or tag was deleted. */
    readonly checkout_sha: string | null;
    readonly message?: string | null;
    readonly user_id: number;
    readonly user_name: string;
    readonly user_username: string;
    readonly user_email?: string | null;
    readonly user_avatar: string | null;
    readonly project_id: number;
    readonly project: GitlabProject;
    /** The newest 20 commits; `total_commits_count` counts all. */
    readonly commits: readonly GitlabCommit[];
    readonly total_commits_count: number;
    readonly push_options?: { readonly [name: string]: unknown };
    readonly repository: GitlabRepository;
  };
  /** A tag made or deleted. */
  readonly tag_push: Omit<GitlabEvents["push"], "object_kind" | "event_name"> & {
    readonly object_kind: "tag_push";
    readonly event_name: "tag_push";
  };
  /** A change to an issue or another work item. */
  readonly issue: {
    readonly object_kind: "issue" | "work_item";
    readonly event_type: string;
    readonly user: GitlabUser;
    readonly project: GitlabProject;
    readonly object_attributes: GitlabIssue & {
      /** The change itself. The test deliveries of older versions leave it out. */
      readonly action?: "open" | "close" | "reopen" | "update";
    };
    readonly repository: GitlabRepository;
    readonly assignees?: readonly GitlabPerson[];
    /** @deprecated The first assignee. */
    readonly assignee?: GitlabPerson;
    readonly labels: readonly GitlabLabel[];
    readonly changes: GitlabChanges;
  };
  /** A change to a confidential issue. */
  readonly confidential_issue: GitlabEvents["issue"];
  /** A comment on a commit, merge request, issue or snippet. */
  readonly note: {
    readonly object_kind: "note";
    readonly event_type: "note" | "confidential_note";
    readonly user: GitlabUser;
    readonly project_id: number;
    readonly project: GitlabProject;
    readonly repository: GitlabRepository;
    readonly object_attributes: GitlabNote & {
      /** The change itself. Versions before 16.11 leave it out. */
      readonly action?: "create" | "update";
    };
    readonly commit?: GitlabCommit;
    readonly issue?: GitlabIssue;
    readonly merge_request?: GitlabMergeRequest;
    readonly snippet?: {
      readonly id: number;
      readonly title: string;
      readonly description?: string | null;
      readonly content: string;
      readonly author_id: number;
      readonly project_id: number | null;
      readonly created_at: string;
      readonly updated_at: string;
      readonly file_name: string;
      readonly type: string;
      readonly visibility_level: number;
      readonly url?: string;
    };
  };
  /** A comment that is internal, or on a confidential issue. */
  readonly confidential_note: GitlabEvents["note"];
  /** A change to a merge request. */
  readonly merge_request: {
    readonly object_kind: "merge_request";
    readonly event_type: "merge_request";
    readonly user: GitlabUser;
    readonly project: GitlabProject;
    readonly repository: GitlabRepository;
    readonly object_attributes: GitlabMergeRequest & {
      readonly url: string;
      /** The change itself. The test deliveries of older versions leave it out. */
      readonly action?:
        | "open"
        | "close"
        | "reopen"
        | "update"
        | "approval"
        | "approved"
        | "unapproval"
        | "unapproved"
        | "merge";
      /** The commit before, if there are new ones. */
      readonly oldrev?: string;
      /** True if GitLab itself caused the event, and no user. */
      readonly system?: boolean;
      readonly system_action?: "approvals_reset_on_push" | "code_owner_approvals_reset_on_push";
    };
    readonly labels: readonly GitlabLabel[];
    readonly changes: GitlabChanges;
    readonly assignees?: readonly GitlabPerson[];
    readonly reviewers?: readonly GitlabPerson[];
  };
  /** A change to a page of a wiki. */
  readonly wiki_page: {
    readonly object_kind: "wiki_page";
    readonly user: GitlabUser;
    readonly project: GitlabProject;
    readonly wiki: {
      readonly web_url: string;
      readonly git_ssh_url: string;
      readonly git_http_url: string;
      readonly path_with_namespace: string;
      readonly default_branch: string | null;
    };
    readonly object_attributes: {
      readonly title: string;
      readonly content: string;
      readonly format: string;
      readonly message: string | null;
      readonly slug: string;
      readonly url: string;
      readonly action: "create" | "update" | "delete";
      readonly diff_url?: string;
      readonly version_id?: string;
    };
  };
  /** A new status of a pipeline. */
  readonly pipeline: {
    readonly object_kind: "pipeline";
    readonly object_attributes: {
      readonly id: number;
      readonly iid?: number;
      readonly name?: string | null;
      readonly ref: string;
      readonly tag: boolean;
      readonly sha: string;
      readonly before_sha: string;
      readonly source: string;
      readonly status: string;
      readonly detailed_status: string;
      readonly stages: readonly string[];
      readonly created_at: string;
      readonly finished_at: string | null;
      readonly duration: number | null;
      readonly queued_duration?: number | null;
      readonly variables: readonly { readonly key: string; readonly value: string }[];
      readonly url?: string;
    };
    readonly merge_request?: {
      readonly id: number;
      readonly iid: number;
      readonly title: string;
      readonly source_branch: string;
      readonly source_project_id: number | null;
      readonly target_branch: string;
      readonly target_project_id: number;
      readonly state: string;
      /** @deprecated Read `detailed_merge_status`. */
      readonly merge_status: string;
      readonly detailed_merge_status?: string;
      readonly url: string;
    } | null;
    readonly user: GitlabUser | null;
    readonly project: GitlabProject;
    readonly commit: GitlabCommit | null;
    readonly builds: readonly {
      readonly id: number;
      readonly stage: string;
      readonly name: string;
      readonly status: string;
      readonly created_at: string;
      readonly started_at: string | null;
      readonly finished_at: string | null;
      readonly duration: number | null;
      readonly queued_duration?: number | null;
      readonly failure_reason?: string | null;
      readonly when: string;
      readonly manual: boolean;
      readonly allow_failure: boolean;
      readonly user: GitlabUser | null;
      readonly runner: {
        readonly id: number;
        readonly description: string | null;
        readonly runner_type?: string;
        readonly active: boolean;
        readonly is_shared: boolean;
        readonly tags?: readonly string[];
      } | null;
      readonly artifacts_file: { readonly filename: string | null; readonly size: number | null };
      readonly environment?: {
        readonly name: string;
        readonly action: string;
        readonly deployment_tier?: string | null;
      } | null;
    }[];
    readonly source_pipeline?: {
      readonly project: {
        readonly id: number;
        readonly web_url: string;
        readonly path_with_namespace: string;
      };
      readonly pipeline_id: number;
      readonly job_id: number | null;
    };
  };
  /** A new status of a job. */
  readonly job: {
    readonly object_kind: "build";
    readonly ref: string;
    readonly tag: boolean;
    readonly before_sha: string;
    readonly sha: string;
    readonly retries_count?: number;
    readonly build_id: number;
    readonly build_name: string;
    readonly build_stage: string;
    readonly build_status: string;
    readonly build_created_at: string;
    readonly build_started_at: string | null;
    readonly build_finished_at: string | null;
    readonly build_created_at_iso?: string;
    readonly build_started_at_iso?: string | null;
    readonly build_finished_at_iso?: string | null;
    readonly build_duration: number | null;
    readonly build_queued_duration?: number | null;
    readonly build_allow_failure: boolean;
    readonly build_failure_reason: string | null;
    readonly pipeline_id: number;
    readonly runner: GitlabEvents["pipeline"]["builds"][number]["runner"];
    readonly project_id: number;
    readonly project_name: string;
    readonly user: GitlabUser | null;
    readonly commit: {
      /** Id of the pipeline, and not of the commit. */
      readonly id: number;
      readonly name?: string | null;
      readonly sha: string;
      readonly message: string | null;
      readonly author_name: string | null;
      readonly author_email: string | null;
      readonly author_url?: string;
      readonly status: string;
      readonly duration: number | null;
      readonly started_at: string | null;
      readonly finished_at: string | null;
      readonly started_at_iso?: string | null;
      readonly finished_at_iso?: string | null;
    };
    readonly repository: GitlabRepository;
    readonly project?: GitlabProject;
    readonly environment?: GitlabEvents["pipeline"]["builds"][number]["environment"];
    readonly source_pipeline?: GitlabEvents["pipeline"]["source_pipeline"];
  };
  /** A new status of a deployment. */
  readonly deployment: {
    readonly object_kind: "deployment";
    readonly status: string;
    readonly status_changed_at: string;
    readonly deployment_id: number;
    readonly deployable_id: number | null;
    /** Null if no job has made the deployment. */
    readonly deployable_url: string | null;
    readonly environment: string;
    readonly environment_tier?: string;
    readonly environment_slug?: string;
    readonly environment_external_url?: string | null;
    readonly project: GitlabProject;
    readonly short_sha: string;
    readonly user: GitlabUser | null;
    readonly user_url: string | null;
    readonly commit_url: string | null;
    readonly commit_title: string | null;
  };
  /** A feature flag turned on or off. */
  readonly feature_flag: {
    readonly object_kind: "feature_flag";
    readonly project: GitlabProject;
    readonly user: GitlabUser;
    readonly user_url: string;
    readonly object_attributes: {
      readonly id: number;
      readonly name: string;
      readonly description: string | null;
      readonly active: boolean;
    };
  };
  /** A release made, changed or deleted. */
  readonly release: {
    readonly object_kind: "release";
    readonly id: number;
    readonly created_at: string;
    readonly description: string | null;
    readonly name: string;
    readonly released_at: string;
    readonly tag: string;
    readonly project: GitlabProject;
    readonly url: string;
    readonly action: "create" | "update" | "delete";
    readonly assets: {
      readonly count: number;
      readonly links: readonly {
        readonly id: number;
        readonly link_type: string;
        readonly external?: boolean;
        readonly name: string;
        readonly url: string;
      }[];
      readonly sources: readonly { readonly format: string; readonly url: string }[];
    };
    readonly commit: GitlabCommit | null;
  };
  /** A milestone made, closed, reopened or deleted. */
  readonly milestone: {
    readonly object_kind: "milestone";
    readonly event_type: "milestone";
    readonly project: GitlabProject;
    readonly object_attributes: {
      readonly id: number;
      readonly iid: number;
      readonly title: string;
      readonly description: string | null;
      readonly state: string;
      readonly created_at: string;
      readonly updated_at: string;
      readonly due_date: string | null;
      readonly start_date: string | null;
      readonly group_id: number | null;
      readonly project_id: number | null;
    };
    readonly action: "create" | "close" | "reopen" | "delete";
  };
  /** A reaction added or removed. */
  readonly emoji: {
    readonly object_kind: "emoji";
    readonly event_type: "award" | "revoke";
    readonly user: GitlabUser;
    readonly project_id: number;
    readonly project: GitlabProject;
    readonly object_attributes: {
      readonly id: number;
      readonly user_id: number;
      readonly name: string;
      /** `Issue`, `MergeRequest`, `Snippet` or `Note`. */
      readonly awardable_type: string;
      readonly awardable_id: number;
      readonly created_at: string;
      readonly updated_at: string;
      readonly action: "award" | "revoke";
      readonly awarded_on_url: string;
    };
    readonly note?: GitlabNote;
    readonly commit?: GitlabCommit;
    readonly issue?: GitlabIssue;
    readonly merge_request?: GitlabMergeRequest;
  };
  /** A token of a project or group that is about to expire. */
  readonly resource_access_token: {
    readonly object_kind: "access_token";
    readonly event_name: "expiring_access_token";
    readonly project?: GitlabProject;
    readonly group?: {
      readonly group_name: string;
      readonly group_path: string;
      readonly group_id: number;
      readonly full_path?: string;
    };
    readonly object_attributes: {
      readonly user_id: number;
      readonly created_at: string;
      readonly id: number;
      readonly name: string;
      readonly expires_at: string;
    };
  };
  /** A vulnerability found or changed, or linked to an issue. */
  readonly vulnerability: {
    readonly object_kind: "vulnerability";
    readonly object_attributes: {
      readonly url: string;
      readonly title: string;
      readonly state: string;
      readonly project_id: number;
      readonly location: { readonly [field: string]: unknown } | null;
      readonly cvss: readonly { readonly vector: string; readonly vendor: string }[];
      readonly severity: string;
      readonly severity_overridden: boolean;
      readonly identifiers: readonly {
        readonly name: string;
        readonly external_id: string;
        readonly external_type: string;
        readonly url: string | null;
      }[];
      readonly issues: readonly {
        readonly title: string;
        readonly url: string;
        readonly created_at: string;
        readonly updated_at: string;
      }[];
      readonly report_type: string;
      readonly confidence?: string;
      readonly confidence_overridden?: boolean;
      readonly confirmed_at: string | null;
      readonly confirmed_by_id: number | null;
      readonly dismissed_at: string | null;
      readonly dismissed_by_id: number | null;
      readonly resolved_at: string | null;
      readonly resolved_by_id: number | null;
      readonly auto_resolved: boolean;
      readonly resolved_on_default_branch: boolean;
      readonly created_at: string;
      readonly updated_at: string;
    };
  };
  /** A member of a group added, changed or removed, or asking for access. */
  readonly member: {
    readonly event_name:
      | "user_add_to_group"
      | "user_update_for_group"
      | "user_remove_from_group"
      | "user_access_request_to_group"
      | "user_access_request_denied_for_group";
    readonly created_at: string;
    readonly updated_at: string;
    readonly group_name: string;
    readonly group_path: string;
    readonly group_id: number;
    readonly user_username: string;
    readonly user_name: string;
    readonly user_email: string;
    readonly user_id: number;
    readonly group_access: string;
    readonly group_plan: string | null;
    readonly expires_at: string | null;
  };
  /** A project of a group made or deleted. */
  readonly project: {
    readonly event_name: "project_create" | "project_destroy";
    readonly created_at: string;
    readonly updated_at: string;
    readonly name: string;
    readonly path: string;
    readonly path_with_namespace: string;
    readonly project_id: number;
    readonly project_namespace_id?: number;
    readonly owners: readonly { readonly name: string; readonly email: string }[];
    readonly project_visibility: string;
  };
  /** A subgroup of a group made or deleted. */
  readonly subgroup: {
    readonly event_name: "subgroup_create" | "subgroup_destroy";
    readonly created_at: string;
    readonly updated_at: string;
    readonly name: string;
    readonly path: string;
    readonly full_path: string;
    readonly group_id: number;
    readonly parent_group_id: number;
    readonly parent_name: string;
    readonly parent_path: string;
    readonly parent_full_path: string;
  };
}
