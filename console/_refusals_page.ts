import { SECRET_CODES } from "../watch/health.ts";
import type { Activity, RefusedNumbers } from "../watch/activity.ts";
import type { NotedRefusals, RefusalSample } from "../watch/refusals.ts";
import type { ConsoleData } from "./_console_data.ts";
import { dated, type Html, number, shown, when } from "./_format.ts";
import {
  beside,
  dim,
  facts,
  live,
  type Page,
  type PageContext,
  tag,
  type Visit,
} from "./_layout.ts";

/** Error codes besides those of other secrets: what they mean. */
const MEANINGS: Readonly<Record<string, string>> = {
  ...SECRET_CODES,
  MISSING_SIG: "there is no signature",
  MISSING_TOKEN: "there is no token",
  AUTH_001: "the user is not allowed",
  QUEUE_UNAVAILABLE: "the store did not take it in time",
  OVERLOADED: "too many bodies came at once",
  BODY_TOO_LARGE: "the body is too large",
  BODY_TIMEOUT: "the body came too slowly",
  UNSUPPORTED_MEDIA_TYPE: "the form of the body is not supported",
  NOT_FOUND: "the address is spelled otherwise",
};

/** Error codes: what to do about them, if that is known. */
const REMEDIES: Readonly<Record<string, string>> = {
  INVALID_SIG:
    "Set the same secret at the sender and in the app, without a line break at its end, and start the app " +
    "anew. If they are the same, something between them changes the body, or somebody is guessing.",
  INVALID_TOKEN: "Set the same token at the sender and in the app, and start the app anew.",
  STALE_SIG:
    "Set the clock of this machine (NTP). A delivery that was held up has to be sent again.",
  MISSING_SIG:
    "If your sender is among them, set the secret there. Otherwise somebody has found the address: nothing " +
    "is to be done.",
  MISSING_TOKEN:
    "If your sender is among them, set the token there. Otherwise somebody has found the address: nothing " +
    "is to be done.",
  AUTH_001: "Allow the user, whose id is in the log, if that is meant.",
  QUEUE_UNAVAILABLE: "Look at the database and its disk. Have the sender deliver these again.",
  OVERLOADED:
    "Have the sender deliver these again. Raise maxTotalBodyBytes if there is memory for it.",
};

/** Reads the refused deliveries. */
export function readRefusals(data: ConsoleData): Promise<NotedRefusals[]> {
  return data.refusals();
}

/** Takes out of refused deliveries what their senders have written. */
export const withoutSamples = (found: readonly NotedRefusals[]): object[] =>
  found.map(({ samples: _, ...refused }) => refused);

/** Answers with the page of refused deliveries. */
export async function refusals({ data, context }: Visit): Promise<Page> {
  const [found, activity] = await Promise.all([readRefusals(data), data.activity("hour")]);
  const list = found.length === 0
    ? tag(
      "p.dim",
      "No delivery was refused in the last day, as far as the processes have noted it.",
    )
    : [lost(), found.map((each) => section(each, activity, context)), howCounted()];
  const body = live("rest", tag("div.head", tag("h1", "Refused deliveries")), list);
  return { title: "Refused deliveries", at: "", body, isLive: true, isPrivate: true };
}

/** Says what has become of them. */
function lost(): Html {
  return tag(
    "div.note",
    tag(
      "p",
      tag("b", "These deliveries were answered with an error, and were not stored."),
      " They are lost unless their senders send them again. First mend what is wrong below, then have the sender " +
        "deliver them again. GitHub, GitLab, Gitea and Forgejo do so by hand alone, on their page of the webhook's " +
        "recent deliveries: GitHub calls it Redeliver, and keeps them for three days (events catch-up leaves out what " +
        "was refused). Stripe, Slack and Telegram try again by themselves for a while.",
    ),
  );
}

/** Says how they are counted. */
function howCounted(): Html {
  return tag(
    "p.dim",
    "Counted here: each kind since its first refusal without a pause of an hour, and beside it the last hour, as on " +
      "the first page. The red box there counts only refusals because of a secret, since the last delivery that was " +
      "verified, of the last 75 minutes at most.",
  );
}

function section(
  refused: NotedRefusals,
  activity: Activity | null,
  { platforms, hidesPayloads }: PageContext,
): Html {
  const { source, code, since, last, count, samples } = refused;
  const variables = platforms?.get(source)?.filter((name) => /SECRET|TOKEN|KEY/.test(name));
  const isSecret = Object.hasOwn(SECRET_CODES, code);
  const isSame = (other: RefusedNumbers) => other.source === source && other.code === code;
  const inHour = activity && (activity.refusedBy.find(isSame)?.count ?? 0);
  return tag(
    "section",
    tag("h2", `${shown(source)}: `, MEANINGS[code] ?? shown(code), beside(shown(code))),
    facts([
      ["deliveries", number(count)],
      ["since", dated(since)],
      ["in the last hour", inHour !== null && number(inHour)],
      ["last", dated(last)],
      ["what to do", REMEDIES[code]],
      ["variables", isSecret && variables && variables.length > 0 && variables.join(", "), ".mono"],
    ]),
    !hidesPayloads && samples.toReversed().map(sampleOf),
  );
}

function sampleOf({ at, address, headers }: RefusalSample): Html {
  return tag(
    "details",
    tag("summary", when(at), ` from ${shown(address ?? "an unknown address", 60)}`),
    facts(
      headers.map(({ name, value }) =>
        [shown(name, 60), value === undefined ? dim("not shown") : shown(value), ".mono"] as const
      ),
    ),
  );
}
