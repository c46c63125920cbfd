"""TLS on the side of the callers: the certificate that the proxy shows."""

from __future__ import annotations

import ssl

from ..errors import ConfigError

HANDSHAKE = 30.0
"""Seconds that a caller has for the handshake."""


def tls_context(certificate: str, key: str | None) -> ssl.SSLContext:
    """Return the context for a certificate in PEM format; without `key`, the certificate's file holds the key, too."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.set_alpn_protocols(["http/1.1"])
    load_certificate(context, certificate, key)
    return context


def load_certificate(context: ssl.SSLContext, certificate: str, key: str | None) -> None:
    """Show this certificate on connections that begin from now on."""
    try:
        ssl.create_default_context(ssl.Purpose.CLIENT_AUTH).load_cert_chain(certificate, key, _no_password)
        context.load_cert_chain(certificate, key, _no_password)  # after one that works: it may change half of it
    except ssl.SSLError as error:
        why = "certificate and key do not belong together" if "MISMATCH" in str(error) else "it must be in PEM format"
        raise ConfigError(f"the certificate {certificate} cannot be used: {why} ({error.reason})") from error
    except OSError as error:
        name = key if key and error.filename is None else error.filename or certificate
        raise ConfigError(f"the certificate or its key cannot be read: {name}: {error.strerror or error}") from error


def _no_password() -> str:
    """Answer for a key that is encrypted: nobody can be asked for its password."""
    raise ConfigError("the key of the certificate is encrypted: save it without a password, readable by its owner only")
