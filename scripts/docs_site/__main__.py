"""``make docs``: builds the site, or says what is wrong with it."""

import sys

from docs_site.build import BuildFailed, built_site


def main() -> int:
    try:
        print(f"The documentation is in {built_site()}. A server of this checkout has it at /docs/ when it starts.")
    except BuildFailed as error:
        print(f"{error}\nThe documentation was not built: mend what is above.", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
