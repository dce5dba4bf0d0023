/** A tar.gz of files that a person chose in the browser, made without reading them all into memory. */

/** @typedef {{path: string, file: File}} Chosen */

const BLOCK = 512;
const encoder = new TextEncoder();

/**
 * @param {Chosen[]} files
 * @param {(done: number) => void} progress  how many are packed
 * @returns {Promise<Blob>}
 */
export async function packed(files, progress) {
  /** @type {BlobPart[]} */
  const parts = [];
  let done = 0;
  for (const { path, file } of files) {
    const start = new Uint8Array(await file.slice(0, 2).arrayBuffer()); // also: whether it can be read at all
    // browsers do not tell which files can be run; those that name their interpreter are meant to be
    const mode = start[0] === 0x23 && start[1] === 0x21 ? 0o755 : 0o644;
    parts.push(...header(path, file.size, mode), file, new Uint8Array((BLOCK - (file.size % BLOCK)) % BLOCK));
    done += 1;
    progress(done);
  }
  parts.push(new Uint8Array(2 * BLOCK));
  return new Response(new Blob(parts).stream().pipeThrough(new CompressionStream("gzip"))).blob();
}

/** @param {string} path @param {number} size @param {number} mode @returns {Uint8Array<ArrayBuffer>[]} */
function header(path, size, mode) {
  const name = encoder.encode(path);
  if (name.length <= 100 && name.length === path.length) return [entry(name, size, mode, "0")];
  // a record "LENGTH path=NAME\n" that counts its own length; the short name behind it is never used
  const tail = name.length + " path=\n".length;
  let length = tail + String(tail).length;
  length = tail + String(length).length;
  const content = encoder.encode(`${length} path=${path}\n`);
  const padded = new Uint8Array(Math.ceil(content.length / BLOCK) * BLOCK);
  padded.set(content);
  return [entry(encoder.encode("path"), content.length, 0o644, "x"), padded, entry(encoder.encode("long"), size, mode, "0")];
}

/** @param {Uint8Array} name @param {number} size @param {number} mode @param {string} type @returns {Uint8Array<ArrayBuffer>} */
function entry(name, size, mode, type) {
  const block = new Uint8Array(BLOCK);
  const put = (/** @type {number} */ at, /** @type {string} */ value) => block.set(encoder.encode(value), at);
  block.set(name, 0);
  put(100, mode.toString(8).padStart(7, "0"));
  put(108, "0000000\u00000000000");
  put(124, size.toString(8).padStart(11, "0"));
  put(136, "00000000000");
  put(148, "        ");
  put(156, type);
  put(257, "ustar\u000000");
  put(148, `${block.reduce((sum, byte) => sum + byte, 0).toString(8).padStart(6, "0")}\u0000 `);
  return block;
}
