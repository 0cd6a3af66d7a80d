"""Renders a chat template. This file runs as a process of its own, which `chat_template` starts, limits and ends.

A task comes as JSON: {"source": the template, "variables": what it is given for each conversation, "memory": bytes,
"longest": characters}. The answer is {"texts": what the template wrote}, or {"refused": its own words}, or {"failed":
what went wrong}, with "at": the number of the conversation.

The settings are those of Hugging Face transformers, for which published templates are written. This file needs the
standard library and Jinja2 only.
"""

import contextlib
import datetime
import json
import sys

import jinja2
from jinja2.ext import Extension
from jinja2.sandbox import ImmutableSandboxedEnvironment


class Refused(jinja2.TemplateError):
    """What a template raises itself: it does not take this conversation."""


class Generation(Extension):
    """`{% generation %} ... {% endgeneration %}` marks what a model wrote, for training: here it is what is inside."""

    tags = {"generation"}

    def parse(self, parser):
        """The statements between the two marks."""
        next(parser.stream)
        return parser.parse_statements(("name:endgeneration",), drop_needle=True)


def raise_exception(message):
    """A function of templates. Raises Refused."""
    raise Refused(message)


def tojson(value, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    """A filter of templates: without the escapes that web pages need, which Jinja's own has."""
    return json.dumps(value, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def strftime_now(form):
    """A function of templates: the date."""
    return datetime.datetime.now().strftime(form)


def environment():
    """Jinja's sandbox with what templates of Hugging Face transformers expect in it."""
    made = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, "jinja2.ext.loopcontrols"]
    )
    made.filters["tojson"] = tojson
    made.globals["raise_exception"] = raise_exception
    made.globals["strftime_now"] = strftime_now
    return made


def limit_memory(size):
    """Let this process have so many bytes, where the system can be told so."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        resource.setrlimit(resource.RLIMIT_AS, (size, size))


def rendered(template, variables, longest):
    """The text. Raises OverflowError where it becomes too long, and whatever the template raises."""
    parts = []
    length = 0
    for part in template.generate(variables):
        parts.append(part)
        length += len(part)
        if length > longest:
            raise OverflowError(f"it writes more than {longest:,} characters")
    return "".join(parts)


def answer(task):
    """The answer to a task."""
    texts = []
    reply = _tried(task, texts)
    return {"texts": texts} if reply is None else reply | {"at": len(texts)}


def _tried(task, texts):
    """Render into this list; returns what went wrong, or None."""
    try:
        template = environment().from_string(task["source"])
        for variables in task["variables"]:
            texts.append(rendered(template, variables, task["longest"]))
        return None
    except Refused as error:
        return {"refused": str(error.message)}
    except MemoryError:
        return {"failed": f"it needs more than {task['memory'] >> 20:,} MB of memory"}
    except RecursionError:
        return {"failed": "it calls itself without an end"}
    except jinja2.TemplateSyntaxError as error:
        return {"failed": f"line {error.lineno}: {error.message}"}
    except Exception as error:  # a template may raise whatever Python does
        return {"failed": str(error) or type(error).__name__}


def main():
    """Read a task, limit the memory, and answer."""
    task = json.load(sys.stdin)
    limit_memory(task["memory"])
    json.dump(answer(task), sys.stdout)


if __name__ == "__main__":
    main()
