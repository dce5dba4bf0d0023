/**
 * Metadata of a cluster: a row for each key that is set, and one to add others. Values of secrets are not known here.
 * Keys that say what the settings say are folded away: the form above says it in words.
 */

/**
 * @typedef {{key: string, meaning: string, is_secret: boolean, is_set: boolean, value: string, says_settings: string[]}} Metadatum
 */

/** JSON with a line for each field; other text as it is. @param {string} value */
function readable(value) {
  try {
    const document = JSON.parse(value);
    return typeof document === "object" && document !== null ? JSON.stringify(document, null, 2) : value;
  } catch {
    return value;
  }
}

export class MetadataTable {
  /** @param {HTMLElement} place */
  constructor(place) {
    this.place = place;
    /** @type {Metadatum[]} */
    this.known = [];
    /** Key -> its new value; null where it is removed. @type {Map<string, string | null>} */
    this.wanted = new Map();
    /** Keys that have a row. @type {Set<string>} */
    this.rows = new Set();
    /** Secrets that are being replaced. @type {Set<string>} */
    this.replaced = new Set();
  }

  /** What was changed: key -> value, null where it is removed. */
  get changes() {
    return Object.fromEntries([...this.wanted].filter(([key, value]) => {
      const known = this.known.find((each) => each.key === key);
      if (value === null) return known?.is_set;
      return value !== "" && (known?.is_secret || !known?.is_set || value !== readable(known.value));
    }));
  }

  /** @param {Metadatum[]} known */
  show(known) {
    this.known = known;
    this.wanted.clear();
    this.rows = new Set(known.filter((each) => each.is_set).map((each) => each.key));
    this._draw();
  }

  /** @param {{key: string, message: string}[]} errors */
  say(errors) {
    for (const old of this.place.querySelectorAll(".said")) old.remove();
    for (const { key, message } of errors) {
      const cell = this.place.querySelector(`tr[data-key="${CSS.escape(key)}"] td.value`);
      const words = document.createElement("p");
      words.className = "said small bad";
      words.id = `metadata-${key}-wrong`;
      words.textContent = message;
      cell?.append(words);
      const input = cell?.querySelector("textarea");
      input?.setAttribute("aria-invalid", "true");
      input?.setAttribute("aria-describedby", words.id);
      const fold = cell?.closest("details");
      if (fold) fold.open = true;
    }
  }

  _draw() {
    const shown = this.known.filter((each) => this.rows.has(each.key));
    const own = shown.filter((each) => each.says_settings.length === 0);
    const ofSettings = shown.filter((each) => each.says_settings.length > 0);
    const parts = [];
    if (own.length) parts.push(this._table(own));
    else parts.push(text("p", "quiet small", "No metadata are set."));
    if (ofSettings.length) {
      const fold = document.createElement("details");
      fold.open = ofSettings.some((each) => this.wanted.has(each.key));
      fold.append(text("summary", "", `The settings in NNI's words (${ofSettings.map((each) => each.key).join(", ")})`),
        text("p", "quiet small", "They say what the fields above say. Change one or the other."), this._table(ofSettings));
      parts.push(fold);
    }
    const left = this.known.filter((each) => !this.rows.has(each.key));
    if (left.length) parts.push(this._adder(left));
    this.place.replaceChildren(...parts);
  }

  /** @param {Metadatum[]} rows */
  _table(rows) {
    const table = document.createElement("table");
    table.className = "metadata cards";
    const head = table.createTHead().insertRow();
    for (const title of ["Key", "Value", ""]) {
      const cell = document.createElement("th");
      cell.textContent = title;
      if (!title) cell.append(text("span", "visually-hidden", "Remove"));
      head.append(cell);
    }
    const body = table.createTBody();
    for (const each of rows) body.append(this._row(each));
    return table;
  }

  /** @param {Metadatum} each */
  _row(each) {
    const row = document.createElement("tr");
    row.dataset.key = each.key;
    const wanted = this.wanted.get(each.key);
    const key = row.insertCell();
    key.className = "key";
    key.append(text("code", "", each.key), text("p", "quiet small", each.meaning));
    const value = row.insertCell();
    value.className = "value";
    const act = row.insertCell();
    act.className = "actions";
    if (wanted === null) {
      value.append(text("span", "wait", "is removed when you save"));
      act.append(this._button("Keep", each.key, () => this.wanted.delete(each.key)));
      return row;
    }
    if (each.is_secret && each.is_set && wanted === undefined && !this.replaced.has(each.key)) {
      value.append(text("span", "is-set", "set"));
      act.append(this._button("Replace", each.key, () => this.replaced.add(each.key)));
    } else {
      const input = document.createElement("textarea");
      input.rows = 3;
      input.spellcheck = false;
      input.autocomplete = "off";
      input.setAttribute("aria-label", `Value of ${each.key}`);
      input.value = wanted ?? (each.is_secret ? "" : readable(each.value));
      input.addEventListener("change", () => {
        input.removeAttribute("aria-invalid");
        this.wanted.set(each.key, input.value);
      });
      value.append(input);
      if (each.is_secret && each.is_set) {
        act.append(this._button("Keep", each.key, () => {
          this.replaced.delete(each.key);
          this.wanted.delete(each.key);
        }));
      }
    }
    act.append(this._button("Remove", each.key, () => {
      if (each.is_set) this.wanted.set(each.key, null);
      else {
        this.wanted.delete(each.key);
        this.rows.delete(each.key);
      }
      this.replaced.delete(each.key);
    }));
    return row;
  }

  /** @param {Metadatum[]} left */
  _adder(left) {
    const made = document.createElement("div");
    made.className = "adder acts";
    const select = document.createElement("select");
    select.setAttribute("aria-label", "Metadata key to add");
    for (const each of left) select.append(new Option(each.key));
    const meaning = text("p", "quiet small", left[0].meaning);
    select.addEventListener("change", () => {
      meaning.textContent = left[select.selectedIndex].meaning;
    });
    const add = text("button", "plain", "Add metadata");
    add.setAttribute("type", "button");
    add.addEventListener("click", () => {
      this.rows.add(select.value);
      const key = select.value;
      this._draw();
      /** @type {HTMLElement | null} */ (this.place.querySelector(`tr[data-key="${CSS.escape(key)}"] textarea`))?.focus();
    });
    made.append(select, add, meaning);
    return made;
  }

  /** @param {string} words @param {string} key @param {() => void} act */
  _button(words, key, act) {
    const made = text("button", "plain small", words);
    made.setAttribute("type", "button");
    made.setAttribute("aria-label", `${words} ${key}`);
    made.addEventListener("click", () => {
      act();
      this._draw();
      /** @type {HTMLElement | null} */ (this.place.querySelector(`tr[data-key="${CSS.escape(key)}"] :is(textarea, button)`))?.focus();
    });
    return made;
  }
}

/** @param {string} tag @param {string} className @param {string} words */
function text(tag, className, words) {
  const made = document.createElement(tag);
  if (className) made.className = className;
  made.textContent = words;
  return made;
}
