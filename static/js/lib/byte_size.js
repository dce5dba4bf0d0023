/** Numbers of bytes as people read them: the same as Django's filesizeformat. */

const UNITS = ["KB", "MB", "GB", "TB", "PB"];

/** @param {number | null | undefined} bytes */
export function byteSize(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1024) return bytes === 1 ? "1\u00a0byte" : `${Math.round(bytes)}\u00a0bytes`;
  let unit = 0;
  let size = bytes / 1024;
  while (size >= 1024 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(1)}\u00a0${UNITS[unit]}`;
}
