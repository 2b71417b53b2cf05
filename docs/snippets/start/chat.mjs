// --8<-- [start:start]
// node chat.mjs model.gguf
import readline from "node:readline";
import { Conversation, Model } from "realizar";

const model = await Model.load(process.argv[2]);
const chat = new Conversation(model, { system: "Be brief." });
for await (const line of readline.createInterface({ input: process.stdin })) {
  for await (const piece of chat.say(line)) process.stdout.write(piece);
  process.stdout.write("\n");
}
// --8<-- [end:start]
