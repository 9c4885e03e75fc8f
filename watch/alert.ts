/**
 * Message that something is wrong with an app, or that it is over. `onAlert` of its definition gets one of each.
 *
 * @category Apps
 */
export interface Alert {
  /** Name of the app. */
  readonly app: string;
  /**
   * Kind of the thing that is wrong.
   *
   * - `oldest_due`: an event has been due for over a minute, and no process has taken it.
   * - `places_held`: all places of a process are held, for over a minute while events are due, or for over five; or a
   *   handler runs past its time limit.
   * - `failure_rate`: at least a fifth of the attempts of the last 15 minutes have failed, and at least five.
   * - `dead`: events have died in the last hour, and some of them are dead still: nobody has replayed or purged them.
   * - `refused`: at least three deliveries to a platform were refused because of their secret, and none was verified since,
   *   for 90 seconds to 150. A stranger may have sent them if over 30 came in two minutes, and five times as many as in the
   *   busiest minute of the last 75, or if others were refused beside verified ones before: then none must have been
   *   verified for twice the longest pause in these 75 minutes. Without a verified one in these, anybody's will do.
   * - `problem`: a handler fails by an error that came up in the last hour: an event has died of it, or three attempts have
   *   failed. It is over once no event waits or is dead because of it, and no attempt has failed by it for an hour. If it
   *   comes back after that, it is new. Of more than 50 in an hour, or 1,000 that are not over, the number of the others is
   *   told (`problems`).
   */
  readonly kind: "oldest_due" | "places_held" | "failure_rate" | "dead" | "refused" | "problem";
  /** Name of the thing, the same in the message of its end: `refused:github`. It may come again. */
  readonly key: string;
  /** Says whether it has begun or ended. */
  readonly state: "begun" | "ended";
  /** Sentence for people, without the name of the app. Of events it has ids, types and, of a problem, the error. */
  readonly text: string;
  /** Time since which it is wrong, milliseconds since the epoch. */
  readonly since: number;
  /** Time at which it was over, milliseconds since the epoch; undefined while it is not. */
  readonly endedAt?: number | undefined;
}
