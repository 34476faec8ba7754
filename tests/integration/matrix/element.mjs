// A person whose client is built on matrix-js-sdk, as Element is: they have an identity, make an encrypted direct room with
// the agent, and compare emoji. Commands are lines of standard input; what happens are lines of JSON.
import { createInterface } from "node:readline";
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

// Node 20 has it not yet.
Promise.withResolvers ??= () => {
  const made = {};
  made.promise = new Promise((resolve, reject) => Object.assign(made, { resolve, reject }));
  return made;
};

const [modules, server, user, password, agent] = process.argv.slice(2);
const require = createRequire(pathToFileURL(`${modules}/node_modules/x.js`));
const sdk = await import(pathToFileURL(require.resolve("matrix-js-sdk")));
const { logger } = await import(pathToFileURL(require.resolve("matrix-js-sdk/lib/logger.js")));
logger.disableAll?.();
for (const level of ["log", "info", "warn", "error", "debug", "trace"]) console[level] = () => {};
const out = (line) => process.stdout.write(JSON.stringify(line) + "\n");
process.on("unhandledRejection", (error) => out({ error: String(error?.stack ?? error) }));

const first = sdk.createClient({ baseUrl: server });
const session = await first.loginRequest({
  type: "m.login.password", identifier: { type: "m.id.user", user }, password,
});
const client = sdk.createClient({
  baseUrl: server, userId: user, deviceId: session.device_id, accessToken: session.access_token,
  verificationMethods: ["m.sas.v1"],
});
await client.initRustCrypto({ useIndexedDB: false });
const crypto = client.getCrypto();
const synced = new Promise((resolve) => client.on("sync", (state) => state === "PREPARED" && resolve()));
await client.startClient();
await synced;
await crypto.bootstrapCrossSigning({
  authUploadDeviceSigningKeys: (ask) =>
    ask({ type: "m.login.password", identifier: { type: "m.id.user", user }, password }),
});
client.on("Event.decrypted", (event) => {
  if (event.getSender() === agent && event.getContent().body) out({ heard: event.getContent().body });
});
const { room_id: room } = await client.createRoom({
  invite: [agent], is_direct: true, preset: "trusted_private_chat",
  initial_state: [{ type: "m.room.encryption", state_key: "", content: { algorithm: "m.megolm.v1.aes-sha2" } }],
});
await client.setAccountData("m.direct", { [agent]: [room] });
const member = () => client.getRoom(room)?.getMember(agent)?.membership;
while (member() !== "join") await new Promise((resolve) => setTimeout(resolve, 100));
await client.sendTextMessage(room, "[[say Too early.]]");
out({ joined: room });

let sas, round = 0;
async function verify() {
  const request = await crypto.requestVerificationDM(agent, room);
  while (!request.otherDeviceId && request.phase !== 3) await new Promise((resolve) => request.once("change", resolve));
  while (request.phase !== 3) await new Promise((resolve) => request.once("change", resolve));
  await compare(await request.startVerification("m.sas.v1"));
}
async function asked(request) {
  await request.accept();
  while (!request.verifier) await new Promise((resolve) => request.once("change", resolve));
  await compare(request.verifier);
}
async function compare(verifier) {
  verifier.on("show_sas", (shown) => {
    sas = shown;
    round += 1;
    out({ round, emoji: shown.sas.emoji.map(([symbol]) => symbol) });
  });
  try {
    await verifier.verify();
    out({ done: "verified", status: await crypto.getUserVerificationStatus(agent) });
  } catch (error) {
    out({ done: "cancelled", why: String(error) });
  }
}

const failed = (error) => out({ error: String(error?.stack ?? error) });
client.on("crypto.verificationRequestReceived", (request) => asked(request).catch(failed));
for await (const line of createInterface({ input: process.stdin })) {
  if (line === "verify") verify().catch(failed);
  else if (line === "confirm") sas.confirm();
  else if (line.startsWith("say ")) client.sendTextMessage(room, line.slice(4)).catch(failed);
  else if (line === "trust") out({ trust: (await crypto.getUserVerificationStatus(agent)).isCrossSigningVerified() });
}
process.exit(0);
