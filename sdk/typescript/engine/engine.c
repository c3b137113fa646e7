// JavaScript engine for stored procedures at level `wasm`: QuickJS, between the exports of a module and a script.
//
// `overtake proc build` compiles this file once for a machine, loads the script of a project, and keeps the memory as
// it is then: an instance begins with the script evaluated.
//
// The script finds the object `overtakeHost`:
//
//     area                    the exchange area, an ArrayBuffer
//     call(length)            makes calls; they are in the area, and their answers replace them. Returns their length
//     encode(text)            a text in UTF-8, an ArrayBuffer; half a surrogate pair becomes U+FFFD
//     decode(at, length)      a text in the area
//     start(manifest, invoke) names the manifest, and the function that an invocation enters: with the number of the
//                             entry and the length of the arguments, it returns the length of the result
//
// There is neither a clock nor chance: PRELUDE has functions that say so. There is no event loop: a promise that is
// settled continues nothing.

#include "quickjs.h"
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <time.h>

#define AREA_BYTES (1 << 20)
// Nearly 500 calls of functions. The compiled code of QuickJS needs more of the server's stack, which has 512 kB.
#define STACK_BYTES (128 << 10)

__attribute__((import_module("overtake"), import_name("call"))) int overtake_call(int length);

static uint8_t area[AREA_BYTES] __attribute__((aligned(16)));
static JSContext *context;
static JSValue entered;
static char *manifest;

static const char PRELUDE[] =
    "(() => {\n"
    "  const none = (what) => () => { throw new Error(what + ' in WebAssembly'); };\n"
    "  const clock = none('code has no clock');\n"
    "  const Given = Date;\n"
    "  function Clockless(...parts) {\n"
    "    if (!new.target || !parts.length) clock();\n"
    "    return Reflect.construct(Given, parts, new.target === Clockless ? Given : new.target);\n"
    "  }\n"
    "  Object.defineProperty(Clockless, 'name', { value: 'Date' });\n"
    "  Object.defineProperty(Clockless, 'length', { value: 7 });\n"
    "  Clockless.prototype = Given.prototype;\n"
    "  Clockless.UTC = Given.UTC;\n"
    "  Clockless.parse = Given.parse;\n"
    "  Clockless.now = clock;\n"
    "  Given.prototype.constructor = Clockless;\n"
    "  globalThis.Date = Clockless;\n"
    "  Math.random = none('code has no random numbers');\n"
    "  const drop = () => {};\n"
    "  globalThis.console = { log: drop, info: drop, warn: drop, error: drop, debug: drop };\n"
    "})();\n";

// What the library of C would take from a system.

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  (void)zone;
  memset(time, 0, sizeof *time);
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  (void)clock;
  memset(time, 0, sizeof *time);
  return 0;
}

struct tm *localtime_r(const time_t *restrict time, struct tm *restrict parts) {
  (void)time;
  memset(parts, 0, sizeof *parts);
  return parts;
}

// Output, of which there is none: the imports of the library, which nobody gives it.

#define NO_SUCH_CALL 52

int __imported_wasi_snapshot_preview1_fd_close(int file) {
  (void)file;
  return NO_SUCH_CALL;
}

int __imported_wasi_snapshot_preview1_fd_fdstat_get(int file, int state) {
  (void)file, (void)state;
  return NO_SUCH_CALL;
}

int __imported_wasi_snapshot_preview1_fd_seek(int file, int64_t by, int from, int at) {
  (void)file, (void)by, (void)from, (void)at;
  return NO_SUCH_CALL;
}

int __imported_wasi_snapshot_preview1_fd_write(int file, int parts, int count, int written) {
  (void)file, (void)parts, (void)count, (void)written;
  return NO_SUCH_CALL;
}

_Noreturn void abort(void) { __builtin_trap(); }

_Noreturn void __assert_fail(const char *what, const char *file, int line, const char *function) {
  (void)what, (void)file, (void)line, (void)function;
  __builtin_trap();
}

// Texts

// Copies a text into the area. Returns its length.
static int tell(const char *text) {
  size_t length = strlen(text);
  if (length > AREA_BYTES) length = AREA_BYTES;
  memcpy(area, text, length);
  return (int)length;
}

// Copies the message of the exception, with the place where it was thrown, into the area. Returns its length.
static int tell_exception(void) {
  JSValue exception = JS_GetException(context);
  const char *text = JS_ToCString(context, exception);
  int length = tell(text ? text : "an exception without a text");
  JS_FreeCString(context, text);
  JSValue stack = JS_IsError(exception) ? JS_GetPropertyStr(context, exception, "stack") : JS_UNDEFINED;
  const char *place = JS_IsString(stack) ? JS_ToCString(context, stack) : NULL;
  if (place) {
    size_t more = strlen(place);
    if (more > 1000) more = 1000;
    if (length + 1 + more <= AREA_BYTES) {
      area[length] = '\n';
      memcpy(area + length + 1, place, more);
      length += (int)more + 1;
    }
    JS_FreeCString(context, place);
  }
  JS_FreeValue(context, stack);
  JS_FreeValue(context, exception);
  return length;
}

// Replaces halves of surrogate pairs, which are three bytes that begin with ED A0 to ED BF.
static void mend(uint8_t *text, size_t length) {
  for (size_t at = 0; at + 2 < length; at++) {
    if (text[at] == 0xED && text[at + 1] >= 0xA0) memcpy(text + at, "\xEF\xBF\xBD", 3);
  }
}

// The host of the script

static JSValue host_call(JSContext *ctx, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  int32_t length;
  if (count < 1 || JS_ToInt32(ctx, &length, values[0])) return JS_EXCEPTION;
  return JS_NewInt32(ctx, overtake_call(length));
}

static JSValue host_encode(JSContext *ctx, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  size_t length;
  const char *text = count < 1 ? NULL : JS_ToCStringLen(ctx, &length, values[0]);
  if (!text) return JS_EXCEPTION;
  JSValue bytes = JS_NewArrayBufferCopy(ctx, (const uint8_t *)text, length);
  JS_FreeCString(ctx, text);
  uint8_t *copy = JS_GetArrayBuffer(ctx, &length, bytes);
  if (copy) mend(copy, length);
  return bytes;
}

static JSValue host_decode(JSContext *ctx, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  uint32_t at, length;
  if (count < 2 || JS_ToUint32(ctx, &at, values[0]) || JS_ToUint32(ctx, &length, values[1])) return JS_EXCEPTION;
  if (at > AREA_BYTES || length > AREA_BYTES - at) return JS_ThrowRangeError(ctx, "beyond the area");
  return JS_NewStringLen(ctx, (const char *)area + at, length);
}

static JSValue host_start(JSContext *ctx, JSValueConst self, int count, JSValueConst *values) {
  (void)self;
  if (count < 2 || !JS_IsFunction(ctx, values[1])) return JS_ThrowTypeError(ctx, "start takes a text and a function");
  if (manifest) return JS_ThrowTypeError(ctx, "the module has started already");
  const char *text = JS_ToCString(ctx, values[0]);
  if (!text) return JS_EXCEPTION;
  manifest = strdup(text);
  JS_FreeCString(ctx, text);
  entered = JS_DupValue(ctx, values[1]);
  return JS_UNDEFINED;
}

static int evaluate(const char *script, size_t length, const char *name) {
  JSValue value = JS_Eval(context, script, length, name, JS_EVAL_TYPE_GLOBAL);
  int failed = JS_IsException(value);
  JS_FreeValue(context, value);
  return failed;
}

static int define_host(void) {
  JSValue host = JS_NewObject(context);
  JSValue bytes = JS_NewArrayBuffer(context, area, AREA_BYTES, 0, NULL, NULL, false);
  JSValue global = JS_GetGlobalObject(context);
  int failed = JS_SetPropertyStr(context, host, "area", bytes) < 0 ||
               JS_SetPropertyStr(context, host, "call", JS_NewCFunction(context, host_call, "call", 1)) < 0 ||
               JS_SetPropertyStr(context, host, "encode", JS_NewCFunction(context, host_encode, "encode", 1)) < 0 ||
               JS_SetPropertyStr(context, host, "decode", JS_NewCFunction(context, host_decode, "decode", 2)) < 0 ||
               JS_SetPropertyStr(context, host, "start", JS_NewCFunction(context, host_start, "start", 2)) < 0 ||
               JS_SetPropertyStr(context, global, "overtakeHost", host) < 0;
  JS_FreeValue(context, global);
  return failed;
}

// Exports

__attribute__((export_name("overtake_area"))) int overtake_area(void) { return (int)(intptr_t)area; }

// Evaluates a script of so many bytes in memory of `overtake_room`. Returns the length of the manifest in the area, or
// of a message as a negative number.
__attribute__((export_name("overtake_load"))) int overtake_load(char *script, int length) {
  JSRuntime *runtime = JS_NewRuntime();
  context = runtime ? JS_NewContext(runtime) : NULL;
  if (!context) return -tell("no memory");
  JS_SetMaxStackSize(runtime, STACK_BYTES);
  if (define_host() || evaluate(PRELUDE, sizeof PRELUDE - 1, "prelude") ||
      evaluate(script, (size_t)length, "main.js")) {
    return -tell_exception();
  }
  free(script);
  if (!manifest) return -tell("the script does not call main()");
  int told = tell(manifest);
  free(manifest);
  JS_RunGC(runtime);
  return told;
}

// Returns memory for a script, with a zero behind it.
__attribute__((export_name("overtake_room"))) char *overtake_room(int length) {
  return calloc(1, (size_t)length + 1);
}

__attribute__((export_name("overtake_invoke"))) int overtake_invoke(int entry, int length) {
  JS_UpdateStackTop(JS_GetRuntime(context));
  JSValue values[2] = {JS_NewInt32(context, entry), JS_NewInt32(context, length)};
  JSValue result = JS_Call(context, entered, JS_UNDEFINED, 2, values);
  int32_t told;
  // The library raises what its entries throw, so nothing comes here but what it throws itself.
  if (JS_IsException(result) || JS_ToInt32(context, &told, result)) return -1;
  JS_FreeValue(context, result);
  return told;
}
