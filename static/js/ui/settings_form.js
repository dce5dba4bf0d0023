/**
 * A form made of the fields that a platform declares: whatever is installed has one, a third party's too. The page of a
 * cluster and the one that launches use it. It holds one document, the fields of a trainingService section.
 *
 * Stored secrets are never known here. They are shown as "set", and stay unless they are replaced or removed.
 */

import { entryOf, fits, furtherFrom, isChosen, keyOf, read, treeOf, typeWords, written } from "./settings_tree.js";

/**
 * @typedef {import("./settings_tree.js").Field} Field
 * @typedef {import("./settings_tree.js").Node} Node
 * @typedef {import("./settings_tree.js").Group} Group
 * @typedef {{field: string, message: string, kind: "bad" | "wait"}} Message
 * @typedef {{group: Group, path: string, stored: string | null, attach: () => void}} Place  a group of the document:
 *   where it is, where it was when it was stored (null: nowhere), and what puts it into the document
 */

/** @template {keyof HTMLElementTagNameMap} Tag @param {Tag} tag @param {Partial<HTMLElementTagNameMap[Tag]>} [properties] @param {(Node_ | string)[]} children */
function make(tag, properties = {}, ...children) {
  const made = Object.assign(document.createElement(tag), properties);
  made.append(...children);
  return made;
}
/** @typedef {globalThis.Node} Node_ */

/** @param {string} path @param {string} key */
const below = (path, key) => (path ? `${path}.${key}` : key);

export class SettingsForm {
  /**
   * @param {HTMLElement} place
   * @param {{prefix: string, folds: boolean, onChange: () => void}} how  `prefix` of the ids; whether further fields of
   *   the top level are folded away, too
   */
  constructor(place, how) {
    this.place = place;
    this.how = how;
    /** @type {Node[]} */
    this.nodes = [];
    /** @type {Group} */
    this.document = {};
    /** Paths of stored secrets. @type {Set<string>} */
    this.secrets = new Set();
    /** Where an entry of a list stood when it was stored. @type {WeakMap<Group, number>} */
    this.origins = new WeakMap();
    /** Secrets that are being replaced, and folds that are open, by their paths. @type {Set<string>} */
    this.replaced = new Set();
    this.open = new Set();
    /** Controls whose text cannot be read. @type {Set<string>} */
    this.unread = new Set();
    /** @type {Message[]} */
    this.messages = [];
    place.classList.add("settings-form");
  }

  /** @param {Field[]} fields */
  setFields(fields) {
    this.nodes = treeOf(fields);
    this.document = {};
    this.place.replaceChildren();
  }

  /** The document: without the secrets that stay, null for those that are removed. @returns {Group} */
  get value() {
    return structuredClone(this.document);
  }

  /**
   * Show another document. What is being typed stays.
   * @param {Group} value
   * @param {string[]} secrets  paths of stored secrets
   */
  set(value, secrets = []) {
    if (this.place.childElementCount && JSON.stringify(value) === JSON.stringify(this.document) && secrets.length === this.secrets.size) return;
    this.document = structuredClone(value);
    this.secrets = new Set(secrets);
    this.origins = new WeakMap();
    this._remember(this.nodes, this.document);
    this.replaced.clear();
    this.messages = [];
    this.render();
  }

  /** @param {Node[]} nodes @param {Group} group */
  _remember(nodes, group) {
    for (const node of nodes.filter((each) => each.children.length)) {
      const value = group[keyOf(group, node.key)];
      if (!value || !fits(node, value)) continue;
      const entries = node.kind === "group_list" ? value : [value];
      entries.forEach((/** @type {Group} */ entry, /** @type {number} */ index) => {
        if (node.kind === "group_list") this.origins.set(entry, index);
        this._remember(node.children, entry);
      });
    }
  }

  /** Paths of the stored secrets that are shown as set, and of the same in the document as it is. @returns {string[]} */
  get kept() {
    return [...this.place.querySelectorAll("[data-kept]")].map((each) => /** @type {HTMLElement} */ (each).dataset.path ?? "");
  }

  /**
   * Say something beside the fields that it is about; the nearest group stands for a field that is not shown.
   * @param {Message[]} messages
   * @returns {Message[]} those that have no place here
   */
  say(messages) {
    this.messages = messages;
    for (const old of this.place.querySelectorAll(".said")) old.remove();
    for (const field of this.place.querySelectorAll("[aria-invalid]")) field.removeAttribute("aria-invalid");
    return messages.filter((message, number) => !this._sayOne(message, number));
  }

  /** What a path of a field stands for on the page. @param {string} path @returns {HTMLElement | null} */
  rowOf(path) {
    for (let at = path; at !== "";) {
      const row = /** @type {HTMLElement | null} */ (this.place.querySelector(`[data-path="${CSS.escape(at)}"]`));
      if (row) return row;
      at = at.replace(/(\[\d+\]|\.?[^.[]+)$/, "");
    }
    return null;
  }

  /** Go to a field. @param {string} path */
  goTo(path) {
    const row = this.rowOf(path);
    for (let fold = row?.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
    /** @type {HTMLElement | null | undefined} */ (row?.querySelector("input, select, textarea") ?? row?.querySelector("button"))?.focus();
  }

  /** @param {Message} message @param {number} number */
  _sayOne(message, number) {
    const row = this.rowOf(message.field);
    if (!row) return false;
    const said = make("p", { className: `said small ${message.kind}`, id: `${this.how.prefix}-said-${number}`, textContent: message.message });
    (row.querySelector(":scope > .saying") ?? row).append(said);
    const control = row.querySelector(":scope > .control :is(input, select, textarea)");
    if (control) {
      if (message.kind === "bad") control.setAttribute("aria-invalid", "true");
      control.setAttribute("aria-describedby", `${said.id} ${control.getAttribute("aria-describedby") ?? ""}`.trim());
    }
    for (let fold = row.closest("details"); fold; fold = fold.parentElement?.closest("details")) fold.open = true;
    return true;
  }

  /** What was said beside a field is of the value before. It keeps its room, else a click on what follows would miss. @param {string} path */
  _outdate(path) {
    this.messages = this.messages.filter((message) => message.field !== path);
    const row = this.rowOf(path);
    for (const said of row?.querySelectorAll(".said") ?? []) said.classList.add("old");
    for (const control of row?.querySelectorAll("[aria-invalid]") ?? []) control.removeAttribute("aria-invalid");
  }

  /** Draw everything anew; the control that has the focus keeps it, and what is being typed. */
  render() {
    const active = /** @type {HTMLInputElement | null} */ (this.place.contains(document.activeElement) ? document.activeElement : null);
    const typed = active && "value" in active && active.tagName !== "SELECT" ? active.value : null;
    this.unread.clear();
    const root = { group: this.document, path: "", stored: "", attach: () => {} };
    this.place.replaceChildren(...this._fields(this.nodes, root, this.how.folds));
    this.say(this.messages);
    const again = active?.id ? /** @type {HTMLInputElement | null} */ (document.getElementById(active.id)) : null;
    if (typed !== null && again) again.value = typed;
    again?.focus();
  }

  /** After entries came or went. @param {string} [focus]  path of what gets the focus */
  _redraw(focus) {
    this.messages = [];
    this.render();
    if (focus !== undefined) this.goTo(focus);
    this.how.onChange();
  }

  /** @param {Node[]} nodes @param {Place} place @param {boolean} folds @returns {HTMLElement[]} */
  _fields(nodes, place, folds) {
    const rows = nodes.map((node) => this._field(node, place));
    const from = folds ? furtherFrom(nodes) : nodes.length;
    const further = rows.splice(from);
    if (further.length === 0) return rows;
    const isGiven = nodes.slice(from).some((node) => isChosen(node, place.group[keyOf(place.group, node.key)]));
    const fold = make("details", { className: "further", open: isGiven || this.open.has(place.path) },
      make("summary", { textContent: `More fields (${further.length})` }), make("div", { className: "settings-form" }, ...further));
    fold.addEventListener("toggle", () => (fold.open ? this.open.add(place.path) : this.open.delete(place.path)));
    return [...rows, fold];
  }

  /** @param {Node} node @param {Place} place */
  _field(node, place) {
    const value = place.group[keyOf(place.group, node.key)];
    if (!fits(node, value)) return this._row({ ...node, kind: "json" }, place);
    if (node.kind === "group") return this._group(node, place);
    if (node.kind === "group_list") return this._list(node, place);
    return this._row(node, place);
  }

  // --- one field ---------------------------------------------------------------------------

  /** @param {Node} node @param {Place} place */
  _row(node, place) {
    const path = below(place.path, node.key);
    const id = this._id(path);
    const stored = place.stored === null ? null : below(place.stored, node.key);
    const hint = make("p", { className: "hint quiet small", id: `${id}-hint` }, make("code", { textContent: node.key }), ` ${node.description}${typeWords(node)}`);
    const control = make("div", { className: "control" });
    const row = make("div", { className: `field${["json", "text_list", "text_map"].includes(node.kind) ? " wide" : ""}` },
      make("label", { htmlFor: id, textContent: node.label }), control, make("div", { className: "saying" }), hint);
    row.dataset.path = path;
    row.dataset.platformField = node.name;
    const isStored = node.is_secret && stored !== null && this.secrets.has(stored);
    if (isStored) this._secret(node, place, row, control, id);
    else control.append(this._input(node, place, id, path));
    return row;
  }

  /** A secret that is stored. @param {Node} node @param {Place} place @param {HTMLElement} row @param {HTMLElement} control @param {string} id */
  _secret(node, place, row, control, id) {
    const path = below(place.path, node.key);
    const key = keyOf(place.group, node.key);
    const isRemoved = place.group[key] === null;
    const isReplaced = !isRemoved && (this.replaced.has(path) || place.group[key] !== undefined);
    const label = /** @type {HTMLLabelElement} */ (row.firstElementChild);
    control.classList.add("secret");
    /** @param {string} text @param {() => void} act */
    const button = (text, act) => {
      const made = make("button", { type: "button", className: "plain small", textContent: text });
      made.setAttribute("aria-label", `${text} ${node.label}`);
      made.addEventListener("click", () => {
        act();
        this.messages = this.messages.filter((message) => message.field !== path);
        this.render();
        this.goTo(path);
        this.how.onChange();
      });
      return made;
    };
    const keep = () => button("Keep", () => {
      delete place.group[key];
      this.replaced.delete(path);
    });
    if (isReplaced) {
      control.append(this._input(node, place, id, path), keep());
      return;
    }
    // nothing to fill in: a label needs a control
    const words = make("span", { className: "label", textContent: node.label });
    label.replaceWith(words);
    const state = make("span", { className: isRemoved ? "wait" : "is-set", textContent: isRemoved ? "is removed when you save" : "set" });
    control.append(state);
    if (isRemoved) {
      control.append(keep());
      return;
    }
    row.dataset.kept = "";
    control.append(button("Replace", () => this.replaced.add(path)), button("Remove", () => {
      place.group[key] = null;
    }));
  }

  /** @param {Node} node @param {Place} place @param {string} id @param {string} path */
  _input(node, place, id, path) {
    const input = this._control(node);
    input.id = id;
    input.setAttribute("aria-describedby", `${id}-hint`);
    if (node.is_required) input.setAttribute("aria-required", "true");
    input.value = written(node.kind, place.group[keyOf(place.group, node.key)]);
    input.addEventListener("change", () => {
      const key = keyOf(place.group, node.key);
      this.unread.delete(path);
      try {
        if (input.validity.badInput) throw new SyntaxError("This is not a number.");
        const value = read(node.kind, input.value);
        place.attach();
        if (value === undefined) delete place.group[key];
        else place.group[key] = value;
        this._outdate(path);
      } catch (error) {
        this.unread.add(path);
        this.say([...this.messages.filter((message) => message.field !== path), { field: path, message: /** @type {Error} */ (error).message, kind: "bad" }]);
        return;
      }
      this.how.onChange();
    });
    return input;
  }

  /** @param {Node} node @returns {HTMLInputElement | HTMLSelectElement | HTMLTextAreaElement} */
  _control(node) {
    if (node.kind === "choice" || node.kind === "boolean") {
      const made = make("select");
      const options = node.kind === "boolean" ? ["true", "false"] : node.choices;
      made.append(new Option(node.is_required ? "" : `default${node.default === null ? "" : `: ${node.default}`}`, ""));
      for (const option of options) made.append(new Option(option));
      return made;
    }
    const isLong = ["json", "text_list", "text_map"].includes(node.kind);
    const made = isLong ? make("textarea", { rows: 3 }) : make("input");
    made.autocomplete = node.kind === "secret" ? "new-password" : "off";
    made.spellcheck = false;
    if (made instanceof HTMLInputElement && node.kind === "secret") made.type = "password";
    if (made instanceof HTMLInputElement && (node.kind === "integer" || node.kind === "number")) {
      made.type = "number";
      made.step = node.kind === "number" ? "any" : "1";
    }
    const isPlain = node.default !== null && typeof node.default !== "object";
    const example = { json: "JSON", text_list: "one per line", text_map: "NAME=value, one per line", integer_list: "0, 1" }[node.kind] ?? "";
    made.placeholder = node.is_required ? "required" : isPlain ? String(node.default)
      : (Array.isArray(node.default) && node.default.length && fits(node, node.default) ? written(node.kind, node.default) : example);
    return made;
  }

  // --- groups and lists ----------------------------------------------------------------------

  /** @param {Node} node @param {Place} place */
  _group(node, place) {
    const path = below(place.path, node.key);
    const key = keyOf(place.group, node.key);
    const isOptional = !node.is_required && node.default === null;
    const value = place.group[key];
    if (isOptional && !value) {
      return this._adder(path, `Add ${node.label.toLowerCase()}`, node, () => {
        place.attach();
        place.group[key] = {};
        this._redraw(path);
      });
    }
    const group = value ?? {};
    const inner = { group, path, stored: place.stored === null ? null : below(place.stored, node.key), attach: () => {
      place.attach();
      place.group[key] = group;
    } };
    const remove = isOptional ? this._remover(node.label, () => {
      delete place.group[key];
      this._redraw(path);
    }) : null;
    return this._fieldset(path, node.label, remove, node, this._fields(node.children, inner, true));
  }

  /** @param {Node} node @param {Place} place */
  _list(node, place) {
    const path = below(place.path, node.key);
    const key = keyOf(place.group, node.key);
    const stored = place.stored === null ? null : below(place.stored, node.key);
    /** @type {Group[]} */
    const entries = place.group[key] ?? [];
    const shown = entries.length || !node.is_required ? entries : [{}]; // the first of a list that must have one
    const attach = () => {
      place.attach();
      if (place.group[key] !== shown) place.group[key] = shown;
    };
    const noun = entryOf(node.key);
    const parts = shown.map((entry, index) => {
      const origin = this.origins.get(entry);
      const inner = { group: entry, path: `${path}[${index}]`, stored: stored === null || origin === undefined ? null : `${stored}[${origin}]`, attach };
      const remove = shown.length > 1 || !node.is_required ? this._remover(`${noun} ${index + 1}`, () => {
        place.group[key] = entries.filter((other) => other !== entry);
        if (!place.group[key].length) delete place.group[key];
        this._redraw(path);
      }) : null;
      return this._fieldset(inner.path, `${noun} ${index + 1}`, remove, null, this._fields(node.children, inner, true));
    });
    const add = this._adder("", `Add ${noun.toLowerCase()}`, null, () => {
      attach();
      place.group[key] = [...shown, {}];
      this._redraw(`${path}[${shown.length}]`);
    });
    const list = make("div", { className: "list" }, make("p", { className: "hint quiet small" }, make("code", { textContent: node.key }), ` ${node.description}`),
      make("div", { className: "saying" }), ...parts, add);
    list.dataset.path = path;
    list.setAttribute("role", "group");
    list.setAttribute("aria-label", node.label);
    return list;
  }

  /** @param {string} path @param {string} title @param {HTMLElement | null} remove @param {Node | null} node @param {HTMLElement[]} rows */
  _fieldset(path, title, remove, node, rows) {
    const made = make("fieldset", { className: "group" }, make("legend", { textContent: title }));
    if (remove) made.append(remove);
    if (node) made.append(make("p", { className: "hint quiet small" }, make("code", { textContent: node.key }), ` ${node.description}`));
    made.append(make("div", { className: "saying" }), make("div", { className: "settings-form" }, ...rows));
    made.dataset.path = path;
    return made;
  }

  /** @param {string} path @param {string} words @param {Node | null} node @param {() => void} act */
  _adder(path, words, node, act) {
    const button = make("button", { type: "button", className: "plain", textContent: words });
    button.addEventListener("click", act);
    const made = make("div", { className: "adder" }, button, make("div", { className: "saying" }));
    if (node) made.append(make("p", { className: "hint quiet small" }, make("code", { textContent: node.key }), ` ${node.description}`));
    if (path) made.dataset.path = path;
    return made;
  }

  /** @param {string} of @param {() => void} act */
  _remover(of, act) {
    const button = make("button", { type: "button", className: "plain small remove", textContent: "Remove" });
    button.setAttribute("aria-label", `Remove ${of}`);
    button.addEventListener("click", act);
    return button;
  }

  /** @param {string} path */
  _id(path) {
    return `${this.how.prefix}-${path.replace(/[^A-Za-z0-9]+/g, "-").replace(/-$/, "")}`;
  }
}
