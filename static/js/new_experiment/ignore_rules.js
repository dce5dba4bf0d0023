/**
 * Which files of a folder `.nniignore` leaves out: git's rules, as trainingservice/code/ignore_rules.py has them. The server
 * applies its own again; this one spares the sending.
 */

/** @typedef {{regex: RegExp, ignored: boolean, foldersOnly: boolean}} Pattern */

export class IgnoreRules {
  /** @param {Map<string, string>} texts  folder ("" for the top, else "a/b") -> text of its ignore file */
  constructor(texts) {
    /** @type {Map<string, Pattern[]>} */
    this.patterns = new Map([...texts].map(([folder, text]) => [
      folder, text.replace(/^\ufeff/, "").split(/\r\n|\r|\n/).map(pattern).filter((found) => found !== null).reverse()]));
    /** @type {Map<string, boolean>} */
    this.folders = new Map();
  }

  /** Whether a file is left out, itself or with a folder it lies in. @param {string} path */
  ignores(path) {
    const parts = path.split("/");
    return this.#folderIsOut(parts.slice(0, -1)) || this.#names(parts, false);
  }

  /** @param {string[]} parts @returns {boolean} */
  #folderIsOut(parts) {
    if (!parts.length) return false;
    const key = parts.join("/");
    let out = this.folders.get(key);
    if (out === undefined) {
      out = this.#folderIsOut(parts.slice(0, -1)) || this.#names(parts, true);
      this.folders.set(key, out);
    }
    return out;
  }

  /** The nearest ignore file that says something decides. @param {string[]} parts @param {boolean} isFolder */
  #names(parts, isFolder) {
    for (let depth = parts.length - 1; depth >= 0; depth -= 1) {
      const relative = parts.slice(depth).join("/");
      for (const each of this.patterns.get(parts.slice(0, depth).join("/")) ?? []) {
        if ((!each.foldersOnly || isFolder) && each.regex.test(relative)) return each.ignored;
      }
    }
    return false;
  }
}

/** One line; null where it is empty, a comment, or nothing that can be read. @param {string} line @returns {Pattern | null} */
function pattern(line) {
  let text = line;
  while (text.endsWith(" ") && !text.endsWith("\\ ")) text = text.slice(0, -1);
  if (!text || text.startsWith("#")) return null;
  const ignored = !text.startsWith("!");
  if (!ignored) text = text.slice(1);
  const foldersOnly = text.endsWith("/");
  if (foldersOnly) text = text.slice(0, -1);
  const anchored = text.includes("/");
  if (text.startsWith("/")) text = text.slice(1);
  if (!text) return null;
  const source = expression(text);
  if (source === null) return null;
  try {
    return { regex: new RegExp(`^${anchored ? "" : "(?:.*/)?"}${source}$`, "s"), ignored, foldersOnly };
  } catch {
    return null;
  }
}

/** @param {string} glob @returns {string | null} */
function expression(glob) {
  let out = "";
  for (let index = 0; index < glob.length; index += 1) {
    const rest = glob.slice(index);
    const character = glob[index] ?? "";
    if (rest.startsWith("**/") && (index === 0 || glob[index - 1] === "/")) {
      out += "(?:.*/)?";
      index += 2;
    } else if (rest === "**" && glob[index - 1] === "/") {
      out += ".+";
      index += 1;
    } else if (character === "*") {
      out += "[^/]*";
      while (glob[index + 1] === "*") index += 1;
    } else if (character === "?") {
      out += "[^/]";
    } else if (character === "[") {
      // named classes such as [:digit:] are left to the server, which reads them in its own way
      const found = /^\[([!^]?)(\]?(?:\\.|[^\]\\])*)\]/.exec(rest);
      if (!found || rest.includes("[:")) return null;
      const inner = (found[2] ?? "").replace(/^\]/, "\\]").replace(/\[/g, "\\[");
      out += `(?!/)[${found[1] ? "^" : ""}${inner}]`;
      index += found[0].length - 1;
    } else if (character === "\\") {
      if (index + 1 >= glob.length) return null;
      index += 1;
      out += quoted(glob[index] ?? "");
    } else {
      out += quoted(character);
    }
  }
  return out;
}

/** @param {string} character */
function quoted(character) {
  return /[\\^$.*+?()[\]{}|/]/.test(character) ? `\\${character}` : character;
}
