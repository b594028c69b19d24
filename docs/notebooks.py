"""Run the notebooks in examples/notebooks and keep what they print: python docs/notebooks.py [NAME ...].

For the site it is a hook: each notebook becomes a page. Cells run in one namespace, as plain Python; of a cell is
kept what it prints, its last expression, and the figure that was drawn.
"""

import ast
import base64
import contextlib
import html
import io
import json
import pathlib
import re
import sys
from typing import Any

NOTEBOOKS = pathlib.Path(__file__).parents[1] / "examples" / "notebooks"
PICTURE, TABLE, TEXT = "image/png", "text/html", "text/plain"


def load(name: str) -> dict[str, Any]:
    """A notebook by its name."""
    content: dict[str, Any] = json.loads((NOTEBOOKS / f"{name}.ipynb").read_text(encoding="utf-8"))
    return content


def outputs(notebook: dict[str, Any]) -> list[list[dict[str, Any]]]:
    """What the code cells show when they are run, in order."""
    import matplotlib

    matplotlib.use("Agg")
    names: dict[str, Any] = {"__name__": "notebook"}
    return [_run("".join(cell["source"]), names) for cell in notebook["cells"] if cell["cell_type"] == "code"]


def _run(source: str, names: dict[str, Any]) -> list[dict[str, Any]]:
    from matplotlib import pyplot

    tree, last = ast.parse(source), None
    if isinstance(tree.body[-1], ast.Expr):
        last = ast.Expression(tree.body.pop().value)
    with contextlib.redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, "notebook", "exec"), names)
        value = None if last is None else eval(compile(last, "notebook", "eval"), names)
    shown: list[dict[str, Any]] = []
    if printed.getvalue():
        shown.append(
            {"output_type": "stream", "name": "stdout", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if figures := pyplot.get_fignums():
        picture = io.BytesIO()
        pyplot.figure(figures[-1]).savefig(picture, dpi=80, bbox_inches="tight", metadata={"Software": None})
        pyplot.close("all")
        data = {PICTURE: base64.b64encode(picture.getvalue()).decode(), TEXT: ["a figure"]}
        shown.append({"output_type": "display_data", "data": data, "metadata": {}})
    elif value is not None:
        data = {TEXT: repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data[TABLE] = value._repr_html_().splitlines(keepends=True)
        shown.append({"output_type": "execute_result", "data": data, "metadata": {}, "execution_count": 1})
    return shown


def renew(name: str) -> None:
    """Run a notebook and write what it shows into it."""
    notebook = load(name)
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, shown) in enumerate(zip(cells, outputs(notebook), strict=True), 1):
        for one in shown:
            if "execution_count" in one:
                one["execution_count"] = number
        cell |= {"execution_count": number, "outputs": shown}
    text = json.dumps(notebook, indent=1, ensure_ascii=False)
    (NOTEBOOKS / f"{name}.ipynb").write_text(text + "\n", encoding="utf-8")


def page(name: str) -> str:
    """A notebook as a page of the site."""
    parts = []
    for cell in load(name)["cells"]:
        source = "".join(cell["source"])
        parts.append(source if cell["cell_type"] == "markdown" else f"```python\n{source}\n```")
        for shown in cell.get("outputs", ()):
            data = shown.get("data", {})
            if PICTURE in data:
                parts.append(f'<img alt="a figure" src="data:{PICTURE};base64,{data[PICTURE]}">')
            elif TABLE in data:
                parts.append(re.sub(r"\n\s*", " ", "".join(data[TABLE])))
            else:
                parts.append(f"<pre>{html.escape(''.join(shown.get('text') or data[TEXT]))}</pre>")
    return "\n\n".join(parts) + f"\n\nThe notebook: `examples/notebooks/{name}.ipynb`.\n"


def on_files(files: Any, config: Any) -> Any:
    """Of the site: add a page for each notebook."""
    from mkdocs.structure.files import File

    for path in sorted(NOTEBOOKS.glob("*.ipynb")):
        files.append(File.generated(config, f"notebook-{path.stem}.md", content=page(path.stem)))
    return files


def on_page_markdown(markdown: str, **about: Any) -> str:
    """Of the site: code without what it says to our formatter."""
    return markdown.replace("  # fmt: skip\n", "\n")


if __name__ == "__main__":
    for chosen in sys.argv[1:] or sorted(path.stem for path in NOTEBOOKS.glob("*.ipynb")):
        renew(chosen)
