/* Library for stored procedures in C: bytes of values and calls, and both ways to the database. All numbers are little
 * endian, as are the machines that this runs on. */

#define _GNU_SOURCE
#include "overtake.h"

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the library is for little-endian machines"
#endif

enum { GET = 1, PUT, DELETE, SCAN, NEXT, CLOSE, EXECUTE, NOTICE, RAISE, EMIT, COMMIT, ROLLBACK, QUERY };
enum { ROWS_HEAD = 6, EMIT_BYTES = 64 << 10 };

/* Bytes that are written. */
typedef struct {
    char *data;
    uint32_t length;
} buffer;

static char request_data[OT_AREA_BYTES];
static char result_data[OT_AREA_BYTES];
static char emitted_data[OT_AREA_BYTES];
static char arguments_data[OT_AREA_BYTES];
static buffer request = {request_data, 0};
static buffer result = {result_data, ROWS_HEAD};
static buffer emitted = {emitted_data, 1 + ROWS_HEAD};
static uint32_t result_rows, emitted_rows;
static uint16_t result_width, emitted_width;
static ot_value arguments[OT_ARGUMENTS_MAX];
static unsigned arguments_count;
/* Answers that are not read yet. */
static const char *answer, *answer_end;

/* Sends the request, and waits for the answers. Does not return after an error. */
static void exchange(void);
/* Ends the invocation, after the database knows the error. */
static _Noreturn void end(void);

static void copy(void *to, const void *from, uint32_t length) {
    char *out = to;
    const char *in = from;
    while (length--) *out++ = *in++;
}

static uint32_t length_of(const char *text) {
    uint32_t length = 0;
    while (text && text[length]) length++;
    return length;
}

static void put(buffer *out, const void *data, uint32_t length) {
    if (OT_AREA_BYTES - out->length < length) {
        ot_raise("54000", out == &request ? "a batch of calls of the routine exceeds 1024 kB"
                                          : "a result of the routine exceeds 1024 kB", NULL);
    }
    copy(out->data + out->length, data, length);
    out->length += length;
}

static void put_u8(buffer *out, uint8_t value) { put(out, &value, 1); }
static void put_u16(buffer *out, uint16_t value) { put(out, &value, 2); }
static void put_u32(buffer *out, uint32_t value) { put(out, &value, 4); }

static void put_text(buffer *out, const char *text) {
    uint32_t length = length_of(text);
    /* A longer message would not fit. It is cut where a character begins. */
    if (OT_AREA_BYTES / 8 < length) {
        length = OT_AREA_BYTES / 8;
        while (((unsigned char)text[length] & 0xC0) == 0x80) length--;
    }
    put_u32(out, length);
    put(out, text, length);
}

static void put_value(buffer *out, const ot_value *value) {
    put_u8(out, value->kind);
    switch (value->kind) {
    case OT_NULL:
    case OT_FALSE:
    case OT_TRUE: break;
    case OT_INT:
    case OT_TIME:
    case OT_TIMESTAMP: put(out, &value->integer, 8); break;
    case OT_FLOAT: put(out, &value->real, 8); break;
    case OT_DECIMAL:
        put(out, &value->decimal.low, 8);
        put(out, &value->decimal.high, 8);
        put_u16(out, value->decimal.scale);
        break;
    case OT_DATE: put(out, &(int32_t){(int32_t)value->integer}, 4); break;
    case OT_UUID: put(out, value->uuid, 16); break;
    case OT_TEXT:
    case OT_BYTES:
    case OT_LITERAL:
        put_u32(out, value->bytes.length);
        put(out, value->bytes.data, value->bytes.length);
        break;
    case OT_ARRAY:
        /* The items as they were read, without those that ot_next_item has taken. */
        put_u32(out, value->items.count);
        put(out, value->items.data, (uint32_t)(value->items.end - value->items.data));
        break;
    default: ot_raise("42804", "a value has an unknown kind", NULL);
    }
}

static void put_values(buffer *out, uint16_t count, const ot_value *values) {
    for (uint16_t at = 0; at < count; at++) put_value(out, &values[at]);
}

static void take(const char **from, const char *end, void *to, uint32_t length) {
    if ((size_t)(end - *from) < length) ot_raise("39000", "answers are read in another order than calls were added", NULL);
    copy(to, *from, length);
    *from += length;
}

static ot_value take_value(const char **from, const char *end) {
    ot_value value = {0};
    int32_t days;
    take(from, end, &value.kind, 1);
    switch (value.kind) {
    case OT_NULL:
    case OT_FALSE:
    case OT_TRUE: break;
    case OT_INT:
    case OT_TIME:
    case OT_TIMESTAMP: take(from, end, &value.integer, 8); break;
    case OT_FLOAT: take(from, end, &value.real, 8); break;
    case OT_DECIMAL:
        take(from, end, &value.decimal.low, 8);
        take(from, end, &value.decimal.high, 8);
        take(from, end, &value.decimal.scale, 2);
        break;
    case OT_DATE:
        take(from, end, &days, 4);
        value.integer = days;
        break;
    case OT_UUID: take(from, end, value.uuid, 16); break;
    case OT_TEXT:
    case OT_BYTES:
    case OT_LITERAL:
        take(from, end, &value.bytes.length, 4);
        if ((size_t)(end - *from) < value.bytes.length) ot_raise("39000", "the server broke the protocol", NULL);
        value.bytes.data = *from;
        *from += value.bytes.length;
        break;
    case OT_ARRAY:
        take(from, end, &value.items.count, 4);
        value.items.data = *from;
        for (uint32_t at = 0; at < value.items.count; at++) take_value(from, end);
        value.items.end = *from;
        break;
    default: ot_raise("39000", "answers are read in another order than calls were added", NULL);
    }
    return value;
}

bool ot_next_item(ot_value *array, ot_value *item) {
    if (array->kind != OT_ARRAY) ot_raise("42804", "an array is expected", NULL);
    if (array->items.count == 0) return false;
    array->items.count--;
    *item = take_value(&array->items.data, array->items.end);
    return true;
}

ot_value ot_null(void) { return (ot_value){.kind = OT_NULL}; }
ot_value ot_bool(bool value) { return (ot_value){.kind = value ? OT_TRUE : OT_FALSE}; }
ot_value ot_int(int64_t value) { return (ot_value){.kind = OT_INT, .integer = value}; }
ot_value ot_float(double value) { return (ot_value){.kind = OT_FLOAT, .real = value}; }
ot_value ot_text(const char *text) { return ot_bytes(OT_TEXT, text, length_of(text)); }
ot_value ot_moment(enum ot_kind kind, int64_t value) { return (ot_value){.kind = (uint8_t)kind, .integer = value}; }

ot_value ot_bytes(enum ot_kind kind, const void *data, uint32_t length) {
    return (ot_value){.kind = (uint8_t)kind, .bytes = {data, length}};
}

ot_value ot_number(int64_t value, uint16_t scale) {
    return (ot_value){.kind = OT_DECIMAL, .decimal = {(uint64_t)value, value < 0 ? -1 : 0, scale}};
}

bool ot_is_null(ot_value value) { return value.kind == OT_NULL; }

static void expect(bool is_kind, ot_value value, const char *otherwise) {
    if (value.kind == OT_NULL) ot_raise("22004", "a value is expected instead of NULL", NULL);
    if (!is_kind) ot_raise("42804", otherwise, NULL);
}

bool ot_as_bool(ot_value value) {
    expect(value.kind == OT_TRUE || value.kind == OT_FALSE, value, "a boolean is expected");
    return value.kind == OT_TRUE;
}

int64_t ot_as_int(ot_value value) {
    expect(value.kind == OT_INT || (OT_DATE <= value.kind && value.kind <= OT_TIMESTAMP), value, "an integer is expected");
    return value.integer;
}

double ot_as_float(ot_value value) {
    expect(value.kind == OT_FLOAT || value.kind == OT_INT, value, "a floating-point number is expected");
    return value.kind == OT_INT ? (double)value.integer : value.real;
}

ot_value ot_argument(unsigned at) {
    if (arguments_count <= at) ot_raise("42703", "the entry has fewer arguments", NULL);
    return arguments[at];
}

static void add_row(buffer *out, uint32_t *rows, uint16_t *width, uint16_t count, const ot_value *values) {
    if (count == 0) return;
    if (*rows && *width != count) ot_raise("42804", "rows of the result have different numbers of columns", NULL);
    put_values(out, count, values);
    *width = count;
    ++*rows;
}

void ot_return(uint16_t count, const ot_value *values) {
    add_row(&result, &result_rows, &result_width, count, values);
}

static void flush(void) {
    if (emitted_rows == 0) return;
    emitted.data[0] = EMIT;
    copy(emitted.data + 1, &emitted_rows, 4);
    copy(emitted.data + 5, &emitted_width, 2);
    request.length = 0;
    put(&request, emitted.data, emitted.length);
    emitted.length = 1 + ROWS_HEAD;
    emitted_rows = 0;
    exchange();
}

void ot_emit(uint16_t count, const ot_value *values) {
    if (request.length) ot_raise("38000", "ot_emit among calls that have not run", NULL);
    add_row(&emitted, &emitted_rows, &emitted_width, count, values);
    if (EMIT_BYTES <= emitted.length) flush();
}

void ot_raise(const char *state, const char *message, const char *detail) {
    request.length = 0;
    put_u8(&request, RAISE);
    put(&request, state, 5);
    put_text(&request, message);
    put_text(&request, detail);
    put_text(&request, NULL);
    exchange();
    end();
}

static void add_table(uint8_t code, unsigned flags, uint16_t table) {
    put_u8(&request, code);
    put_u8(&request, flags & 1);
    put_u16(&request, table);
}

void ot_add_get(uint16_t table, unsigned flags, uint16_t count, const ot_value *key) {
    add_table(GET, flags, table);
    put_values(&request, count, key);
}

void ot_add_put(uint16_t table, unsigned flags, uint16_t count, const ot_value *row) {
    add_table(PUT, flags, table);
    put_values(&request, count, row);
}

void ot_add_delete(uint16_t table, uint16_t count, const ot_value *key) {
    put_u8(&request, DELETE);
    put_u16(&request, table);
    put_values(&request, count, key);
}

void ot_add_scan(uint16_t table, unsigned flags, uint16_t count, const ot_value *prefix) {
    add_table(SCAN, flags, table);
    put_u16(&request, count);
    put_values(&request, count, prefix);
}

void ot_add_execute(uint16_t statement, uint16_t count, const ot_value *parameters) {
    put_u8(&request, EXECUTE);
    put_u16(&request, statement);
    put_values(&request, count, parameters);
}

void ot_add_query(uint16_t statement, uint16_t count, const ot_value *parameters) {
    put_u8(&request, QUERY);
    put_u16(&request, statement);
    put_values(&request, count, parameters);
}

void ot_add_notice(unsigned level, const char *message) {
    put_u8(&request, NOTICE);
    put_u8(&request, (uint8_t)level);
    put_text(&request, message);
}

void ot_add_close(uint32_t cursor) {
    put_u8(&request, CLOSE);
    put_u32(&request, cursor);
}

void ot_add_commit(void) { put_u8(&request, COMMIT); }

void ot_add_rollback(void) { put_u8(&request, ROLLBACK); }

void ot_run(void) {
    if (request.length) exchange();
    request.length = 0;
}

bool ot_read_bool(void) {
    uint8_t value;
    take(&answer, answer_end, &value, 1);
    return value;
}

uint32_t ot_read_cursor(void) {
    uint32_t value;
    take(&answer, answer_end, &value, 4);
    return value;
}

void ot_read_values(unsigned count, ot_value *columns) {
    for (unsigned at = 0; at < count; at++) columns[at] = take_value(&answer, answer_end);
}

bool ot_read_row(unsigned count, ot_value *columns) {
    bool is_found = ot_read_bool();
    if (is_found) ot_read_values(count, columns);
    return is_found;
}

bool ot_read_executed(uint64_t *rows, uint32_t *cursor) {
    take(&answer, answer_end, rows, 8);
    bool has_rows = ot_read_bool();
    if (has_rows) *cursor = ot_read_cursor();
    return has_rows;
}

uint32_t ot_read_queried(uint64_t *rows, unsigned columns) {
    uint32_t count;
    uint16_t width;
    take(&answer, answer_end, rows, 8);
    take(&answer, answer_end, &count, 4);
    take(&answer, answer_end, &width, 2);
    if (count && width != columns) ot_raise("42703", "the query has another number of columns", NULL);
    return count;
}

bool ot_read_rest(uint32_t *cursor) {
    bool is_over = ot_read_bool();
    if (!is_over) *cursor = ot_read_cursor();
    return !is_over;
}

bool ot_fetch(uint32_t cursor, unsigned count, ot_value *columns) {
    uint32_t rows;
    uint16_t width;
    if (request.length) ot_raise("38000", "ot_fetch among calls that have not run", NULL);
    /* One row: those of a packet would be lost by the next call. */
    put_u8(&request, NEXT);
    put_u32(&request, cursor);
    put_u32(&request, 1);
    ot_run();
    take(&answer, answer_end, &rows, 4);
    take(&answer, answer_end, &width, 2);
    if (rows == 0) return false;
    if (width != count) ot_raise("42703", "the cursor has another number of columns", NULL);
    ot_read_values(count, columns);
    return true;
}

/* Runs an entry for each row of arguments. Returns the bytes of the result, which out points to. */
static uint32_t invoke(uint32_t entry, const char *data, uint32_t length, const char **out) {
    const char *from = arguments_data, *to = arguments_data + length;
    uint32_t rows;
    uint16_t width;
    copy(arguments_data, data, length);
    request.length = 0;
    result.length = ROWS_HEAD;
    emitted.length = 1 + ROWS_HEAD;
    result_rows = emitted_rows = 0;
    result_width = emitted_width = 0;
    if (ot_entries_count <= entry) ot_raise("39000", "the module has no such entry", NULL);
    take(&from, to, &rows, 4);
    take(&from, to, &width, 2);
    if (OT_ARGUMENTS_MAX < width) ot_raise("54023", "the entry has too many arguments", NULL);
    arguments_count = width;
    while (rows--) {
        for (uint16_t at = 0; at < width; at++) arguments[at] = take_value(&from, to);
        ot_entries[entry]();
    }
    if (request.length) ot_run();
    flush();
    copy(result.data, &result_rows, 4);
    copy(result.data + 4, &result_width, 2);
    *out = result.data;
    return result.length;
}

#ifdef __wasm__

__attribute__((import_module("overtake"), import_name("call"))) extern int32_t overtake_call(int32_t length);

static char area[OT_AREA_BYTES];

static void exchange(void) {
    copy(area, request.data, request.length);
    /* The server does not return after an error: it drops the module. */
    int32_t length = overtake_call((int32_t)request.length);
    answer = area;
    answer_end = area + length;
}

static void end(void) { __builtin_trap(); }

__attribute__((export_name("overtake_area"))) int32_t overtake_area(void) { return (int32_t)(intptr_t)area; }

__attribute__((export_name("overtake_invoke"))) int32_t overtake_invoke(int32_t entry, int32_t length) {
    const char *out;
    uint32_t made = invoke((uint32_t)entry, area, (uint32_t)length, &out);
    copy(area, out, made);
    return (int32_t)made;
}

/* Compilers turn loops into calls of these. */
void *memcpy(void *to, const void *from, size_t length) {
    char *out = to;
    const char *in = from;
    for (size_t at = 0; at < length; at++) ((volatile char *)out)[at] = in[at];
    return to;
}

void *memset(void *to, int byte, size_t length) {
    for (size_t at = 0; at < length; at++) ((volatile char *)to)[at] = (char)byte;
    return to;
}

#else

#include <errno.h>
#include <linux/futex.h>
#include <setjmp.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { INVOKE = 1, ANSWER, ABORT, READY, CALL, RETURN, FAIL };
enum { TURN = 64, HOST_SLEEPS = 68, WORKER_SLEEPS = 72, PLACE = 76, MESSAGE = 80, CONTENTS = 96, SPINS = 256 };
enum { SHARED_BYTES = 4096 + OT_AREA_BYTES };
/* Places of the worker: in a virtual machine, or on a kernel of its own. */
enum { IN_MACHINE = 1, OTHER_KERNEL = 2 };

/* Message of the server. */
static uint32_t message_kind, message_entry, message_length;
static const char *message;

static char *shared;                         /* NULL over a socket */
static uint32_t place;
/* Channel, or the doorbell by which both sides wake each other where no futex reaches the server's kernel. */
static int socket_descriptor;
static char socket_data[OT_AREA_BYTES];
static jmp_buf ended;

static _Noreturn void leave(const char *text) {
    fprintf(stderr, "overtake worker: %s\n", text);
    exit(1);
}

static _Atomic uint32_t *word(unsigned offset) { return (_Atomic uint32_t *)(void *)(shared + offset); }

static void send_all(const void *data, size_t length) {
    const char *from = data;
    while (length) {
        ssize_t sent = send(socket_descriptor, from, length, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR) continue;
        if (sent <= 0) exit(0);
        from += sent;
        length -= (size_t)sent;
    }
}

static void receive_all(void *data, size_t length) {
    char *to = data;
    while (length) {
        ssize_t received = recv(socket_descriptor, to, length, 0);
        if (received < 0 && errno == EINTR) continue;
        if (received <= 0) exit(0); /* The server has closed the channel. */
        to += received;
        length -= (size_t)received;
    }
}

static void send_message(uint32_t kind, const char *data, uint32_t length) {
    uint32_t head[3] = {kind, 0, length};
    if (!shared) {
        send_all(head, sizeof head);
        send_all(data, length);
        return;
    }
    memcpy(shared + CONTENTS, data, length);
    memcpy(shared + MESSAGE, head, sizeof head);
    atomic_store(word(TURN), 0);
    /* In a machine, the wait wakes the server as well. */
    if (place == IN_MACHINE || !atomic_load(word(HOST_SLEEPS))) return;
    if (place == OTHER_KERNEL) {
        send_all("\1", 1);
    } else {
        syscall(SYS_futex, word(TURN), FUTEX_WAKE, 1, NULL, NULL, 0);
    }
}

static void wait_for_turn(void) {
    for (int spins = 0; spins < SPINS && place != IN_MACHINE; spins++) {
        if (atomic_load_explicit(word(TURN), memory_order_acquire) == 1) return;
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
    }
    atomic_store(word(WORKER_SLEEPS), 1);
    while (atomic_load(word(TURN)) != 1) {
        char bell;
        if (place == OTHER_KERNEL) {
            receive_all(&bell, 1);
        } else {
            syscall(SYS_futex, word(TURN), FUTEX_WAIT, 0, NULL, NULL, 0);
        }
    }
    atomic_store(word(WORKER_SLEEPS), 0);
}

static void receive_message(void) {
    uint32_t head[3];
    if (shared) {
        wait_for_turn();
        memcpy(head, shared + MESSAGE, sizeof head);
    } else {
        receive_all(head, sizeof head);
    }
    message_kind = head[0];
    message_entry = head[1];
    message_length = head[2];
    if (OT_AREA_BYTES < message_length) leave("a message of the server is too long");
    if (shared) {
        message = shared + CONTENTS;
    } else {
        receive_all(socket_data, message_length);
        message = socket_data;
    }
}

static void exchange(void) {
    send_message(CALL, request.data, request.length);
    receive_message();
    if (message_kind != ANSWER) longjmp(ended, 1);
    answer = message;
    answer_end = message + message_length;
}

static void end(void) { longjmp(ended, 1); }

static void open_channel(void) {
    const char *channel = getenv("OVERTAKE_CHANNEL");
    int descriptor;
    if (channel && sscanf(channel, "unix_socket:%d", &descriptor) == 1) {
        socket_descriptor = descriptor;
    } else if (channel && sscanf(channel, "shared_memory:%d", &descriptor) == 1) {
        void *base = mmap(NULL, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, descriptor, 0);
        if (base == MAP_FAILED) leave(strerror(errno));
        shared = base;
        if (atomic_load(word(0)) != 2) leave("the shared memory has another layout than 2, that of this library");
        place = atomic_load(word(PLACE));
        socket_descriptor = descriptor + 1;
    } else {
        leave("OVERTAKE_CHANNEL must be shared_memory:FD or unix_socket:FD; Overtake starts this program");
    }
}

int main(int count, char **arguments_of_main) {
    if (count == 2 && strcmp(arguments_of_main[1], "--manifest") == 0) {
        fputs(ot_manifest, stdout);
        return fflush(stdout) == 0 ? 0 : 1;
    }
    open_channel();
    send_message(READY, NULL, 0);
    for (;;) {
        receive_message();
        if (message_kind != INVOKE) leave("a message that is no invocation");
        if (setjmp(ended) == 0) {
            const char *out;
            uint32_t made = invoke(message_entry, message, message_length, &out);
            send_message(RETURN, out, made);
        } else {
            send_message(FAIL, NULL, 0);
        }
    }
}

#endif
