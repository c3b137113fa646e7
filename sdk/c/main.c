/* Stored procedures of a bank. */

#include "overtake.h"

enum { ACCOUNT };

OT_MANIFEST("table account account (id, balance)\n"
            "entry transfer\n"
            "entry fee\n")

static int64_t balance(void) {
    ot_value row[2];
    if (!ot_read_row(2, row)) ot_raise("P0002", "an account does not exist", NULL);
    return ot_as_int(row[1]);
}

/* Moves an amount from one account to another, and returns the payer's new balance. */
static void transfer(void) {
    ot_value payer = ot_argument(0), payee = ot_argument(1), sum = ot_argument(2);
    if (ot_is_null(payer) || ot_is_null(payee) || ot_is_null(sum)) {
        ot_raise("22004", "payer, payee and amount must not be null", NULL);
    }
    int64_t amount = ot_as_int(sum);
    if (amount <= 0 || ot_as_int(payer) == ot_as_int(payee)) {
        ot_raise("22023", "the amount must be positive, and the accounts different", NULL);
    }
    ot_add_get(ACCOUNT, OT_LOCK, OT_ROW(payer));
    ot_add_get(ACCOUNT, OT_LOCK, OT_ROW(payee));
    ot_run();
    int64_t from = balance(), to = balance();
    if (from < amount) ot_raise("P0001", "the balance is too low", NULL);
    int64_t received;
    if (__builtin_add_overflow(to, amount, &received)) ot_raise("22003", "bigint out of range", NULL);
    ot_add_put(ACCOUNT, 0, OT_ROW(payer, ot_int(from - amount)));
    ot_add_put(ACCOUNT, 0, OT_ROW(payee, ot_int(received)));
    ot_run();
    ot_return(OT_ROW(ot_int(from - amount)));
}

/* Returns the fee of an amount: one percent, at least 1. */
static void fee(void) {
    ot_value amount = ot_argument(0);
    if (ot_is_null(amount)) {
        ot_return(OT_ROW(ot_null()));
        return;
    }
    int64_t fee = ot_as_int(amount) / 100;
    ot_return(OT_ROW(ot_int(fee < 1 ? 1 : fee)));
}

OT_ENTRIES(transfer, fee)
