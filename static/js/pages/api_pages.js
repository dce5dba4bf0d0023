/** Draws the REST interface's description with Swagger UI, whose bundle has been loaded before. */

const place = /** @type {HTMLElement} */ (document.getElementById("api"));

/** @param {string} name */
function cookie(name) {
  return document.cookie.split("; ").find((part) => part.startsWith(`${name}=`))?.slice(name.length + 1) ?? "";
}

// @ts-ignore  the bundle's global
if (typeof SwaggerUIBundle === "undefined") {
  place.textContent = "Swagger UI is not installed on this server; the installation is incomplete (in a checkout, \"make run\" installs it).";
} else {
  // @ts-ignore
  SwaggerUIBundle({
    url: place.dataset.schema,
    domNode: place,
    deepLinking: false, // it would put links into buttons; Redoc has the addresses of single calls
    docExpansion: "list",
    defaultModelsExpandDepth: -1,
    displayRequestDuration: true,
    filter: true,
    validatorUrl: null, // nothing is asked elsewhere
    syntaxHighlight: { theme: "nord" },
    requestInterceptor: (/** @type {any} */ request) => {
      if (!["GET", "HEAD"].includes((request.method ?? "GET").toUpperCase())) {
        request.headers["X-CSRFToken"] = cookie("csrftoken");
      }
      return request;
    },
  });
}
