import { HttpError, type LogSink, writeLog } from "../core/mod.ts";
import { type AuthorizeUser, userIdOf } from "./authorize.ts";
import type { Delivery } from "../events/store/delivery.ts";

/** For how many updates it is remembered that the check has failed. */
const MAX_REMEMBERED = 1_000;

/** Decides whether an update is wanted, for the bindings and the log of its request. */
export type DecideUpdate = (env: object, update: Delivery, log: LogSink) => Promise<boolean>;

/**
 * Lets a check fail once for an update, which is then sent again. A second failure is taken for no: what
 * is answered 5xx each time holds up the later updates of the same chat for a day.
 */
export function failingOnce<TEnv extends object>(isAuthorized: AuthorizeUser<TEnv>): DecideUpdate {
  const failed = new Set<string>();
  return async (env, { payload, deliveryId }, log) => {
    try {
      return await isAuthorized(env as TEnv, userIdOf(payload));
    } catch (error) {
      const isOwnAnswer = error instanceof HttpError && error.status < 500;
      if (isOwnAnswer || deliveryId === undefined || !failed.delete(deliveryId)) {
        remember(failed, deliveryId);
        throw error;
      }
      const fields = { deliveryId, error };
      writeLog(log, "error", "update refused: its user could not be checked twice", fields);
      return false;
    }
  };
}

function remember(failed: Set<string>, id: string | undefined): void {
  if (id === undefined) return;
  failed.add(id);
  const [oldest] = failed;
  if (failed.size > MAX_REMEMBERED) failed.delete(oldest!);
}
