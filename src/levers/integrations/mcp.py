"""Agents: a server of the Model Context Protocol, over standard input and output or over HTTP."""

import json
import uuid
from collections.abc import Callable
from functools import cache, partial
from importlib.metadata import version
from types import SimpleNamespace
from typing import Any

from levers.errors import InvalidSettingError, LeversError, NoSuchStudyError, to_install
from levers.studies.settings import SETTINGS
from levers.studies.storage.base import Storage

try:
    from anyio import run, to_thread
    from mcp.server import Server
    from mcp.server.context import ServerRequestContext
    from mcp.server.stdio import stdio_server
    from mcp.server.transport_security import TransportSecuritySettings
    from mcp.shared.exceptions import MCPError
    from mcp_types import (
        INVALID_PARAMS,
        INVALID_REQUEST,
        CallToolRequestParams,
        CallToolResult,
        ListToolsResult,
        PaginatedRequestParams,
        TextContent,
        Tool,
        ToolAnnotations,
    )
    from pydantic import ValidationError
    from starlette.requests import Request
    from starlette.responses import JSONResponse
    from starlette.types import ASGIApp, Receive, Scope, Send

    from levers.integrations.agent_answers import Answer, Call
    from levers.integrations.agent_tools import INSTRUCTIONS, TOOLS, AgentTool
    from levers.web.api.schemas import Wire
    from levers.web.errors import Problem, RefusedError, sendable
    from levers.web.limits.admission import lanes
    from levers.web.security import Guard, Metrics
    from levers.web.service import Access, Service, log
except ImportError as error:
    raise InvalidSettingError(f"agents need {error.name}: {to_install('mcp')}") from error

PATH = "/mcp"
"""Where the server is on its host."""
_MOST_PROBLEMS = 10
_BY_NAME = {tool.name: tool for tool in TOOLS}
_HELP = {setting.name: setting.help for setting in SETTINGS}
_Context = ServerRequestContext[Any, Request]


class _Named(Wire):
    """What a tool about a study takes first."""

    name: str


def agents_server(service: Service, access: Access | None = None) -> Server[Any]:
    """The server with its tools. With `access` all calls are from that one person; else each request says who it is.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> agents_server(Service(MemoryStorage()), Access("ann", "read")).name
    'levers'
    """
    here = None if access is None else _request_of(service, access)
    bounds = lanes(service.limits)

    async def list_tools(context: _Context, _: PaginatedRequestParams | None) -> ListToolsResult:
        asks = await to_thread.run_sync(service.access, _request(context, here))
        return ListToolsResult(tools=[listed(tool) for tool in TOOLS if tool.role in asks.offered()])

    async def call_tool(context: _Context, params: CallToolRequestParams) -> CallToolResult:
        tool = _BY_NAME.get(params.name)
        if tool is None:
            raise MCPError(INVALID_PARAMS, f"there is no tool {params.name[:100]!r}; there are {', '.join(_BY_NAME)}")
        request = _request(context, here)
        call = partial(_called, tool, request, params.arguments or {}, here is not None)
        answer = partial(answered, service, call, params.name, here is not None)
        if here is not None or tool.lane == "":  # whoever started this process has it alone
            return await to_thread.run_sync(answer)
        try:
            place = await bounds[tool.lane].take()
        except RefusedError as error:
            return _failed(Problem.of(error).kind, str(error))
        try:
            job = request.scope["levers.state"].get("job")
            if job is not None and job.is_cancelled:  # while it waited
                return _failed("Refused", "nobody waits for this any more")
            return await to_thread.run_sync(answer)
        finally:
            place.give_back()

    return Server(
        "levers",
        version=version("levers"),
        title="levers",
        instructions=INSTRUCTIONS,
        on_list_tools=list_tools,
        on_call_tool=call_tool,
    )


def _request_of(service: Service, access: Access) -> Request:
    """What operations of the API read of a request, for calls that come without one: the service, and who asks."""
    app = SimpleNamespace(state=SimpleNamespace(service=service))
    scope = {"type": "http", "method": "POST", "path": PATH, "headers": [], "query_string": b""}
    return Request({**scope, "server": ("localhost", 80), "app": app, "levers.state": {"access": access}})


def _request(context: _Context, here: Request | None) -> Request:
    found = here or context.request
    assert found is not None  # over HTTP every message comes with a request
    return found


def _called(tool: AgentTool, request: Request, given: dict[str, Any], local: bool) -> Answer:
    """Call a tool: who may is asked first, then what was given is checked, and then something is done."""
    service: Service = request.app.state.service
    service.allow(request, tool.role)
    body, name = dict(given), ""
    if tool.is_about_study:
        name = _Named.model_validate({key: body.pop(key) for key in ("name",) if key in body}).name
    return tool.act(Call(request, name, tool.body.model_validate(body), local))


def answered(service: Service, call: Callable[[], Answer], name: str, local: bool) -> CallToolResult:
    """What came of a call; an error in the one line that every other face of levers has for it."""
    try:
        answer = call()
    except ValidationError as error:
        found = [f"{'.'.join(map(str, one['loc']))}: {one['msg']}" for one in error.errors()[:_MOST_PROBLEMS]]
        return _failed("InvalidRequest", "; ".join(found))
    except (LeversError, RefusedError) as error:
        problem = Problem.of(error)
        if isinstance(error, NoSuchStudyError):
            service.forget_deleted()
        if problem.status >= 500:
            log.error("%s: %s", problem.kind, error)
        # where a storage is, and what its driver says, is nobody's business but the local user's
        return _failed(problem.kind, str(error) if local else problem.message, **problem.about)
    except Exception as error:
        number = uuid.uuid4().hex[:12]
        log.error("error %s in the tool %s", number, name, exc_info=error)
        return _failed("Internal", f"something went wrong here; the log of the server has it as {number}")
    data = sendable(json.dumps(answer.data, ensure_ascii=False, allow_nan=False))
    # some clients show a model the texts, and others the data: each has all of it
    texts = [sendable(answer.text)] if answer.data.get("text") == answer.text else [sendable(answer.text), data]
    content = [TextContent(type="text", text=text) for text in texts]
    return CallToolResult(content=[*content], structured_content=json.loads(data))


def _failed(kind: str, message: str, **about: Any) -> CallToolResult:
    line = sendable(" ".join(message.split()))
    data = {"error": {"kind": kind, "message": line, **about}}
    return CallToolResult(content=[TextContent(type="text", text=line)], structured_content=data, is_error=True)


@cache
def listed(tool: AgentTool) -> Tool:
    """A tool as agents see it.

    >>> listed(_BY_NAME["tell"]).input_schema["required"]
    ['name', 'outcomes']
    """
    schema = _without_titles(tool.body.model_json_schema())
    schema.pop("description", None)
    properties = schema.setdefault("properties", {})
    if tool.is_about_study:
        named = {"name": {"type": "string", "description": "The study's name."}}
        schema["properties"] = properties = {**named, **properties}
        schema["required"] = ["name", *schema.get("required", [])]
    for setting in properties.keys() & _HELP.keys():
        properties[setting].setdefault("description", _HELP[setting])
    looks = tool.role == "read" and tool.name != "report"
    hints = ToolAnnotations(
        title=tool.title,
        read_only_hint=looks,
        destructive_hint=False,  # a log is only ever added to, and nothing here deletes a study
        idempotent_hint=tool.repeats,
        open_world_hint=False,
    )
    return Tool(name=tool.name, title=tool.title, description=tool.description, input_schema=schema, annotations=hints)


def _without_titles(schema: Any) -> Any:
    """Titles say what the names say already, and every word here is one that a model has to read."""
    if isinstance(schema, list):
        return [_without_titles(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    kept = {key: part for key, part in schema.items() if key != "title" or not isinstance(part, str)}
    return {key: _without_titles(part) for key, part in kept.items()}


def agents_app(service: Service, hosts: tuple[str, ...] | None = None, *network: Any) -> ASGIApp:
    """The server over HTTP, behind the guard of the dashboard. `network` is what else the guard is told.

    Every request stands for itself and carries its token, so one that is revoked opens nothing from then on.

    >>> from levers.studies.storage.memory import MemoryStorage
    >>> app = agents_app(Service(MemoryStorage()))
    """
    app = agents_server(service).streamable_http_app(
        streamable_http_path=PATH,
        stateless_http=True,
        json_response=True,
        # the guard has looked at host and origin, by the same rules as for the dashboard
        transport_security=TransportSecuritySettings(enable_dns_rebinding_protection=False),
    )
    app.state.service = service

    async def known(scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            try:
                await to_thread.run_sync(service.access, Request(scope))
                if scope["path"] == PATH and scope["method"] != "POST":  # a stream would have nothing to say
                    raise RefusedError(405, "messages come with POST; there is no stream to follow")
            except RefusedError as error:
                await _refused(error)(scope, receive, send)
                return
        await app(scope, receive, send)

    return Guard(known, service, hosts, Metrics(), *network)


def _refused(error: RefusedError) -> JSONResponse:
    """A request that is turned away, in the protocol's words: clients show no others."""
    problem = {"code": INVALID_REQUEST, "message": str(error)}
    known = {401: {"www-authenticate": "Bearer"}, 405: {"allow": "POST"}}
    headers = known.get(error.status) or getattr(error, "headers", None)
    return JSONResponse({"jsonrpc": "2.0", "id": None, "error": problem}, error.status, headers)


def serve_stdio(storage: Storage, who: str, role: str) -> None:
    """Serve whoever started this process, by its standard input and output, until the input ends."""
    server = agents_server(Service(storage), Access(who, role))

    async def serve() -> None:
        async with stdio_server() as (received, sent):
            await server.run(received, sent, server.create_initialization_options())

    run(serve)
