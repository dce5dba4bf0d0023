"""Prints how the source is laid out: ``make structure``."""

from __future__ import annotations

from structure import javascript_files, python_files


def main() -> None:
    imports = python_files.imports_of_modules()
    lines = python_files.lines_of_code()
    print("Lines of code: " + ", ".join(f"{package} {count}" for package, count in lines.items()))
    folders = python_files.files_per_folder()
    print(f"{sum(folders.values())} files in {len(folders)} folders; with more than {python_files.MOST_FILES} files:")
    for folder, count in sorted(folders.items(), key=lambda item: -item[1]):
        if count > python_files.MOST_FILES:
            print(f"  {count:4} {folder}")
    found = python_files.circles(imports)
    print(f"Circles of imports: {len(found)}")
    for circle in found:
        print("  " + ", ".join(circle))
    for house in python_files.HOUSES:
        between = python_files.arrows(imports, house)
        parts = {part for arrow in between for part in arrow}
        print(f"{house}: {len(parts)} parts, {len(between)} arrows, "
              f"{len(python_files.back_arrows(between))} of them in circles")
    scripts = javascript_files.imports_of_scripts()
    folders = javascript_files.files_per_folder()
    print(f"static/js: {len(scripts)} scripts in {len(folders)} folders, {max(folders.values())} in the largest, "
          f"{len(python_files.circles(scripts))} circles, "
          f"{len(javascript_files.arrows_against_layers(scripts))} arrows against the layers")


if __name__ == "__main__":
    main()
