/** What a chosen folder brings besides code: an experiment file, a search space, the script of a trial. */

/** @typedef {{path: string, file: {size: number, text: () => Promise<string>}}} Chosen */
/** @typedef {{config: Chosen | null, space: Chosen | null, script: Chosen | null}} Contents */

/** Names of before; the earlier the better. */
const CONFIGS = ["config.yml", "config.yaml", "experiment.yml", "experiment.yaml", "nni.yml", "nni.yaml", "config_v2.yml", "config.json"];
const SPACES = ["search_space.json", "searchspace.json", "search-space.json"];
const SCRIPTS = ["train.py", "trial.py", "main.py", "run.py"];
/** Files that are opened at most, and how large they may be. */
const MOST_OPENED = 40;
const LARGEST = 500_000;

/**
 * The files nearest to the folder itself are preferred.
 * @param {Chosen[]} files
 * @returns {Promise<Contents>}
 */
export async function contentsOf(files) {
  const near = [...files].sort((one, other) => depth(one) - depth(other) || (one.path < other.path ? -1 : 1));
  const yaml = near.filter(({ path }) => /\.ya?ml$/i.test(path));
  const python = near.filter(({ path }) => path.endsWith(".py"));
  return {
    config: await which(named(near, CONFIGS), isConfig) ?? await which(yaml, isConfig),
    space: await which(named(near, SPACES), isSpace),
    script: await which(python, isTrial) ?? named(near, SCRIPTS)[0] ?? null,
  };
}

/** @param {Chosen} chosen */
function depth({ path }) {
  return path.split("/").length;
}

/** @param {Chosen} chosen */
function base({ path }) {
  return (path.split("/").pop() ?? "").toLowerCase();
}

/**
 * Those with one of these names: the nearest first, then in the order of the names.
 * @param {Chosen[]} files
 * @param {string[]} names
 */
function named(files, names) {
  const place = (/** @type {Chosen} */ chosen) => names.indexOf(base(chosen));
  return files.filter((chosen) => place(chosen) >= 0).sort((one, other) => depth(one) - depth(other) || place(one) - place(other));
}

/**
 * The first whose text is what is looked for.
 * @param {Chosen[]} files
 * @param {(text: string) => boolean} is
 * @returns {Promise<Chosen | null>}
 */
async function which(files, is) {
  for (const chosen of files.slice(0, MOST_OPENED)) {
    if (chosen.file.size <= LARGEST && is(await chosen.file.text())) return chosen;
  }
  return null;
}

/** NNI's form of version 1 or 2. @param {string} text */
function isConfig(text) {
  return /^\s*"?(trial_?command|search_?space(_?file|_?path)?|training_?service(_?platform)?|trial)"?\s*:/im.test(text)
    && /command"?\s*:/i.test(text);
}

/** @param {string} text */
function isSpace(text) {
  try {
    const read = JSON.parse(text);
    return typeof read === "object" && read !== null && !Array.isArray(read) && JSON.stringify(read).includes('"_type"');
  } catch {
    return false;
  }
}

/** @param {string} text */
function isTrial(text) {
  return /\bnni\s*\.\s*get_next_parameter\b|\bfrom\s+nni\s+import\b.*get_next_parameter/.test(text);
}
