export { Adapter, Conversation, Model, RealizarError, Session, Store, devices, plan, version } from "./index.js";
