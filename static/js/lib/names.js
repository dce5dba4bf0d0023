/** Names of parameters where there is little room: shortened in the middle, and still told apart. */

/** What parts a name: "encoder/layer_1.units" has four parts. */
const PARTS_END = /[/._:-]/;
/** Characters before the gap, at least. */
const LEAST_HEAD = 3;

/**
 * How many of so many characters are before the gap: ends of names say more than their beginnings.
 * @param {number} most
 */
function headOf(most) {
  return Math.floor((most - 1) * 0.45);
}

/**
 * @param {string} name
 * @param {number} most  characters
 */
function inTheMiddle(name, most) {
  if (name.length <= most) return name;
  // the last parts of it as a whole, where they fit and are not only a few characters
  const ends = [...name.matchAll(/[/._:-](?=[^/._:-])/g)].map((found) => name.length - found.index - 1);
  const end = ends.find((length) => length <= most - 1 - LEAST_HEAD) ?? 0;
  const head = end > most * 0.4 ? most - 1 - end : headOf(most);
  return `${name.slice(0, head)}…${name.slice(name.length - (most - 1 - head))}`;
}

/** @param {string[]} names */
function commonStart(names) {
  const [first, ...others] = names;
  let length = 0;
  while (length < first.length && others.every((name) => name[length] === first[length])) length += 1;
  return length;
}

/**
 * Each name with at most so many characters; of those that would read alike, what they begin with in common is left
 * out first. A name that cannot be told apart otherwise stays as it is.
 * @param {string[]} names  different ones
 * @param {number} most  characters, 8 at least
 * @returns {string[]} in the same order
 */
export function shortNames(names, most) {
  const short = names.map((name) => inTheMiddle(name, most));
  for (const text of new Set(short)) {
    const alike = [...short.keys()].filter((place) => short[place] === text);
    if (alike.length < 2) continue;
    const group = alike.map((place) => names[place]);
    const differ = commonStart(group);
    let start = differ;
    while (start > 0 && !PARTS_END.test(group[0][start - 1])) start -= 1;
    if (start === 0 || differ - start >= headOf(most - 1)) start = Math.max(1, differ - 2);
    const ends = shortNames(group.map((name) => name.slice(start)), most - 1);
    alike.forEach((place, index) => {
      short[place] = `…${ends[index].replace(/^…/, "")}`;
    });
  }
  return short.map((text, place) => (short.indexOf(text) === place && short.lastIndexOf(text) === place ? text : names[place]));
}

/**
 * The parts of a name, which end behind what parts it and before a capital letter: "layer_", "1.", "hidden", "Units".
 * @param {string} name
 */
export function partsOf(name) {
  return name.split(/(?<=[/._:…-])(?=[^/._:…-])|(?<=[a-z0-9])(?=[A-Z])/);
}

/**
 * Whether a text that breaks between its words and parts only has room in so many lines.
 * @param {string} text
 * @param {number} lines
 * @param {number} width
 * @param {(text: string) => number} measure
 */
function fits(text, lines, width, measure) {
  let [line, filled] = [1, 0];
  for (const part of partsOf(text).flatMap((each) => each.split(/(?<= )/))) {
    const wide = measure(part);
    if (wide > width) return false;
    if (filled + wide > width) [line, filled] = [line + 1, 0];
    filled += wide;
  }
  return line <= lines;
}

/**
 * Each name as long as it has room in so many lines that break between its parts; different ones stay different.
 * @param {string[]} names
 * @param {number} lines
 * @param {number} width  of a line
 * @param {(text: string) => number} [measure]  the width of a text; without it a character has the width 1
 */
export function namesInLines(names, lines, width, measure = (text) => text.length) {
  /** @type {string[]} */
  const found = [];
  let short = names;
  for (let most = Math.floor((lines * width) / measure("i")); most >= 8; most -= 1) {
    short = shortNames(names, most);
    short.forEach((text, place) => {
      if (found[place] === undefined && fits(text, lines, width, measure)) found[place] = text;
    });
    if (names.every((_, place) => found[place] !== undefined)) break;
  }
  const made = short.map((text, place) => found[place] ?? text);
  return new Set(made).size === names.length ? made : short;
}

/**
 * A name that may break into lines between its parts: the same as the filter `breaking` of nniweb/dashboard/words.py.
 * @param {string} name
 * @returns {Node[]}
 */
export function breaking(name) {
  return partsOf(name).flatMap((part, place) => (place ? [document.createElement("wbr"), new Text(part)] : [new Text(part)]));
}
