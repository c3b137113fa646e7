/* Library for stored procedures in C: this header and overtake.c.
 *
 * A module defines its manifest and its entries:
 *
 *     enum { ACCOUNT };                                            // number of each table, in the manifest's order
 *     OT_MANIFEST("table account account (id, balance)\n"
 *                 "entry withdraw\n")
 *     static void withdraw(void) { ... }
 *     OT_ENTRIES(withdraw)                                         // in the manifest's order
 *
 * An entry runs once for each row of arguments. It reads them by ot_argument, and adds a row to the result by ot_return.
 *
 * No function returns after an error of the database: the invocation ends, as it does at ot_raise. So code needs no
 * checks, and must not keep anything in static variables that has to be undone.
 *
 * The library needs no C library in WebAssembly, and nothing but POSIX and Linux's futex in an executable. */

#ifndef OVERTAKE_H
#define OVERTAKE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Greatest size of a batch of calls, of its answers, and of a result. */
#define OT_AREA_BYTES (1u << 20)
/* Greatest number of arguments. */
#define OT_ARGUMENTS_MAX 128

/* Kinds of values. */
enum ot_kind {
    OT_NULL = 0,
    OT_FALSE = 1,
    OT_TRUE = 2,
    OT_INT = 3,       /* smallint, integer, bigint, oid: integer */
    OT_FLOAT = 4,     /* real, double precision: real */
    OT_DECIMAL = 5,   /* numeric: decimal */
    OT_TEXT = 6,      /* text and its like: bytes, UTF-8 */
    OT_BYTES = 7,     /* bytea: bytes */
    OT_DATE = 8,      /* integer: days since 1970-01-01 */
    OT_TIME = 9,      /* integer: microseconds since midnight */
    OT_TIMESTAMP = 10, /* integer: microseconds since 1970-01-01 UTC */
    OT_UUID = 11,     /* uuid */
    OT_LITERAL = 12,  /* any other type: bytes, the text form */
    OT_ARRAY = 13,    /* items: read them by ot_next_item. An array that was read can be passed on, none can be made */
};

/* Number high * 2^64 + low (two's complement), divided by 10^scale. */
typedef struct {
    uint64_t low;
    int64_t high;
    uint16_t scale;
} ot_decimal;

/* Value. The bytes of a value that was read are valid until the next ot_run; those of arguments, until the entry
 * returns. */
typedef struct {
    uint8_t kind;
    union {
        int64_t integer;
        double real;
        ot_decimal decimal;
        uint8_t uuid[16];
        struct {
            const char *data;
            uint32_t length;
        } bytes;
        struct {
            const char *data;
            const char *end;
            uint32_t count;
        } items;
    };
} ot_value;

/* Values made from those of C. */
ot_value ot_null(void);
ot_value ot_bool(bool value);
ot_value ot_int(int64_t value);
ot_value ot_float(double value);
ot_value ot_text(const char *text);
ot_value ot_bytes(enum ot_kind kind, const void *data, uint32_t length);
ot_value ot_moment(enum ot_kind kind, int64_t value);
/* The number value / 10^scale. */
ot_value ot_number(int64_t value, uint16_t scale);

/* Values of C. A value of another kind, and NULL, is an error of the invocation. */
bool ot_is_null(ot_value value);
bool ot_as_bool(ot_value value);
int64_t ot_as_int(ot_value value);
/* Takes the next item of an array; false after the last one. */
bool ot_next_item(ot_value *array, ot_value *item);
double ot_as_float(ot_value value);

/* Row of values, as the functions below take it: OT_ROW(ot_int(1), ot_text("x")). */
#define OT_ROW(...) (uint16_t)(sizeof((ot_value[]){__VA_ARGS__}) / sizeof(ot_value)), (ot_value[]){__VA_ARGS__}
/* Row without values. */
#define OT_NO_ROW 0, NULL

/* Returns an argument; the first is 0. */
ot_value ot_argument(unsigned at);
/* Adds a row to the result: the value of a function, or the OUT parameters of a procedure. */
void ot_return(uint16_t count, const ot_value *values);
/* Adds a row to the result of a set-returning function, whatever its number of rows. */
void ot_emit(uint16_t count, const ot_value *values);
/* Ends the invocation with this SQLSTATE and message. The detail may be NULL. */
_Noreturn void ot_raise(const char *state, const char *message, const char *detail);

/* Calls. Those of ot_add are collected; ot_run makes them at once, in order. Then the answers are read, in the same
 * order, by the function that is named here. Calls whose answer is empty are skipped. */
enum { OT_LOCK = 1 };       /* ot_add_get: lock the row, as SELECT ... FOR UPDATE */
enum { OT_INSERT = 1 };     /* ot_add_put: fail if there is such a row */
enum { OT_DESCENDING = 1 }; /* ot_add_scan: the greatest key first */
void ot_add_get(uint16_t table, unsigned flags, uint16_t count, const ot_value *key);    /* ot_read_row */
void ot_add_put(uint16_t table, unsigned flags, uint16_t count, const ot_value *row);    /* nothing */
void ot_add_delete(uint16_t table, uint16_t count, const ot_value *key);                 /* ot_read_bool */
void ot_add_scan(uint16_t table, unsigned flags, uint16_t count, const ot_value *prefix); /* ot_read_cursor */
void ot_add_execute(uint16_t statement, uint16_t count, const ot_value *parameters);     /* ot_read_executed */
void ot_add_query(uint16_t statement, uint16_t count, const ot_value *parameters);       /* ot_read_queried */
void ot_add_notice(unsigned level, const char *message); /* nothing; 0 debug, 1 log, 2 info, 3 notice, 4 warning */
void ot_add_close(uint32_t cursor);                      /* nothing */
/* The end of the transaction, after which another begins and cursors are closed: nothing. Only in a procedure that CALL runs
 * outside a transaction block. */
void ot_add_commit(void);
void ot_add_rollback(void);
void ot_run(void);

/* Reads the columns of a row. Returns false if there is no row. */
bool ot_read_row(unsigned count, ot_value *columns);
bool ot_read_bool(void);
uint32_t ot_read_cursor(void);
/* Reads the result of a statement. Returns true if it has rows, over which a cursor is open. */
bool ot_read_executed(uint64_t *rows, uint32_t *cursor);
/* Stores the number of rows that a query has changed or returned. Returns the number of rows, of so many columns, that
 * have come with the answer. Read each of them by ot_read_values, and what is behind them by ot_read_rest. */
uint32_t ot_read_queried(uint64_t *rows, unsigned columns);
void ot_read_values(unsigned count, ot_value *columns);
/* Returns true if rows are left, over which a cursor is open. */
bool ot_read_rest(uint32_t *cursor);

/* Fetches the next row of a cursor into columns. Returns false after the last. It makes a call of its own. */
bool ot_fetch(uint32_t cursor, unsigned count, ot_value *columns);

/* Definitions of a module. */
typedef void (*ot_entry)(void);
extern const char ot_manifest[];
extern const ot_entry ot_entries[];
extern const uint32_t ot_entries_count;
#define OT_MANIFEST(text) const char ot_manifest[] = "overtake 1\n" text;
#define OT_ENTRIES(...)                             \
    const ot_entry ot_entries[] = {__VA_ARGS__};    \
    const uint32_t ot_entries_count = sizeof ot_entries / sizeof *ot_entries;

#endif
