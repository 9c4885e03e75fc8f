import type { EventRecord, StoredEvent } from "../events/mod.ts";
import { clientIp } from "../middleware/mod.ts";
import { confirmAllPage, confirmOnePage, fieldsOf, whyNothingChanged } from "./_act_pages.ts";
import { newActId } from "./_act_record.ts";
import type { ActKind, ConsoleData, DeliveryQuery } from "./_console_data.ts";
import { link } from "./_format.ts";
import { redirect } from "./_http.ts";
import type { Page } from "./_layout.ts";
import { found } from "./_look_answers.ts";
import { actIdOf, kindOf, kindsFor, ParameterError, queryOf, text } from "./_query.ts";
import { type Answering, checkOperator, Refusal, type Visit } from "./_visit.ts";

/** Parts that acts are answered with. */
interface ActOptions {
  readonly data: ConsoleData;
  readonly trustedProxyHops: number;
}

/** Makes the answers to an operator who acts: the question, and what follows its form. */
export function actAnswers(
  options: ActOptions,
): { readonly page: Answering; readonly form: Answering; readonly stop: Answering } {
  return {
    page: (visit) => confirm(options, visit),
    form: (visit) => act(options, visit),
    stop: (visit) => stop(options, visit),
  };
}

async function confirm(
  { data }: ActOptions,
  { parameters, session, context, isPoll }: Visit,
): Promise<Page> {
  checkOperator(session);
  const kind = kindOf(parameters);
  const id = text(parameters, "id");
  const page = { title: "Confirm", at: "deliveries" };
  if (id !== undefined) {
    // Made before the event is read: what comes after that is not part of the answer.
    const actId = newActId();
    const { event } = await found(data, id);
    const why = await whyNot(data, kind, event);
    return { ...page, body: confirmOnePage({ kind, actId, why }, event, context) };
  }
  const query = choiceOf(parameters, kind);
  const count = await data.countFor(kind, query, isPoll);
  const actId = newActId(count.askedAt);
  return { ...page, body: confirmAllPage({ kind, actId, count }, query), isLive: count.isMore };
}

/** Finds why an act on an event would change nothing; undefined if it would change it. */
async function whyNot(
  data: ConsoleData,
  kind: ActKind,
  event: StoredEvent,
): Promise<string | undefined> {
  const needsPayload = kind === "replay" && event.state === "done";
  const isKept = !needsPayload ||
    await data.payload(event as EventRecord) !== null;
  return whyNothingChanged(kind, event, isKept);
}

function choiceOf(parameters: URLSearchParams, kind: ActKind): DeliveryQuery {
  const query = queryOf(parameters);
  if (kindsFor(query.state).includes(kind)) return query;
  throw new ParameterError("'state' must be one that allows this act");
}

async function act(
  { data, trustedProxyHops }: ActOptions,
  { c, parameters: form, session }: Visit,
): Promise<Response> {
  const parameters = fieldsOf(form);
  const kind = kindOf(parameters);
  const id = text(parameters, "id");
  const by = nameOf({ c, session }, trustedProxyHops);
  const actId = actIdOf(parameters);
  if (id !== undefined) {
    const done = await data.act(kind, id, by, actId);
    if (done.eventId !== id || done.kind !== kind) {
      throw new ParameterError("'act' must be that of the question");
    }
    if (done.changed === 0 && done.state === "finished") await refuseAct(data, kind, id);
    const isThere = done.changed > 0 && kind !== "purge";
    return redirect(isThere ? link("delivery", { id }) : link("progress", { id: done.id }));
  }
  const query = choiceOf(parameters, kind);
  if (actId === undefined) throw new ParameterError("'act' must be given");
  const begun = await data.actOnAll(kind, query, by, actId);
  const of = parameters.get("of") ?? "";
  return redirect(link("progress", { id: begun.id, of: /^\d{1,9}$/.test(of) ? of : undefined }));
}

/** Stops an act, and leads back to its page. */
async function stop(
  { data, trustedProxyHops }: ActOptions,
  { c, parameters, session }: Visit,
): Promise<Response> {
  const id = text(parameters, "id") ?? "";
  if (await data.getAct(id) === null) {
    throw new Refusal(404, "No such act", "No act with this id is kept.");
  }
  await data.stopAct(id, nameOf({ c, session }, trustedProxyHops));
  return redirect(link("progress", { id }));
}

/** Names who acts, for people. */
function nameOf({ c, session }: Pick<Visit, "c" | "session">, trustedProxyHops: number): string {
  const from = clientIp(c, { trustedProxyHops }) ?? "an unknown address";
  return `${session.role} ${session.id.slice(0, 4)} from ${from}`;
}

/** Answers an act on an event that has changed nothing. */
async function refuseAct(data: ConsoleData, kind: ActKind, id: string): Promise<never> {
  const { event } = await found(data, id);
  const why = await whyNot(data, kind, event) ?? "Its state has changed meanwhile. Look again.";
  throw new Refusal(409, "Nothing was changed", why);
}
