/** Requests to the REST interface, with the session and the token against forged requests. */

/** An answer that is no good. `errors` are [{field, message}]; `message` is all of them in words. */
export class RestError extends Error {
  /**
   * @param {number} status
   * @param {{field: string, message: string}[]} errors
   */
  constructor(status, errors) {
    super(errors.map((error) => (error.field ? `${error.field}: ${error.message}` : error.message)).join(" "));
    this.status = status;
    this.errors = errors;
  }

  /** The sentences alone. */
  get sentences() {
    return this.errors.map((error) => error.message).join(" ");
  }
}

/**
 * One request; the JSON of a good answer. Throws RestError.
 * @param {"GET" | "POST" | "PATCH" | "DELETE"} method
 * @param {string} path  below /api/v1/
 * @param {unknown} [body]
 * @returns {Promise<any>}
 */
export async function rest(method, path, body) {
  /** @type {Record<string, string>} */
  const headers = { Accept: "application/json" };
  if (method !== "GET") headers["X-CSRFToken"] = cookie("csrftoken");
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(`/api/v1/${path}`, {
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : JSON.stringify(body),
    });
  } catch {
    throw new RestError(0, [{ field: "", message: "The server does not answer. Nothing was changed; try again." }]);
  }
  const text = await response.text();
  let answer = null;
  try {
    answer = text ? JSON.parse(text) : null;
  } catch {
    // no JSON: a proxy's page, or nothing of ours
  }
  if (response.ok) return answer;
  throw new RestError(response.status, answer?.errors ?? [{ field: "", message: `The server answered ${response.status}.` }]);
}

/** @param {string} name */
function cookie(name) {
  return document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
}

/** What the server last gave of the parts that no script changes. @type {Map<string, string>} */
const unchanged = new Map();

/**
 * Say at the start that no script changes these parts: then `refreshParts` leaves them alone, with what is focused or
 * selected in them, while the server gives the same.
 * @param {string[]} ids
 */
export function keepWhileSame(ids) {
  for (const id of ids) unchanged.set(id, document.getElementById(id)?.outerHTML ?? "");
}

/**
 * Take parts of this page anew from the server: for what is made there, and for what a frame does not carry.
 * @param {string[]} ids  of elements to replace
 * @param {() => boolean} [wanted]  asked when the answer has come: false where it has been overtaken; then nothing is replaced
 * @returns {Promise<Document>} the page as it would be opened now
 */
export async function refreshParts(ids, wanted = () => true) {
  const response = await fetch(location.href, { credentials: "same-origin", headers: { Accept: "text/html" } });
  if (!response.ok) throw new RestError(response.status, [{ field: "", message: "The page could not be read anew." }]);
  const fresh = new DOMParser().parseFromString(await response.text(), "text/html");
  const [{ localizeTimes }, { nameTrials }] = await Promise.all([import("./words.js"), import("./named_trials.js")]);
  if (!wanted()) return fresh;
  for (const id of ids) {
    const now = document.getElementById(id);
    const then = fresh.getElementById(id);
    if (!now || !then) continue;
    const adopted = document.importNode(then, true);
    localizeTimes(adopted);
    const html = adopted.outerHTML;
    if (unchanged.get(id) === html) continue;
    if (unchanged.has(id)) unchanged.set(id, html);
    now.replaceWith(adopted);
    nameTrials(adopted);
  }
  return fresh;
}
