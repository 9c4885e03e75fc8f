import { html, raw } from "@hono/hono/html";
import type { Platform } from "../webhook/mod.ts";
import { exampleOf, type ExampleSender, exampleTypes } from "./_examples.ts";
import { type Html, link, shown } from "./_format.ts";
import type { Page } from "./_layout.ts";
import { text, word } from "./_query.ts";
import { type Answering, checkOperator, type Visit } from "./_visit.ts";

/** Largest form with an example. */
export const MAX_EXAMPLE_BYTES = 262_144;

/** Longest payload as a form encodes it: the other fields take the rest. */
const MAX_ENCODED = MAX_EXAMPLE_BYTES - 1_144;

/** Example that is shown for sending. */
interface ExampleChoice {
  /** Platform; undefined if there is none. */
  readonly platform: Platform | undefined;
  /** Type of the event. */
  readonly type: string | undefined;
  /** Payload that was sent last; undefined for the example. */
  readonly payload?: string | undefined;
}

/** Result of sending an example. */
interface SentExample {
  /** Status of the answer. */
  readonly status: number;
  /** Text of the answer. */
  readonly text: string;
  /** Id of the event, if the delivery made one. */
  readonly eventId: string | undefined;
}

/** Makes the answers to an operator who sends examples: the form, and what follows it. */
export function sendAnswers(
  examples: ExampleSender,
): { readonly page: Answering; readonly form: Answering } {
  return { page: (visit) => show(examples, visit), form: (visit) => sendOne(examples, visit) };
}

function show(
  examples: ExampleSender,
  { parameters, session }: Visit,
  sent?: SentExample,
  payload?: string,
): Page {
  checkOperator(session);
  const { platforms } = examples;
  const name = word(parameters, "platform", platforms.map((each) => each.name));
  const platform = platforms.find((each) => each.name === name);
  const choice = { platform, type: text(parameters, "type"), payload };
  return { title: "Send an example", at: "send", body: sendPage(platforms, choice, sent) };
}

async function sendOne(examples: ExampleSender, visit: Visit): Promise<Page> {
  const { parameters } = visit;
  const [platform, type] = [parameters.get("platform") ?? "", text(parameters, "type") ?? ""];
  const payload = parameters.get("payload") ?? "";
  const { response, eventId } = await examples.send(platform, type, payload);
  const { status, ok } = response;
  const answer = await response.text();
  return show(
    examples,
    visit,
    { status, text: answer, eventId: ok ? eventId : undefined },
    payload,
  );
}

/** Makes the body of the page that sends an example delivery to the app itself. */
function sendPage(
  platforms: readonly Platform[],
  { platform = platforms[0], type, payload }: ExampleChoice,
  sent: SentExample | undefined,
): Html {
  if (!platform) {
    return html`
      <h1>Send an example</h1>
      <div class="empty">
        <p>This app has no platform whose secret is in a variable.
      Sign a delivery with <code>deno task send</code>.</p>
      </div>
    `;
  }
  const { name, kind } = platform;
  const types = exampleTypes(kind);
  const chosen = types.includes(type ?? "") ? type! : types[0]!;
  return html`
    <div class="head">
      <h1>Send an example</h1>
    </div>
    <p
      class="dim">The app signs it with the platform's own secret and sends it to itself. This page is here because of
    <code>CONSOLE_ENVIRONMENT=development</code>.</p>${sent && result(sent)}
    <div class="more">${platforms.flatMap((each) =>
      exampleTypes(each.kind).map((type) =>
        html`
          <a href="${link("send", { platform: each.name, type })}" ${raw(
            each === platform && type === chosen ? ' aria-current="true"' : "",
          )}>${platforms.length > 1 && `${each.name} `}${type}</a>
        `
      )
    )}</div>
    <form method="post"
      action="send"><p><input type="hidden" name="platform" value="${name}"><input type="hidden" name="type" value="${chosen}">
    <label for="payload">Payload of <b>${chosen}</b> for ${shown(name)}</label>
    <textarea id="payload" name="payload" required data-max="${MAX_ENCODED}" spellcheck="false">${payload ??
      exampleOf(kind, chosen)}</textarea></p>
    <button class="go">Send</button></form>
  `;
}

function result({ status, text, eventId }: SentExample): Html {
  return html`
    <div class="note${status < 300 ? "" : " bad"}" role="status">
      <p>Answered ${status}: ${shown(text, 300)}${eventId !== undefined && html`
        · <a href="${link("delivery", { id: eventId })}">Open it</a>
      `}</p>
    </div>
  `;
}
