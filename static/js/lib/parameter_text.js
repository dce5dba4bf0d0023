/** The parameters of a trial as text to use elsewhere. What is given is the JSON of each. */

import { Digits, readDigits } from "./exact_json.js";

/** @type {Record<string, (parameters: Record<string, string>) => string>} */
export const FORMS = { json, "command-line": commandLine, python: (parameters) => dictionary(Object.entries(parameters).map(([name, text]) => [name, /^[-\d]/.test(text) ? new Digits(text) : readDigits(text)])) };

/** @param {Record<string, string>} parameters */
function json(parameters) {
  const lines = Object.entries(parameters).map(([name, text]) => `  ${JSON.stringify(name)}: ${text.replaceAll(/\n( *)/g, "\n  $1$1")}`);
  return lines.length ? `{\n${lines.join(",\n")}\n}` : "{}";
}

/**
 * "--lr 0.01 --name 'a b'": what is nested is JSON, and what has no value is left out.
 * @param {Record<string, string>} parameters
 */
function commandLine(parameters) {
  return Object.entries(parameters).filter(([, text]) => text !== "null")
    .map(([name, text]) => `--${quoted(name)} ${quoted(text.startsWith('"') ? JSON.parse(text) : text.replaceAll(/\n */g, ""))}`).join(" ");
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
  if (value instanceof Digits) return value.text;
  if (typeof value === "boolean") return value ? "True" : "False";
  if (typeof value !== "object") return JSON.stringify(value);
  if (Array.isArray(value)) return `[${value.map(python).join(", ")}]`;
  return dictionary(Object.entries(value));
}

/** @param {[string, unknown][]} entries */
function dictionary(entries) {
  return `{${entries.map(([name, one]) => `${JSON.stringify(name)}: ${python(one)}`).join(", ")}}`;
}
