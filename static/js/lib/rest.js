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

  /** Whether nothing of ours answered: no server, or what stands before one that is away. */
  get isOfConnection() {
    return this.status === 0 || [502, 503, 504].includes(this.status);
  }

  /** The sentences alone. */
  get sentences() {
    return this.errors.map((error) => error.message).join(" ");
  }
}

/**
 * Whether the same request may go well a little later: nobody answered, or the server could not for now.
 * @param {unknown} error
 */
export function mayPass(error) {
  return !(error instanceof RestError) || error.status < 400 || error.status === 429 || error.status >= 500;
}

/** A value as JSON, with numbers that JavaScript would round, or take for whole ones. */
export class JsonText {
  /** @param {string} text */
  constructor(text) {
    this.text = text;
  }

  /** An object of such values. @param {Record<string, JsonText>} values */
  static ofObject(values) {
    return new JsonText(`{${Object.entries(values).map(([name, value]) => `${JSON.stringify(name)}: ${value.text}`).join(", ")}}`);
  }
}

/** @param {unknown} body */
const jsonOf = (body) => (body instanceof JsonText ? body.text : JSON.stringify(body));

/**
 * One request; the JSON of a good answer. Throws RestError.
 * @param {"GET" | "POST" | "PATCH" | "DELETE"} method
 * @param {string} path  below /api/v1/
 * @param {unknown} [body]  a JsonText as it stands, else a value
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
      method, headers, credentials: "same-origin", body: body === undefined ? undefined : jsonOf(body),
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
