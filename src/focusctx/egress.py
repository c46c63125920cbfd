"""Choose the HTTP proxy for outgoing requests from HTTPS_PROXY, HTTP_PROXY, ALL_PROXY and NO_PROXY.

Providers and drafts follow the same rule. A proxy that cannot be used is an error, never a direct connection: where a
network asks for a proxy, going around it may break its rules.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from .errors import ConfigError


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy for requests to `url`, or None to connect directly.

    This machine is always reached directly. aiohttp's `trust_env` is not used: it ignores ALL_PROXY, connects directly
    where it does not know the proxy's scheme, and reads ~/.netrc.
    """
    from urllib.request import getproxies, proxy_bypass  # slow to import, and rarely needed

    to = urlsplit(url)
    host = to.hostname or ""
    proxies = getproxies()
    name = to.scheme if proxies.get(to.scheme) else "all"
    proxy = proxies.get(name)
    if not proxy or is_loopback(host) or proxy_bypass(to.netloc):
        return None
    return _checked(proxy, f"{name.upper()}_PROXY", host)


def _checked(proxy: str, variable: str, host: str) -> str:
    """Complete a proxy's URL, as curl does for one without a scheme. Errors do not quote it: it may hold a password."""
    proxy = proxy if "://" in proxy else f"http://{proxy}"
    way_out = f"set it to http://HOST:PORT, or add {host} to NO_PROXY to connect directly"
    try:
        parts = urlsplit(proxy)
        has_host = bool(parts.hostname) and parts.port != 0
    except ValueError:
        has_host = False
    if not has_host:
        raise ConfigError(f"{variable} is not the address of a proxy: {way_out}")
    if parts.scheme not in ("http", "https"):
        raise ConfigError(f"{variable} names a {parts.scheme} proxy, and only HTTP proxies are supported: {way_out}")
    return proxy


def is_loopback(host: str) -> bool:
    """True if a host name or address is this machine's own."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"
