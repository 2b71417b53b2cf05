// Language models inside this process: models, conversations and texts (lib/) on top of the addon (src/), which calls
// the library.
//
// A call that computes returns a promise, and runs on a thread of libuv's pool in slices of time, so that other work of
// the pool gets its turn. An object belongs to one call at a time: a second one gets RZ_ERR_BUSY.
"use strict";

const { Conversation, Session } = require("./lib/conversations.js");
const { RealizarError, version } = require("./lib/errors.js");
const { devices, fetchModel, plan } = require("./lib/loading.js");
const { Encoder, MEDIA_TOKEN, Media, Prompt } = require("./lib/media.js");
const { Adapter, Model, Store } = require("./lib/models.js");

module.exports = {
  Adapter,
  Conversation,
  Encoder,
  MEDIA_TOKEN,
  Media,
  Model,
  Prompt,
  RealizarError,
  Session,
  Store,
  devices,
  fetchModel,
  plan,
  version,
};
