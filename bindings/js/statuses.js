// The numbers of the statuses that a call can fail with. The build writes this file: make header.
"use strict";

module.exports = {
  RZ_ERR_INVALID_ARGUMENT: -1,
  RZ_ERR_BUSY: -2,
  RZ_ERR_OUT_OF_MEMORY: -3,
  RZ_ERR_DEVICE_OUT_OF_MEMORY: -4,
  RZ_ERR_LIMIT: -5,
  RZ_ERR_IO: -6,
  RZ_ERR_FORMAT: -7,
  RZ_ERR_UNSUPPORTED: -8,
  RZ_ERR_VERSION: -9,
  RZ_ERR_CANCELLED: -10,
  RZ_ERR_DEADLINE: -11,
  RZ_ERR_CONTEXT_FULL: -12,
  RZ_ERR_BUFFER_TOO_SMALL: -13,
  RZ_ERR_DEVICE_UNAVAILABLE: -14,
  RZ_ERR_DEVICE_LOST: -15,
  RZ_ERR_MISMATCH: -16,
  RZ_ERR_PANIC: -17,
  RZ_ERR_POISONED: -18,
  RZ_ERR_NOT_FOUND: -19,
  RZ_ERR_NOT_READY: -20,
  RZ_ERR_RESOURCES: -21,
};
