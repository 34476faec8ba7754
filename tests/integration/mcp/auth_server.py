"""A server that wants a sign-in, with the authorization server of the official Python SDK beside it."""

import secrets
import sys
import time

from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions
from mcp.server.mcpserver import MCPServer
from mcp.server.auth import routes
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken

PORT = int(sys.argv[2])
HERE = f"http://127.0.0.1:{PORT}"
LIVES = 3


class Provider(OAuthAuthorizationServerProvider):
    def __init__(self):
        self.clients, self.codes, self.tokens, self.refresh, self.renewed = {}, {}, {}, {}, 0

    async def get_client(self, client_id):
        return self.clients.get(client_id)

    async def register_client(self, client_info):
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client, params):
        code = "code-" + secrets.token_urlsafe(24)
        self.codes[code] = AuthorizationCode(
            code=code,
            scopes=params.scopes or [],
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
        )
        return construct_redirect_uri(str(params.redirect_uri), code=code, state=params.state)

    async def load_authorization_code(self, client, authorization_code):
        return self.codes.get(authorization_code)

    def give(self, client_id, scopes, resource):
        access, refresh = "access-" + secrets.token_urlsafe(24), "refresh-" + secrets.token_urlsafe(24)
        end = int(time.time()) + LIVES
        self.tokens[access] = AccessToken(token=access, client_id=client_id, scopes=scopes, expires_at=end, resource=resource)
        self.refresh[refresh] = RefreshToken(token=refresh, client_id=client_id, scopes=scopes, resource=resource)
        return OAuthToken(access_token=access, refresh_token=refresh, expires_in=LIVES, scope=" ".join(scopes))

    async def exchange_authorization_code(self, client, authorization_code):
        del self.codes[authorization_code.code]
        return self.give(client.client_id, authorization_code.scopes, authorization_code.resource)

    async def load_refresh_token(self, client, refresh_token):
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(self, client, refresh_token, scopes):
        del self.refresh[refresh_token.token]
        self.renewed += 1
        return self.give(client.client_id, scopes, refresh_token.resource)

    async def load_access_token(self, token):
        return self.tokens.get(token)

    async def revoke_token(self, token):
        pass


provider = Provider()
# Clients that the owner made there, with a secret that has everything in it, and an address for the browser of their own.
if sys.argv[1] != "auth":
    method, redirect = sys.argv[1].split(",")
    provider.clients["our:app"] = OAuthClientInformationFull(
        client_id="our:app",
        client_secret="s e+c%r/t:\u00fc",
        redirect_uris=[redirect],
        token_endpoint_auth_method=method,
        grant_types=["authorization_code", "refresh_token"],
        scope="desk",
    )
    build = routes.build_metadata

    def build_metadata(*arguments, **more):
        metadata = build(*arguments, **more)
        metadata.token_endpoint_auth_methods_supported = [method]
        metadata.registration_endpoint = None
        return metadata

    routes.build_metadata = build_metadata
server = MCPServer(
    "desk",
    auth_server_provider=provider,
    auth=AuthSettings(
        issuer_url=HERE,
        resource_server_url=f"{HERE}/mcp",
        required_scopes=["desk"],
        validate_token_resource=True,
        client_registration_options=ClientRegistrationOptions(enabled=True, valid_scopes=["desk"], default_scopes=["desk"]),
    ),
)


@server.tool()
def renewed() -> str:
    """How often tokens were renewed."""
    return f"renewed {provider.renewed} times"


@server.tool()
def forget() -> str:
    """Forget every token."""
    provider.tokens.clear()
    provider.refresh.clear()
    return "forgotten"


server.run("streamable-http", port=PORT)
