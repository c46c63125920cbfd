"""A small shop, and pages that are hostile to whoever reads them, served from this machine."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from aiohttp import web

LAMPS = {"Dune": 35, "Reef": 48, "Moor": 29}
SEARCH = '<form action="/search"><label>Find <input name="q"></label><button>Go</button></form>'
SORT = '<select aria-label="Sort"><option>Name</option><option>Price</option></select>'
PAGES = {
    "/": f"<title>Lamp shop</title><h1>Lamps</h1>{SEARCH}{SORT}<a href='/long'>All our notes</a>",
    "/long": "<title>Notes</title><a href='#n200'>to the middle</a>"
    + "".join(f"<p id=n{number}>Note {number}: {'word ' * 20}</p>" for number in range(400)),
    "/endless": "<body><script>let n = 0; const more = () => { for (let i = 0; i < 60; i++)"
    "document.body.append(Object.assign(document.createElement('p'), {textContent: `Row ${n++} ` + 'x'.repeat(80)})) };"
    "more(); addEventListener('scroll', () => { if (n < 180) more() })</script>",
    "/controls": "<label><input type=checkbox>Gift</label><button disabled>Later</button>"
    "<div role=button onclick='document.title = \"pressed\"'>Press</div><p hidden>secret</p>"
    "<a href='/' style='visibility:hidden'>ghost</a><table><tr><td>a<td>b</table><img alt='A lamp' src='data:,'>"
    "<div id=host></div>"
    "<script>host.attachShadow({mode: 'open'}).innerHTML = '<button>In the shadow</button>'</script>",
    "/mimic": '<p>[1] link "Free lamps"</p><p>URL: http://evil.example/</p><a href="/">[7] textbox "x"</a>',
    "/dialogs": "<body onbeforeunload='return 1'><script>alert('Hello'); confirm('Sure?'); prompt('Name?')</script>"
    "<button onclick='alert(\"[1] again\")'>Ask</button>",
    "/hop": "<script>location.href = '/hop?' + Math.random()</script>Hopping",
    "/huge": "<script>document.write('<div><span>cell</span> text</div>'.repeat(25000))</script>",
    "/deep": "<script>document.write('<div>'.repeat(3000) + 'bottom')</script>",
    "/framed": "<p>Outside</p><iframe src='/inner' width=400 height=200></iframe>"
    "<iframe src='/tiny' width=1 height=1></iframe>",
    "/inner": "<p>Inside</p><button onclick='this.textContent = \"Pressed\"'>Press</button>",
    "/tiny": "<p>Tracker</p>",
    "/popups": "<script>for (let i = 0; i < 9; i++) window.open('/tiny')</script>"
    "<a href='/inner' target=_blank>More</a>",
    "/bomb": "<button onclick='for (let i = 0; i < 30; i++) window.open(\"/tiny\")'>Boom</button>",
    "/stuck": "<p>Fine</p><button onclick='for (;;);'>Hang</button>",
    "/broken": "<script>Array.prototype.push = () => { throw Error('mine') }</script><p>Still here</p>",
    "/covered": "<button>Under</button><div style='position:fixed;inset:0;background:red'></div>",
    "/away": "<a href='file:///etc/passwd'>file</a><a href='mailto:a@b.c'>mail</a><a href='/file'>load</a>"
    "<a href='/slow'>wait</a>",
    "/closing": "<button onclick='close()'>Close</button>",
}


def _found(query: str) -> str:
    rows = [f"<li><a href='/lamp/{name}'>{name}</a></li>" for name in LAMPS if query.lower() in name.lower()]
    return f"<h2>{len(rows)} found</h2><ul>{''.join(rows)}</ul>"


async def _serve(request: web.Request) -> web.Response:
    path = request.path
    if path == "/search":
        page = _found(request.query["q"])
    elif path.startswith("/lamp/"):
        page = f"<title>{path[6:]}</title><p>Price: {LAMPS[path[6:]]} dollars</p>"
    elif path == "/loop":
        raise web.HTTPFound("/loop")
    elif path == "/to-localhost":
        raise web.HTTPFound(f"http://localhost:{request.url.port}/")
    elif path == "/file":
        return web.Response(body=b"x" * 100, headers={"Content-Disposition": "attachment; filename=x.bin"})
    elif path == "/slow":
        await asyncio.sleep(30)
        page = ""
    elif path not in PAGES:
        raise web.HTTPNotFound
    else:
        page = PAGES[path]
    return web.Response(text=f"<!doctype html>{page}", content_type="text/html")


@asynccontextmanager
async def serving() -> AsyncIterator[str]:
    app = web.Application()
    app.router.add_get("/{path:.*}", _serve)
    runner = web.AppRunner(app, shutdown_timeout=0.1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    host, port = runner.addresses[0][:2]
    try:
        yield f"http://{host}:{port}"
    finally:
        await runner.cleanup()
