"""Carries out the annotations in the source of one file: what they mean stands in the lines of what they stood beside.

The rewritten code calls nothing but ``get_next_parameter``, ``get_current_parameter`` and the two reports, which every
version of NNI's package has, and needs no import: names of the file's own are never in its way.
"""

from __future__ import annotations

import ast
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from nniweb.annotation.parameters import (
    FUNCTIONS,
    NUMERIC,
    Parameters,
    Wrong,
    check_options,
    name_of,
    numbers_of,
    option_of,
    plain_value,
)
from nniweb.annotation.source_text import SourceText
from nniweb.annotation.unpacked_options import check_unpacking

#: How code reaches the package, whatever the file has imported.
_NNI = '__import__("nni")'
_CALLS = ("report_intermediate_result", "report_final_result", "get_next_parameter", "get_next_parameters")
_ARCHITECTURE = ("mutable_layers", "mutable_layer", "training_update")
_NO_ARCHITECTURE = ("belongs to neural architecture search, which is not supported. Remove it from the code, and "
                    "choose between functions with @nni.function_choice.")


@dataclass(frozen=True)
class Problem:
    """What is wrong in a line, as a sentence."""

    line: int
    message: str


@dataclass
class Rewriting:
    """``source`` is None where the file has no annotation; ``problems`` are in the order of their lines."""

    parameters: Parameters
    source: bytes | None = None
    problems: list[Problem] = field(default_factory=list)


def rewrite(source: bytes, module: str) -> Rewriting:
    """Carry out the annotations of a file; ``module`` begins the names of its parameters."""
    result = Rewriting(Parameters(module))
    try:
        text = SourceText(source)
        tree = ast.parse(text.text)
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        result.problems.append(_unreadable(error))
        return result
    reading = _Reading(text, result)
    try:
        reading.block(tree.body)
        if not result.problems and reading.has_changed:
            result.source = _checked(text)
    except RecursionError:
        result.problems.append(Problem(1, "the code is nested too deeply to be read."))
    except SyntaxError as error:
        result.problems.append(Problem(error.lineno or 1, "applying the annotations does not give valid Python code: "
                                       f"{_what_python_says(error)} Change the annotation or the statement that it "
                                       "changes."))
    result.problems.sort(key=lambda problem: problem.line)
    return result


def _unreadable(error: Exception) -> Problem:
    version = f"{sys.version_info.major}.{sys.version_info.minor}"
    line = error.lineno if isinstance(error, SyntaxError) else None
    return Problem(line or 1, f"this is not valid in Python {version}, with which the server runs: "
                              f"{_what_python_says(error)} Files with annotations must be valid in it.")


def _what_python_says(error: Exception) -> str:
    """As a sentence, with its own full stop or question mark."""
    said = error.msg if isinstance(error, SyntaxError) else str(error) or "it is nested too deeply"
    if said.startswith("Exceeds the limit"):  # it would go on with a function that the author cannot call
        said = f"a whole number has more than {sys.get_int_max_str_digits()} digits"
    return said if said.endswith((".", "?", "!")) else f"{said}."


def _checked(text: SourceText) -> bytes:
    """The new source. Raises SyntaxError where it is no code any more."""
    source = text.rewritten()
    new = SourceText(source)
    assert new.line_count == text.line_count, "an annotation has moved lines"
    compile(new.text, "<annotated>", "exec", dont_inherit=True)
    return source


@dataclass(frozen=True)
class _Annotation:
    """``@nni.variable`` or ``@nni.function_choice``, which changes the statement after it."""

    call: ast.Call
    line: int


class _Reading:
    """Walks through the statements of a file, notes the edits in ``text`` and what was found in ``result``."""

    def __init__(self, text: SourceText, result: Rewriting) -> None:
        self._text = text
        self._result = result
        self._parameters = result.parameters
        #: Calls for which a chosen one stands.
        self._replaced: set[ast.AST] = set()
        self.has_changed = False

    def block(self, statements: list[ast.stmt]) -> None:
        """Statements one below the other."""
        waiting: _Annotation | None = None
        for statement in statements:
            string = _string_of(statement)
            if waiting is not None:
                with self._noting():
                    if string is not None:
                        raise Wrong(statement.lineno, "there is a text in place of the statement that the annotation "
                                                      f"in line {waiting.line} changes.")
                    self._annotated(waiting, statement)
                waiting = None
            elif string is not None and string.startswith("@nni."):
                with self._noting():
                    waiting = self._annotation(string, statement)
            else:
                self._plain(statement)
        if waiting is not None:
            self._result.problems.append(Problem(
                waiting.line, "the annotation is at the end of its block. It must be directly before the statement "
                              "that it changes, with the same indentation."))

    def _plain(self, node: ast.AST) -> None:
        """What is not annotated: calls of ``nni.choice`` and the like, written by hand, and inner blocks."""
        if node in self._replaced:
            return
        for _, value in ast.iter_fields(node):
            if isinstance(value, list) and value and isinstance(value[0], ast.stmt):
                self.block(value)
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.AST):
                    self._plain(child)
        function = _function_of_nni(node)
        if isinstance(node, ast.Call) and function in (*FUNCTIONS, *_ARCHITECTURE):
            with self._noting():
                self._by_hand(node, function)

    def _annotation(self, string: str, statement: ast.stmt) -> _Annotation | None:
        """Read an annotation; one that is a call of its own is carried out at once."""
        line = statement.lineno
        call = _call_of(string[1:], statement)
        function = _function_of_nni(call)
        if function in _ARCHITECTURE:
            raise Wrong(line, f"@nni.{function} {_NO_ARCHITECTURE}")
        if function in ("variable", "function_choice"):
            self._replace(statement, "")
            return _Annotation(call, line)
        if function not in _CALLS:
            raise Wrong(line, f"@nni.{function} is not an annotation. Annotations: @nni.variable, "
                              "@nni.function_choice, @nni.get_next_parameter, @nni.report_intermediate_result and "
                              "@nni.report_final_result.")
        _check_arguments(call, function, line)
        self._replace(statement, self._code(call, line))
        return None

    def _annotated(self, annotation: _Annotation, statement: ast.stmt) -> None:
        if _function_of_nni(annotation.call) == "variable":
            self._variable(annotation, statement)
        else:
            self._function_choice(annotation, statement)

    def _variable(self, annotation: _Annotation, statement: ast.stmt) -> None:
        line = annotation.line
        name = _name_argument(annotation.call, line)
        if len(annotation.call.args) != 1:
            raise Wrong(line, "@nni.variable needs one call with the possible values, and name: "
                              "@nni.variable(nni.choice(1, 2), name=x).")
        call = annotation.call.args[0]
        function = _function_of_nni(call)
        if not isinstance(call, ast.Call) or function not in ("choice", *NUMERIC):
            raise Wrong(line, f"{ast.unparse(call)} is none of NNI's functions. There are "
                              f"{', '.join(f'nni.{each}' for each in ('choice', *NUMERIC))}.")
        if call.keywords:
            raise Wrong(line, f"nni.{function} takes its values as positional arguments, without names.")
        target, value = _assignment(statement, line)
        if ast.unparse(target) != ast.unparse(name):
            raise Wrong(line, f"the annotation is for {ast.unparse(name)}, but the assignment after it is to "
                              f"{ast.unparse(target)}. Write the same name.")
        check_unpacking(name, function, call.args, line)
        self._replace(value, self._drawn(function, call.args, name_of(name), line))

    def _function_choice(self, annotation: _Annotation, statement: ast.stmt) -> None:
        call, line = annotation.call, annotation.line
        name = _name_argument(call, line)
        code = self._chosen_function(call.args, name_of(name), line)
        wanted = {ast.dump(option) for option in call.args}
        found = [each for each in _outermost_calls(statement) if ast.dump(each) in wanted]
        if not found:
            raise Wrong(line, "the statement after the annotation calls none of its functions with the same arguments, "
                              "so there is nothing to replace.")
        for each in found:
            self._replace(each, code)
        self._replaced.update(found)
        self._plain(statement)

    def _by_hand(self, call: ast.Call, function: str) -> None:
        """``nni.choice({...}, name="x")`` in the code itself, in the form that NNI makes of annotations."""
        line = call.lineno
        if function in _ARCHITECTURE:
            raise Wrong(line, f"nni.{function} {_NO_ARCHITECTURE}")
        if not call.args:
            raise Wrong(line, f"nni.{function} has nothing to choose from.")
        name = None
        for keyword in call.keywords:
            if keyword.arg != "name" or not isinstance(keyword.value, ast.Constant) \
                    or not isinstance(keyword.value.value, str):
                raise Wrong(line, f'nni.{function} takes one keyword argument, a text: name="x".')
            name = keyword.value.value
        if name is None:
            line = call.args[-1].lineno
        if function in NUMERIC:
            key = self._parameters.declare(function, name, numbers_of(call.args, function, line), line)
            self._replace(call, _value(key))
            return
        options = call.args[0]
        if not isinstance(options, ast.Dict) or len(call.args) != 1 \
                or not all(isinstance(key, ast.Constant) for key in options.keys):
            raise Wrong(line, f"nni.{function} needs a dict whose keys are written out, such as "
                              f"nni.{function}({{1: 1, 'two': f(2)}}): the keys are the options in the search space.")
        keys = [plain_value(key.value, line) for key in options.keys if isinstance(key, ast.Constant)]
        check_options(keys, line)
        key = self._parameters.declare(function, name, keys, line)
        self._text.wrap(call, options, "(", f"[{_value(key)}]{'()' if function == 'function_choice' else ''})")
        self.has_changed = True

    @contextmanager
    def _noting(self) -> Iterator[None]:
        """Notes what is wrong with one annotation; the reading goes on after it."""
        try:
            yield
        except Wrong as error:
            self._result.problems.append(Problem(error.line, error.message))

    # --- code ------------------------------------------------------------------------------

    def _replace(self, node: ast.expr | ast.stmt, code: str) -> None:
        self._text.replace(node, code)
        self.has_changed = True

    def _drawn(self, function: str, arguments: list[ast.expr], name: str | None, line: int) -> str:
        """Code whose value is a parameter's, for ``choice`` and the numeric functions."""
        if function in NUMERIC:
            return _value(self._parameters.declare(function, name, numbers_of(arguments, function, line), line))
        options = [option_of(argument, line) for argument in arguments]
        check_options(options, line)
        code = [self._code(argument, line) for argument in arguments]
        key = self._parameters.declare(function, name, options, line)
        entries = ", ".join(f"{ascii(option)}: ({each})" for option, each in zip(options, code, strict=True))
        return f"{{{entries}}}[{_value(key)}]"

    def _chosen_function(self, arguments: list[ast.expr], name: str | None, line: int) -> str:
        """Only the chosen one is evaluated, where it stands: ``super()``, ``await`` and names of a class work."""
        options = [option_of(argument, line) for argument in arguments]
        check_options(options, line)
        code = [self._code(argument, line) for argument in arguments]
        value = _value(self._parameters.declare("function_choice", name, options, line))
        chain = "".join(f"({each}) if {value} == {ascii(option)} else "
                        for option, each in zip(options, code, strict=True))
        return f"{chain}{{}}[{value}]"  # a KeyError that names what is none of them

    def _code(self, node: ast.expr, line: int) -> str:
        """An expression of an annotation as code of the file, on one line."""
        return ast.unparse(_InAnnotation(self, line).visit(ast.parse(ast.unparse(node), mode="eval").body))

    def nested(self, call: ast.Call, function: str, line: int) -> ast.expr:
        """A call of NNI's functions within an annotation."""
        if call.keywords:
            raise Wrong(line, f"nni.{function} within an annotation takes its values as positional arguments, without "
                              "names.")
        code = self._chosen_function(call.args, None, line) if function == "function_choice" else \
            self._drawn(function, call.args, None, line)
        return ast.parse(code, mode="eval").body


class _InAnnotation(ast.NodeTransformer):
    def __init__(self, reading: _Reading, line: int) -> None:
        self._reading = reading
        self._line = line

    def visit_Call(self, node: ast.Call) -> ast.AST:
        function = _function_of_nni(node)
        return self._reading.nested(node, function, self._line) if function in FUNCTIONS else self.generic_visit(node)

    def visit_Name(self, node: ast.Name) -> ast.AST:
        return ast.parse(_NNI, mode="eval").body if node.id == "nni" else node


def _value(key: str) -> str:
    """Code whose value is a parameter's. The parameters are asked for at the first."""
    return f"({_NNI}.get_current_parameter() or {_NNI}.get_next_parameter())[{ascii(key)}]"


def _string_of(statement: ast.stmt) -> str | None:
    """The text, where the statement is nothing but one."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant) \
            and isinstance(statement.value.value, str):
        return statement.value.value
    return None


def _call_of(code: str, statement: ast.stmt) -> ast.Call:
    """The one call that an annotation is. Raises Wrong."""
    try:
        body = ast.parse(code).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        inner = error.lineno or 1 if isinstance(error, SyntaxError) else 1
        is_as_written = code.count("\n") == (statement.end_lineno or statement.lineno) - statement.lineno
        raise Wrong(statement.lineno + (inner - 1 if is_as_written else 0),
                    f"the annotation cannot be read as Python: {_what_python_says(error)}") from None
    call = body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None
    if not isinstance(call, ast.Call) or _function_of_nni(call) is None:
        raise Wrong(statement.lineno, "an annotation must be one call, such as @nni.report_final_result(accuracy).")
    return call


def _function_of_nni(node: ast.AST) -> str | None:
    """``choice`` of a call ``nni.choice(...)``; None of anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) \
            and isinstance(node.func.value, ast.Name) and node.func.value.id == "nni":
        return node.func.attr
    return None


def _check_arguments(call: ast.Call, function: str, line: int) -> None:
    """Raises Wrong where a call of NNI's would fail in the trial for its arguments. Behind a star they are not known.
    """
    names = [keyword.arg for keyword in call.keywords]
    if None in names or any(isinstance(argument, ast.Starred) for argument in call.args):
        return
    if function.startswith("report_"):
        if len(call.args) + len(names) != 1 or names not in ([], ["metric"]):
            raise Wrong(line, f"@nni.{function} needs exactly one argument, the result: @nni.{function}(accuracy).")
    elif call.args or names:
        raise Wrong(line, f"@nni.{function} takes no arguments. Write @nni.{function}().")


def _name_argument(call: ast.Call, line: int) -> ast.expr:
    if len(call.keywords) != 1 or call.keywords[0].arg != "name":
        raise Wrong(line, "an annotation of a variable or a function needs exactly one keyword argument, name, as the "
                          "last argument: name=x.")
    return call.keywords[0].value


def _assignment(statement: ast.stmt, line: int) -> tuple[ast.expr, ast.expr]:
    """What a statement after @nni.variable assigns to, and the value."""
    if isinstance(statement, ast.Assign) and len(statement.targets) == 1:
        return statement.targets[0], statement.value
    if isinstance(statement, ast.AnnAssign) and statement.value is not None:
        return statement.target, statement.value
    raise Wrong(line, "@nni.variable must be directly before an assignment to one variable, such as x = 1.")


def _outermost_calls(node: ast.AST) -> Iterator[ast.Call]:
    """Calls that stand in no other, also those in the blocks of a statement. Left out are statements in these blocks
    that have an annotation of their own.
    """
    for _, value in ast.iter_fields(node):
        is_annotated = False
        for child in value if isinstance(value, list) else [value]:
            was_annotated, is_annotated = is_annotated, isinstance(child, ast.stmt) and _is_annotation(child)
            if isinstance(child, ast.Call):
                yield child
            elif isinstance(child, ast.AST) and not was_annotated:
                yield from _outermost_calls(child)


def _is_annotation(statement: ast.stmt) -> bool:
    """Whether it changes the statement after it."""
    return (_string_of(statement) or "").startswith(("@nni.variable", "@nni.function_choice"))
