/** Numbers of bytes as people read them: the same as trainingservice/words/byte_size.py. */

const UNITS = ["KB", "MB", "GB", "TB", "PB"];

/**
 * "67.2 GB": one decimal, and 1024 of a unit are one of the next; "–" for none.
 * @param {number | null | undefined} bytes
 */
export function byteSize(bytes) {
  if (bytes === null || bytes === undefined) return "–";
  if (bytes < 1024) return bytes === 1 ? "1 byte" : `${bytes.toFixed(0)} bytes`;
  let unit = 0;
  let size = bytes / 1024;
  while (size >= 1023.95 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${size.toFixed(1)} ${UNITS[unit]}`;
}
