"""A person with a client of their own: matrix-nio, whose encryption is another program than the channel's.

Reads one command a line, a JSON object with "do", and answers each by one line; what happens in rooms are lines of
their own, with "event".
"""
import asyncio
import hashlib
import io
import json
import sys

from nio import (
    AsyncClient, AsyncClientConfig, InviteMemberEvent, MegolmEvent, ReactionEvent, ReceiptEvent, RegisterResponse,
    RoomCreateResponse, RoomEncryptedMedia, RoomMessage, RoomMessageMedia, TypingNoticeEvent, UnknownEvent,
)
from nio.crypto import decrypt_attachment


# The homeserver tells ten events of a room at once, and this client does not page back for the others.
ALL = {"room": {"timeline": {"limit": 1000}}}


def out(line):
    sys.stdout.write(json.dumps(line) + "\n")
    sys.stdout.flush()


class Person:
    def __init__(self, server, user, store):
        config = AsyncClientConfig(encryption_enabled=True, store_sync_tokens=True)
        self.client = AsyncClient(server, user, store_path=store, config=config)
        client = self.client
        client.add_event_callback(self.message, (RoomMessage, RoomEncryptedMedia, MegolmEvent, ReactionEvent, UnknownEvent))
        client.add_event_callback(self.invited, InviteMemberEvent)
        client.add_ephemeral_callback(self.typing, TypingNoticeEvent)
        client.add_ephemeral_callback(self.receipt, ReceiptEvent)

    async def message(self, room, event):
        source = event.source
        line = {"event": "message", "room": room.room_id, "id": event.event_id, "sender": event.sender,
                "type": source.get("type"), "content": source.get("content"),
                "encrypted": bool(getattr(event, "decrypted", False)) or isinstance(event, MegolmEvent)}
        if isinstance(event, MegolmEvent):
            line["event"] = "undecrypted"
        if isinstance(event, RoomEncryptedMedia):
            got = await self.client.download(event.url)
            plain = decrypt_attachment(got.body, event.key["k"], event.hashes["sha256"], event.iv)
            line["sha256"] = hashlib.sha256(plain).hexdigest()
        elif isinstance(event, RoomMessageMedia):
            got = await self.client.download(event.url)
            line["sha256"] = hashlib.sha256(got.body).hexdigest()
        out(line)

    async def invited(self, room, event):
        if event.membership == "invite" and event.state_key == self.client.user_id:
            await self.client.join(room.room_id)
            out({"event": "joined", "room": room.room_id, "sender": event.sender})

    async def typing(self, room, event):
        out({"event": "typing", "room": room.room_id, "users": event.users})

    async def receipt(self, room, event):
        for one in event.receipts:
            out({"event": "receipt", "room": room.room_id, "user": one.user_id, "id": one.event_id})

    async def do(self, command):
        client, verb = self.client, command.pop("do")
        if verb == "register":
            made = await client.register(command["user"], command["password"])
            assert isinstance(made, RegisterResponse), made
            return {}
        if verb == "login":
            answer = await client.login(command["password"], device_name="person")
            await client.sync(timeout=0, sync_filter=ALL, full_state=True)
            self.task = asyncio.ensure_future(client.sync_forever(timeout=10000, sync_filter=ALL, full_state=False))
            self.task.add_done_callback(lambda task: out({"event": "ended", "why": repr(task.exception())}))
            return {"device": answer.device_id}
        if verb == "create":
            state = []
            if command.get("encrypted"):
                state.append({"type": "m.room.encryption", "state_key": "", "content": {"algorithm": "m.megolm.v1.aes-sha2"}})
            made = await client.room_create(invite=command["invite"], is_direct=command.get("direct", False),
                                            name=command.get("name"), initial_state=state,
                                            preset=None)
            assert isinstance(made, RoomCreateResponse), made
            return {"room": made.room_id}
        if verb == "invite":
            await client.room_invite(command["room"], command["user"])
            return {}
        if verb == "knows":
            # Its client has been told that somebody is there, and has their keys.
            room = client.rooms.get(command["room"])
            if room is None or command["user"] not in room.users or command["user"] in room.invited_users:
                return {"knows": False}
            if client.should_query_keys:
                await client.keys_query()
            return {"knows": any(True for _ in client.device_store.active_user_devices(command["user"]))}
        if verb == "members":
            got = await client.joined_members(command["room"])
            return {"members": [one.user_id for one in got.members]}
        if verb == "send":
            room = client.rooms.get(command["room"])
            for _ in range(100):
                if room is not None and (not command.get("encrypted") or room.encrypted):
                    break
                await asyncio.sleep(0.1)
                room = client.rooms.get(command["room"])
            if command.get("plain"):
                # Past the encryption, as a homeserver or a broken client would.
                path = f"/_matrix/client/v3/rooms/{command['room']}/send/{command.get('type', 'm.room.message')}/p{id(command)}"
                async with client.client_session.put(client.homeserver + path, json=command["content"],
                                                     headers={"Authorization": f"Bearer {client.access_token}"}) as got:
                    return await got.json()
            if room is not None and room.encrypted:
                await client.keys_query() if client.should_query_keys else None
            sent = await client.room_send(command["room"], command.get("type", "m.room.message"), command["content"],
                                          ignore_unverified_devices=True)
            return {"id": getattr(sent, "event_id", None), "error": None if hasattr(sent, "event_id") else str(sent)}
        if verb == "upload":
            data = bytes.fromhex(command["hex"]) if "hex" in command else b"x" * command["size"]
            answer, keys = await client.upload(io.BytesIO(data), content_type="application/octet-stream",
                                               filename=command["name"], encrypt=command.get("encrypt", False),
                                               filesize=len(data))
            if keys:
                keys["url"] = answer.content_uri
                return {"source": {"file": keys}}
            return {"source": {"url": answer.content_uri}}
        if verb == "redact":
            await client.room_redact(command["room"], command["id"])
            return {}
        if verb == "raw":
            # Past the library.
            async with client.client_session.request(command["method"], client.homeserver + command["path"], json=command["body"],
                                                     headers={"Authorization": f"Bearer {client.access_token}"}) as got:
                return await got.json()
        if verb == "renew":
            # What comes next has another key.
            client.invalidate_outbound_session(command["room"])
            return {}
        if verb == "withhold":
            # The keys of what comes next go to none of the user's devices.
            for device in client.device_store.active_user_devices(command["user"]):
                client.blacklist_device(device)
            client.invalidate_outbound_session(command["room"])
            return {}
        raise ValueError(verb)


async def main():
    person = Person(*sys.argv[1:4])
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader(limit=1 << 26)
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command = json.loads(line)
        try:
            out({"answer": await person.do(command)})
        except Exception as error:  # the test says what it expected
            out({"error": f"{type(error).__name__}: {error}"})
    await person.client.close()


asyncio.run(main())
