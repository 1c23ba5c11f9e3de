// Drives one run of a Cursor agent. One JSON request on stdin:
//   {action: "create"|"resume", agentId?, cwd, model: {id, params?}, prompt, settingSources?, sandbox?, mode?}
// Out: the SDK's messages as JSON lines, and last {"type":"result",…} or {"type":"error",…}. Exit 0 only for a finished run.
import { createRequire } from "node:module";
import path from "node:path";
import { pathToFileURL } from "node:url";

const say = (message) =>
  new Promise((resolve) => process.stdout.write(JSON.stringify(message) + "\n", resolve));

// The SDK is the project's, the user's (NODE_PATH), or beside Node itself, as `npm install -g` leaves it.
async function loadSdk(cwd) {
  const places = [cwd, path.join(path.dirname(process.execPath), "..", "lib")];
  for (const place of places) {
    try {
      const file = createRequire(path.join(place, "package.json")).resolve("@cursor/sdk");
      const sdk = await import(pathToFileURL(file));
      return sdk.Agent ? sdk : sdk.default; // a CommonJS build need not show its names
    } catch (error) {
      if (error.code !== "MODULE_NOT_FOUND" && error.code !== "ERR_MODULE_NOT_FOUND") throw error;
    }
  }
  const error = new Error(`@cursor/sdk is not installed; looked from ${places.join(" and ")}`);
  error.name = "SdkMissing";
  throw error;
}

async function run(request) {
  const { Agent } = await loadSdk(request.cwd);
  const local = { cwd: request.cwd };
  if (request.settingSources) local.settingSources = request.settingSources;
  if (request.sandbox !== undefined) local.sandboxOptions = { enabled: request.sandbox };
  const options = { model: request.model, local };
  if (process.env.CURSOR_API_KEY) options.apiKey = process.env.CURSOR_API_KEY;
  if (request.action === "create" && request.agentId) options.agentId = request.agentId;
  const agent = request.action === "resume" ? await Agent.resume(request.agentId, options) : await Agent.create(options);
  await say({ type: "system", subtype: "init", agent_id: agent.agentId });
  const turn = await agent.send(request.prompt, request.mode ? { mode: request.mode } : {});
  for await (const message of turn.stream()) await say(message);
  const { status, result, error } = await turn.wait();
  await say({ type: "result", status, agent_id: agent.agentId, result, error });
  return status === "finished" ? 0 : 1;
}

let code = 1;
try {
  let text = "";
  for await (const part of process.stdin.setEncoding("utf8")) text += part;
  code = await run(JSON.parse(text));
} catch (error) {
  const { name, code: kind, status, message, isRetryable } = error;
  await say({ type: "error", error: { name, code: kind, status, message, isRetryable } });
}
// The SDK keeps connections open; everything has been written by now.
process.exit(code);
