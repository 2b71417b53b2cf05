export {
  Adapter,
  Conversation,
  Model,
  RealizarError,
  Session,
  Store,
  devices,
  fetchModel,
  plan,
  version,
} from "./index.js";
