/** What a tab shows stands in its address, so that a link shows a colleague the same thing. */

/**
 * The address's query, to be read.
 * @returns {URLSearchParams}
 */
export function addressState() {
  return new URLSearchParams(location.search);
}

/**
 * Write parts of the query; nothing is loaded. What is empty leaves the address.
 * @param {Record<string, string | string[] | null>} parts  a list stands there once for each of its members
 */
export function writeAddress(parts) {
  const query = addressState();
  for (const [name, value] of Object.entries(parts)) {
    query.delete(name);
    for (const one of Array.isArray(value) ? value : value ? [value] : []) query.append(name, one);
  }
  const text = query.toString();
  history.replaceState(history.state, "", text ? `?${text}` : location.pathname);
}
