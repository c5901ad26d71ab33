"""One request to the console: who asks, for which tenant, and how it reaches the operations."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar
from urllib.parse import urlencode

from pydantic import BaseModel, TypeAdapter, ValidationError
from starlette.datastructures import FormData
from starlette.requests import Request
from starlette.responses import Response

from hooks.contract import KeyName
from worker.domain.operation import Operation
from worker.domain.validation import describe_faults
from worker.operations.client import BUDGET_S, OperationClient
from worker.settings.saved import Interface

from .access import Visitor
from .errors import PageError
from .rendering import TENANT, TENANT_COOKIE, redirect

JSON = ".json"
DEFAULT_TENANT = "default"

ModelT = TypeVar("ModelT", bound=BaseModel)
ResultT = TypeVar("ResultT", bound=BaseModel)

_TENANT: TypeAdapter[str] = TypeAdapter(KeyName)


@dataclass(frozen=True, slots=True)
class Visit:
    """A request; `form` holds what was posted, after its token was checked."""

    request: Request
    visitor: Visitor
    tenant: str
    backend: OperationClient
    form: FormData

    async def ask(
        self, operation: Operation[Any, ResultT], payload: Mapping[str, Any], *, budget: float = BUDGET_S
    ) -> ResultT:
        """Run an operation for the visitor's tenant. Raise `MeeseeksError`."""
        body = await self.backend.call(operation, {**payload, "tenant": self.tenant}, budget=budget)
        return operation.result.model_validate(body)

    async def ask_scoped(self, operation: Operation[Any, ResultT], payload: Mapping[str, Any]) -> ResultT:
        """Run an operation whose tenant is that of its scope."""
        scope = {**payload["scope"], "tenant": self.tenant}
        return operation.result.model_validate(await self.backend.call(operation, {**payload, "scope": scope}))

    async def ask_service(self, operation: Operation[Any, ResultT], payload: Mapping[str, Any]) -> ResultT:
        """Run an operation that concerns no single tenant. Raise `PageError` if the visitor is bound to one."""
        self.only_for_all()
        return operation.result.model_validate(await self.backend.call(operation, dict(payload)))

    def only_for_all(self) -> None:
        """Raise `PageError` if the visitor's token is bound to one tenant."""
        if self.visitor.tenant is not None:
            raise PageError(403, "This concerns all tenants. Sign in with a token that is not bound to one.")

    def query(self, model: type[ModelT]) -> ModelT:
        """Return the query of the address, without what is blank. Raise `PageError` for what the model refuses."""
        return checked(model, _fields(self.request.query_params.multi_items(), model))

    def posted(self, model: type[ModelT]) -> ModelT:
        """Return the fields of the form. Raise `PageError` for values that the model refuses."""
        texts = [(name, value) for name, value in self.form.multi_items() if isinstance(value, str)]
        return checked(model, _fields(texts, model))

    def text(self, name: str) -> str:
        """Return a field of the form without blanks around it, empty if it is missing."""
        return text_in(self.form, name)

    def lead_on(self, path: str) -> Response:
        """Lead the browser on after a form, in its tenant even if another tab chose another one since."""
        if self.visitor.tenant is None and self.tenant != _remembered(self.request):
            page, sign, place = path.partition("#")
            path = page + ("&" if "?" in page else "?") + urlencode({TENANT: self.tenant}) + sign + place
        return redirect(path)

    @property
    def author(self) -> dict[str, str]:
        """Return who makes a change of settings, for their history."""
        return {"name": self.visitor.author, "via": Interface.CONSOLE.value}

    @property
    def wants_json(self) -> bool:
        return wants_json(self.request)


def wants_json(request: Request) -> bool:
    """Return whether a page's JSON is asked for, by its address or by the header."""
    accepted = request.headers.get("accept", "")
    return request.url.path.endswith(JSON) or ("application/json" in accepted and "text/html" not in accepted)


def wants_part(request: Request) -> bool:
    """Return whether htmx asks for a part of the page."""
    return request.headers.get("hx-request") == "true"


def text_in(form: FormData, name: str) -> str:
    """Return a field of a form without blanks around it, empty if it is missing."""
    value = form.get(name)
    return value.strip() if isinstance(value, str) else ""


def tenant_of(request: Request, visitor: Visitor, of_form: str = "") -> str:
    """Return the visitor's tenant: the token's, else that of the form, of the address, of the cookie, or the default.

    The cookie is that of the tab which chose last, so a form names the tenant of its page.
    """
    return visitor.tenant or checked_tenant(of_form or request.query_params.get(TENANT) or _remembered(request))


def tenant_shown(request: Request, visitor: Visitor) -> str:
    """Return the visitor's tenant, that of the cookie if the address names none that there can be."""
    try:
        return tenant_of(request, visitor)
    except PageError:
        return _remembered(request)


def _remembered(request: Request) -> str:
    """Return the tenant of the cookie, the default one if it names none that there can be."""
    try:
        return checked_tenant(request.cookies.get(TENANT_COOKIE, ""))
    except PageError:
        return DEFAULT_TENANT


def checked_tenant(name: str) -> str:
    try:
        return _TENANT.validate_python(name)
    except ValidationError as error:
        raise PageError(422, f"tenant: {describe_faults(error)}") from error


def checked(model: type[ModelT], fields: Mapping[str, Any]) -> ModelT:
    """Return the model with these fields. Raise `PageError`, in plain words, for values that it refuses."""
    try:
        return model.model_validate(fields)
    except ValidationError as error:
        raise PageError(422, describe_faults(error)) from error


def _fields(pairs: list[tuple[str, str]], model: type[BaseModel]) -> dict[str, Any]:
    """Return the model's fields among these pairs; what is blank was not filled in."""
    known = {field.alias or name: field for name, field in model.model_fields.items()}
    found: dict[str, list[str]] = {}
    for name, value in pairs:
        if name in known and value.strip():
            found.setdefault(name, []).append(value)
    return {name: values if _is_list(known[name].annotation) else values[-1] for name, values in found.items()}


def _is_list(annotation: Any) -> bool:
    return getattr(annotation, "__origin__", None) in (tuple, list)
