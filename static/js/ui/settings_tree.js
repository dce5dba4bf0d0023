/**
 * The fields of a platform as its models declare them, made a tree, and their values as texts in controls.
 * What has no control of its own, and a value that does not fit its field, is shown as JSON.
 */

import { exactNumber, readExact, WouldBeRounded } from "../lib/exact_json.js";

/**
 * @typedef {{name: string, of_cluster: boolean, type: string, kind: string, is_required: boolean, default: unknown,
 *   choices: string[], description: string, is_secret: boolean, is_inner: boolean}} Field
 * @typedef {Field & {key: string, label: string, children: Node[]}} Node
 * @typedef {{[name: string]: any}} Group
 */

/** Words that are not written like others. @type {Record<string, string>} */
const WRITTEN = { ssh: "SSH", gpu: "GPU", cpu: "CPU", id: "ID", nfs: "NFS", ca: "CA", url: "URL", qos: "QoS", os: "OS", api: "API" };

/** Field names in files may be written in any case, with underscores. @param {string} name */
const fold = (name) => name.replaceAll("_", "").toLowerCase();

/** The key by which a group has a field. @param {Group} group @param {string} name */
export const keyOf = (group, name) => Object.keys(group).find((key) => fold(key) === fold(name)) ?? name;

/** "sshKeyFile" as people read it: SSH key file. @param {string} key */
export function labelOf(key) {
  const words = key.replace(/([a-z0-9])([A-Z])/g, "$1 $2").replaceAll("_", " ").toLowerCase().split(" ").map((word) => WRITTEN[word] ?? word);
  return words.join(" ").replace(/^./, (first) => first.toUpperCase());
}

/** What one entry of a list is called: machineList has a Machine. @param {string} key */
export const entryOf = (key) => labelOf(key).replace(/ list$/, "").replace(/([^s])s$/, "$1");

/** A flat list of fields, each group before what it holds, as a tree. @param {Field[]} fields @returns {Node[]} */
export function treeOf(fields) {
  /** @type {Node[]} */
  const roots = [];
  /** @type {Map<string, Node>} */
  const groups = new Map();
  for (const field of fields) {
    const parts = field.name.split(".");
    const key = parts.pop() ?? field.name;
    const node = { ...field, key, label: labelOf(key), children: [] };
    const parent = groups.get(parts.join(".").replace(/\[\]$/, ""));
    if (field.is_inner && !parent) continue;
    (parent ? parent.children : roots).push(node);
    if (field.kind === "group" || field.kind === "group_list") groups.set(field.name, node);
  }
  return roots;
}

/** @param {Node} node @returns {boolean} */
const isMain = (node) => node.is_required || node.is_secret || node.children.some((child) => child.is_secret);

/** So many fields are not worth folding away. */
const FEW = 2;

/** Where the further fields of a group begin: behind the last that is required or a secret. @param {Node[]} nodes */
export function furtherFrom(nodes) {
  const last = nodes.findLastIndex(isMain);
  return last < 0 || nodes.length - last - 1 <= FEW ? nodes.length : last + 1;
}

/** Whether somebody chose a value: it is not the default. @param {Node} node @param {any} value */
export const isChosen = (node, value) => value !== undefined && value !== null && JSON.stringify(value) !== JSON.stringify(node.default);

/** The type in words, where the control does not show it. @param {Node} node */
export function typeWords(node) {
  const isPlain = ["boolean", "choice", "secret", "text_map"].includes(node.kind) || ["text", "whole number", "number"].includes(node.type);
  return isPlain ? "" : ` (${node.type})`;
}

/** Whether a field's own control can show a value. @param {Node} node @param {any} value */
export function fits(node, value) {
  if (value === undefined || value === null) return true;
  const isObject = typeof value === "object" && !Array.isArray(value);
  switch (node.kind) {
    case "group": return isObject;
    case "group_list": return Array.isArray(value) && value.every((entry) => typeof entry === "object" && entry !== null && !Array.isArray(entry));
    case "text_list": return Array.isArray(value) && value.every((entry) => typeof entry === "string" && !entry.includes("\n") && entry !== "");
    case "integer_list": return !isObject;
    case "text_map": return isObject && Object.entries(value).every(([name, text]) => typeof text === "string" && !/[=\n]/.test(name) && !text.includes("\n"));
    case "json": return true;
    default: return typeof value !== "object";
  }
}

/** A value as its control has it. @param {string} kind @param {any} value */
export function written(kind, value) {
  if (value === undefined || value === null) return "";
  if (kind === "json") return JSON.stringify(value, null, 1);
  if (kind === "text_list") return value.join("\n");
  if (kind === "text_map") return Object.entries(value).map(([name, text]) => `${name}=${text}`).join("\n");
  if (kind === "integer_list" && Array.isArray(value)) return value.join(", ");
  return String(value);
}

/** What stands in a control; undefined where it is empty. Throws SyntaxError. @param {string} kind @param {string} text */
export function read(kind, text) {
  const bare = text.trim();
  if (kind === "secret") return text === "" ? undefined : text;
  if (bare === "") return undefined;
  if (kind === "boolean") return bare === "true";
  if (kind === "integer" || kind === "number") return exactNumber(bare);
  if (kind === "json") return readJson(bare);
  const lines = bare.split("\n").map((line) => line.trim()).filter((line) => line !== "");
  if (kind === "text_list") return lines;
  if (kind === "integer_list") {
    const parts = bare.split(/[\s,]+/).filter((part) => part !== "");
    return parts.every((part) => /^-?\d+$/.test(part)) ? parts.map(exactNumber) : bare; // else the server says what it takes
  }
  if (kind !== "text_map") return bare;
  return Object.fromEntries(lines.map((line) => {
    const at = line.indexOf("=");
    if (at < 1) throw new SyntaxError(`Write one NAME=value per line. "${line}" has no "=".`);
    return [line.slice(0, at).trim(), line.slice(at + 1)];
  }));
}

/** @param {string} text */
function readJson(text) {
  try {
    return readExact(text);
  } catch (error) {
    if (error instanceof WouldBeRounded) throw error;
    throw new SyntaxError('This is not JSON. Texts stand in quotes, as in ["a", "b"].');
  }
}
