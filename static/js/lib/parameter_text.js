/** The parameters of a trial as text to use elsewhere. */

/** @type {Record<string, (parameters: Record<string, unknown>) => string>} */
export const FORMS = { json: (parameters) => JSON.stringify(parameters, null, 2), "command-line": commandLine, python };

/**
 * "--lr 0.01 --name 'a b'": what is nested is JSON, and what has no value is left out.
 * @param {Record<string, unknown>} parameters
 */
function commandLine(parameters) {
  return Object.entries(parameters).filter(([, value]) => value !== null)
    .map(([name, value]) => `--${quoted(name)} ${quoted(typeof value === "string" ? value : JSON.stringify(value))}`).join(" ");
}

/** For a shell. @param {string} text */
function quoted(text) {
  return /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;
}

/**
 * A literal of Python.
 * @param {unknown} value
 * @returns {string}
 */
function python(value) {
  if (value === null) return "None";
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return `{${Object.entries(value).map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(", ")}}`;
}
