/** Numbers, durations and times as people read them: the same as nniweb/dashboard/words.py. */

/** Significant digits of a number, and of one that is ranked among others. */
const DIGITS = 4;
const MOST_DIGITS = 10;
/** Those of a standard error. */
export const DIGITS_OF_ERROR = 2;
/** Whole numbers below this are written in full. */
const WHOLE_BELOW = 10_000_000;

/**
 * A number with four significant digits, "–" for none. Charts and `map` call it with more arguments.
 * @param {unknown} value
 */
export function digits(value) {
  return withDigits(value, DIGITS);
}

/**
 * @param {unknown} value
 * @param {number} significant  digits
 */
export function withDigits(value, significant) {
  if (value === null || value === undefined || value === "") return "–";
  if (typeof value !== "number" || !Number.isFinite(value)) return String(value);
  if (Number.isInteger(value) && Math.abs(value) < WHOLE_BELOW) return String(value);
  const size = Math.abs(value);
  if (size >= 1e-3 && size < 1e6) {
    const text = value.toFixed(Math.max(0, significant - 1 - Math.floor(Math.log10(size))));
    return text.includes(".") ? text.replace(/\.?0+$/, "") : text;
  }
  const [mantissa, exponent] = value.toExponential(significant - 1).split("e");
  return `${mantissa.replace(/\.?0+$/, "")}e${Number(exponent)}`;
}

/**
 * A number beside an axis: charts choose round ones, so none of their digits is left out.
 * @param {unknown} value
 */
export function tick(value) {
  return withDigits(value, MOST_DIGITS);
}

/**
 * A mark of an axis of numbers of trials; none where the edge of a part that is shown lies between two.
 * @param {number} value
 */
export function wholeTick(value) {
  return Number.isInteger(value) ? value.toLocaleString("en") : "";
}

/**
 * The least significant digits, four at least, with which most of these numbers read differently.
 * @param {Iterable<number | null>} values
 */
export function digitsApart(values) {
  const different = [...new Set([...values].filter((value) => Number.isFinite(value)))];
  let [best, most] = [DIGITS, 0];
  for (let significant = DIGITS; significant <= MOST_DIGITS && most < different.length; significant += 1) {
    const count = new Set(different.map((value) => withDigits(value, significant))).size;
    if (count > most) [best, most] = [significant, count];
  }
  return best;
}

/**
 * Of a proposal's first trial the mean, its standard error and of how many values it is; "" for all others.
 * @param {any} trial
 */
export function mean(trial) {
  const { proposal } = trial;
  return proposal?.first === trial.sequence_id ? meanWithError(proposal.mean, proposal.standard_error, proposal.value_count) : "";
}

/**
 * "0.91 ± 0.02 (3)"; "–" for no value.
 * @param {number | null} value
 * @param {number | null} error
 * @param {number} count
 */
export function meanWithError(value, error, count) {
  if (value === null) return "–";
  return `${digits(value)}${error === null ? "" : ` ± ${withDigits(error, DIGITS_OF_ERROR)}`} (${count})`;
}

/**
 * The best value of a progress; with replicates as `meanWithError`.
 * @param {any} progress
 */
export function best(progress) {
  if (progress.best_replicates === null) return digits(progress.best_value);
  return meanWithError(progress.best_value, progress.best_standard_error, progress.best_replicates);
}

/**
 * What is to be said of an experiment's outcome, such as "2 of 3 trials failed"; "" where it succeeded or goes on.
 * @param {any} experiment
 */
export function outcome({ outcome, progress }) {
  const { total } = progress;
  if (outcome === "failed" || outcome === "partly_failed") {
    return total > 1 ? `${progress.trials.FAILED} of ${total} trials failed` : "The only trial failed";
  }
  return outcome === "no_result" && total ? "No result" : "";
}

/** Statuses that people read by another word than their name, as in trainingservice/words/status_words.py. @type {Record<string, string>} */
const STATUS_WORDS = {
  USER_CANCELED: "STOPPED", SYS_CANCELED: "STOPPED BY PLATFORM", EARLY_STOPPED: "STOPPED EARLY", NO_MORE_TRIAL: "FINISHING",
  TUNER_NO_MORE_TRIAL: "FINISHING",
};

/**
 * The word for the status of a trial or an experiment.
 * @param {string} status
 */
export function statusWord(status) {
  return STATUS_WORDS[status] ?? status;
}

/**
 * Seconds as "3 min 5 s": the two greatest units.
 * @param {number | null | undefined} seconds
 */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  if (seconds < 10) return `${seconds.toFixed(1)} s`;
  const left = Math.round(seconds);
  if (left < 60) return `${left} s`;
  if (left >= 86400) return withRest(left, 86400, "d", 3600, "h");
  if (left >= 3600) return withRest(left, 3600, "h", 60, "min");
  return withRest(left, 60, "min", 1, "s");
}

/**
 * When a running trial's keeper was heard last and when the next report is expected, in seconds.
 * @param {{ago: number, within: number} | null} heard
 */
export function heardWords(heard) {
  if (!heard) return "";
  const [ago, within] = [Math.round(heard.ago), Math.round(heard.within)];
  const expected = ago < within ? `next report within ${wholeSeconds(within - ago)}` : `a report was due after ${wholeSeconds(within)}`;
  return `last heard ${wholeSeconds(ago)} ago, ${expected}`;
}

/** @param {number} seconds */
function wholeSeconds(seconds) {
  return seconds < 10 ? `${seconds} s` : duration(seconds);
}

/**
 * A duration beside an axis.
 * @param {number} seconds
 * @param {number} apart  seconds between two marks, which read differently
 */
export function durationTick(seconds, apart) {
  return apart < 0.1 && seconds < 10 ? `${seconds.toFixed(Math.ceil(-Math.log10(apart)))} s` : duration(seconds);
}

/**
 * @param {number} left
 * @param {number} size
 * @param {string} name
 * @param {number} smaller
 * @param {string} part
 */
function withRest(left, size, name, smaller, part) {
  const rest = Math.floor((left % size) / smaller);
  return `${Math.floor(left / size)} ${name}${rest ? ` ${rest} ${part}` : ""}`;
}

/**
 * A parameter's value in a table: text as it is, all else as JSON.
 * @param {unknown} value
 */
export function parameter(value) {
  if (value === undefined) return "";
  if (typeof value === "number") return Number.isInteger(value) ? String(value) : digits(value);
  const text = typeof value === "string" ? value : JSON.stringify(value);
  return text.length <= 60 ? text : `${text.slice(0, 59)}…`;
}

/**
 * The value of this name, "" where there is none; where no such name is, a dot leads into what is nested.
 * @param {any} values
 * @param {string} name
 * @returns {unknown}
 */
export function parameterAt(values, name) {
  if (values === null || typeof values !== "object" || Array.isArray(values)) return "";
  if (Object.hasOwn(values, name)) return values[name];
  for (const outer of Object.keys(values)) {
    const found = name.startsWith(`${outer}.`) ? parameterAt(values[outer], name.slice(outer.length + 1)) : "";
    if (found !== "") return found;
  }
  return "";
}
