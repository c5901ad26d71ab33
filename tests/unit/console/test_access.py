"""Who gets to see pages and to send forms."""

from html import unescape
from pathlib import Path

import httpx
import pytest

from tests.support.console import (
    ACME_TOKEN,
    READING_TOKEN,
    TOKEN,
    browsing,
    fields_in,
    post,
    sign_in,
    token_in,
    with_tokens,
)
from tests.support.http import Recorder
from worker.api.sessions import ATTEMPTS_PER_MINUTE, COOKIE, Sessions
from worker.api.tokens import Client, Tokens, read_tokens
from worker.console.pages.browser import own_path
from worker.console.security import POLICY, SESSION_COOKIE
from worker.domain.errors import SettingsError
from worker.settings.service import ServiceSettings


async def test_without_tokens_pages_are_open_on_this_machine() -> None:
    async with browsing(Recorder({})) as client:
        page = await client.get("/")
        assert page.status_code == 200
        assert "3 memories kept" in page.text
        assert page.headers["content-security-policy"] == POLICY
        assert page.headers["cache-control"] == "no-store"
        cookie = page.headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie


@pytest.mark.parametrize(
    ("headers", "status"),
    [({"Host": "attacker.example"}, 421), ({"Origin": "https://attacker.example"}, 403), ({}, 200)],
)
async def test_pages_are_behind_the_checks_of_names(headers: dict[str, str], status: int) -> None:
    async with browsing(Recorder({})) as client:
        answer = await client.get("/", headers=headers)
        assert answer.status_code == status
        assert answer.headers["content-security-policy"] == POLICY


async def test_every_page_has_its_json() -> None:
    async with browsing(Recorder({})) as client:
        by_name = (await client.get("/overview.json")).json()
        assert by_name == (await client.get("/", headers={"Accept": "application/json"})).json()
        assert by_name["memories"] == 3


async def test_with_tokens_one_signs_in_and_comes_back(tmp_path: Path) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        refused = await client.get("/?a=1")
        assert (refused.status_code, refused.headers["location"]) == (303, "/sign-in?next=/%3Fa%3D1")
        assert (await client.get("/overview.json")).status_code == 401
        answer = await post(client, "/sign-in", token=TOKEN, next="/?a=1")
        assert (answer.status_code, answer.headers["location"]) == (303, "/?a=1")
        session = next(one for one in answer.headers.get_list("set-cookie") if one.startswith(COOKIE))
        assert "HttpOnly" in session
        assert "SameSite=strict" in session
        assert TOKEN not in session
        assert (await client.get("/")).status_code == 200
        await post(client, "/sign-out", page="/")
        assert (await client.get("/")).status_code == 303


def test_pages_and_access_control_mean_the_same_session() -> None:
    assert SESSION_COOKIE == COOKIE


async def test_a_session_opens_pages_but_not_the_api(tmp_path: Path) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        await sign_in(client, TOKEN)
        assert (await client.get("/v1/memories")).status_code == 401


async def test_a_cookie_over_tls_stays_on_tls(tmp_path: Path) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        page = await client.get("/sign-in")
        fields = {"csrf": token_in(page.text), "token": TOKEN}
        answer = await client.post("/sign-in", data=fields, headers={"Origin": "https://localhost"})
        assert "Secure" in answer.headers["set-cookie"]


@pytest.mark.parametrize("token", ["", "a-token-that-nobody-gave", TOKEN + "x"])
async def test_a_wrong_token_is_said_to_be_wrong(tmp_path: Path, token: str) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        answer = await post(client, "/sign-in", token=token)
        assert answer.status_code == 403
        assert "does not know this token" in answer.text


async def test_attempts_to_sign_in_are_limited(tmp_path: Path) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        for _ in range(ATTEMPTS_PER_MINUTE):
            await post(client, "/sign-in", token="a-token-that-nobody-gave")
        answer = await post(client, "/sign-in", token=TOKEN)
        assert answer.status_code == 429
        assert "Too many attempts" in answer.text


@pytest.mark.parametrize("fields", [{}, {"csrf": ""}, {"csrf": "0" * 64}])
async def test_forms_of_other_pages_are_refused(fields: dict[str, str]) -> None:
    async with browsing(Recorder({})) as client:
        await client.get("/")
        answer = await client.post("/theme", data={**fields, "theme": "dark"})
        assert answer.status_code == 403
        assert "set-cookie" not in answer.headers


async def test_the_token_of_another_browser_is_refused() -> None:
    async with browsing(Recorder({})) as client:
        theirs = token_in((await client.get("/")).text)
        client.cookies.clear()
        await client.get("/")
        assert (await client.post("/theme", data={"csrf": theirs, "theme": "dark"})).status_code == 403


@pytest.mark.parametrize("site", ["cross-site", "same-site"])
async def test_forms_that_browsers_call_foreign_are_refused(site: str) -> None:
    async with browsing(Recorder({})) as client:
        token = token_in((await client.get("/")).text)
        headers = {"Sec-Fetch-Site": site}
        answer = await client.post("/theme", data={"csrf": token, "theme": "dark"}, headers=headers)
        assert answer.status_code == 403


async def test_the_theme_is_kept() -> None:
    async with browsing(Recorder({})) as client:
        assert (await post(client, "/theme", theme="dark", next="/")).status_code == 303
        assert 'data-theme="dark"' in (await client.get("/")).text
        assert (await post(client, "/theme", theme="pink")).status_code == 422


async def test_a_token_of_a_tenant_sees_only_that_tenant(tmp_path: Path) -> None:
    async with browsing(Recorder({}), with_tokens(tmp_path)) as client:
        await sign_in(client, ACME_TOKEN)
        page = await client.get("/?tenant=other")
        assert ">acme" in page.text
        assert 'name="tenant"' not in page.text
        assert "memories kept" not in page.text, "the store counts the memories of all tenants"


async def test_others_choose_their_tenant() -> None:
    async with browsing(Recorder({})) as client:
        await post(client, "/tenant", tenant="acme", next="/")
        assert ">acme" in (await client.get("/")).text
        assert ">other" in (await client.get("/?tenant=other")).text, "the address wins"
        assert ">other" in (await client.get("/")).text, "and its links stay there"
        assert (await client.get("/?tenant=" + "x" * 2000)).status_code == 422


async def test_an_error_leaves_the_chosen_tenant() -> None:
    async with browsing(Recorder({})) as client:
        await post(client, "/tenant", tenant="acme", next="/")
        for path in ("/memory", "/theme?tenant=other", "/memory?tenant=other", "/?tenant=" + "x" * 2000):
            assert (await client.get(path)).status_code >= 400
        assert ">acme" in (await client.get("/memory")).text
        refused = await client.post("/theme", data={**fields_in((await client.get("/")).text), "theme": "pink"})
        assert ">acme" in refused.text
        client.cookies.set("meeseeks_tenant", "x" * 2000, domain="localhost.local")
        assert ">default" in (await client.get("/")).text, "a cookie that names no tenant counts for nothing"


@pytest.mark.parametrize(
    ("page", "theme_from", "tenant_from"),
    [
        ("/memory/new?supersedes=m", "/memory/new?supersedes=m", "/"),
        ("/memories?q=a+b&tenant=other", "/memories?q=a+b&tenant=other", "/memories"),
        ("/requests/r1", "/requests/r1", "/requests"),
    ],
)
async def test_the_theme_and_the_tenant_are_changed_where_one_is(page: str, theme_from: str, tenant_from: str) -> None:
    async with browsing(Recorder({})) as client:
        menu = (await client.get(page)).text.partition('class="menu"')[2]
        led = {one: next_of(menu, one) for one in ("/tenant", "/theme")}
        assert led == {"/theme": theme_from, "/tenant": tenant_from}


async def test_after_a_form_the_theme_is_changed_without_sending_it_again() -> None:
    async with browsing(Recorder({})) as client:
        page = await post(client, "/theme", theme="pink")
        assert next_of(page.text, "/theme") == "/"


def next_of(page: str, action: str) -> str:
    """Return where the form with this action leads to."""
    form = page.partition(f'action="{action}"')[2].partition("</form>")[0]
    return unescape(form.partition('name="next" value="')[2].partition('"')[0])


async def test_a_token_that_only_reads_changes_nothing(tmp_path: Path) -> None:
    settings = with_tokens(tmp_path)
    async with browsing(Recorder({}), settings) as client:
        await sign_in(client, READING_TOKEN)
        page = await client.get("/")
        assert "read-only" in page.text
        assert (await post(client, "/theme", page="/", theme="dark")).status_code == 303
        headers = {"Authorization": f"Bearer {READING_TOKEN}"}
        refused = await client.post("/v1/memories", json={"memory": {"content": "x"}}, headers=headers)
        assert refused.status_code == 403
        assert "only read" in refused.json()["detail"]
        found = Recorder({"recall": {"memories": []}})
    async with browsing(found, settings) as client:
        assert (await client.post("/v1/recall", json={"query": "q"}, headers=headers)).status_code == 200


async def test_errors_are_pages_or_parts_of_pages() -> None:
    async with browsing(Recorder({})) as client:
        page = await client.get("/theme")
        assert page.status_code == 405
        assert "<h1>Method Not Allowed</h1>" in page.text
        part = await client.get("/theme", headers={"HX-Request": "true"})
        assert "<html" not in part.text
        assert 'role="alert"' in part.text


def test_lines_of_the_token_file_may_end_with_a_name_and_a_role(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    ends = ("", "role=read-only", "acme role=read-only", "name=oscar", "of acme name=ida role=read-only", "name=a b")
    file.write_text("\n".join(f"{number}123456789abcdef {end}" for number, end in enumerate(ends)), encoding="utf-8")
    callers = [token.caller for token in read_tokens(ServiceSettings(http_token_file=file)).known]
    assert callers == [
        Client("token 1", author="token 1"),
        Client("token 2", may_write=False, author="token 2"),
        Client("token 3", "acme", may_write=False, author="token 3"),
        Client("token 4", author="oscar"),
        Client("token 5", "of acme", may_write=False, author="ida"),
        Client("token 6", "name=a b", author="token 6"),
    ]


@pytest.mark.parametrize(
    "rest",
    [
        "role=readonly",
        "acme role=read_only",
        "acme role = read-only",
        "acme Role=read-only",
        "role=read-only acme",
        "acmerole=read-only",
        "acme read-only",
        "role=admin",
        "role:read-only",
        "role=readonly name=hana",
    ],
)
def test_a_misspelt_role_is_no_tenant(tmp_path: Path, rest: str) -> None:
    file = tmp_path / "tokens"
    file.write_text(f"0123456789abcdef {rest}\n", encoding="utf-8")
    with pytest.raises(SettingsError, match=r"tokens:1: unknown role; end the line with role=read-only") as raised:
        read_tokens(ServiceSettings(http_token_file=file))
    assert "0123456789abcdef" not in str(raised.value)


def a_session(tokens: Tokens, clock: list[float]) -> tuple[Sessions, list[tuple[bytes, bytes]]]:
    sessions = Sessions(tokens, clock=lambda: clock[0])
    cookie, _ = sessions.begin("0123456789abcdef", "somewhere")
    assert cookie is not None
    return sessions, [(b"cookie", f"{COOKIE}={cookie}".encode())]


def test_a_session_ends_in_time_and_with_its_token() -> None:
    tokens, clock = read_tokens(ServiceSettings(http_token="0123456789abcdef")), [1000.0]
    sessions, headers = a_session(tokens, clock)
    assert sessions.caller(headers) == Client("token", author="token")
    assert Sessions(read_tokens(ServiceSettings(http_token="another-token-16")), lambda: 1000.0).caller(headers) is None
    clock[0] += sessions.lasts_s + 1
    assert sessions.caller(headers) is None


@pytest.mark.parametrize("other", [b"prefs={a:1}", b"name=M\xfcller", b"a b=c", b'open="quote', b"=", b"x[]=1", b"; ;"])
def test_cookies_of_other_services_do_not_end_a_session(other: bytes) -> None:
    sessions, [(name, own)] = a_session(read_tokens(ServiceSettings(http_token="0123456789abcdef")), [1000.0])
    for headers in ([(name, other + b"; " + own)], [(name, own + b"; " + other)], [(name, other), (name, own)]):
        assert sessions.caller(headers) == Client("token", author="token")


@pytest.mark.parametrize("part", range(3))
def test_a_cookie_of_another_time_session_or_signature_is_no_session(part: int) -> None:
    sessions, [(name, cookie)] = a_session(read_tokens(ServiceSettings(http_token="0123456789abcdef")), [1000.0])
    parts = cookie.split(b".")
    parts[part] = parts[part][:-1] + (b"2" if parts[part].endswith(b"1") else b"1")
    assert sessions.caller([(name, b".".join(parts))]) is None


@pytest.mark.parametrize("change", [(b".", b""), (COOKIE.encode(), b"other"), (b"=", b"=\xff")])
def test_a_changed_cookie_is_no_session(change: tuple[bytes, bytes]) -> None:
    sessions, headers = a_session(read_tokens(ServiceSettings(http_token="0123456789abcdef")), [1000.0])
    assert sessions.caller([(b"cookie", headers[0][1].replace(*change))]) is None


@pytest.mark.parametrize("target", ["//other.example", "/\\other.example", "https://other.example", "x", "", "/\n/x"])
def test_nobody_is_led_to_another_site(target: str) -> None:
    assert own_path(target) == "/"


async def test_static_files_are_kept_and_not_counted(tmp_path: Path) -> None:
    settings = with_tokens(tmp_path).model_copy(update={"http_rate_limit": 2})
    async with browsing(Recorder({}), settings) as client:
        page = await client.get("/sign-in")
        address = page.text.partition('rel="stylesheet" href="')[2].partition('"')[0]
        answers: list[httpx.Response] = [await client.get(address) for _ in range(5)]
        assert {answer.status_code for answer in answers} == {200}
        assert "immutable" in answers[0].headers["cache-control"]
        assert (await client.get("/static/nothing.css")).status_code == 404
