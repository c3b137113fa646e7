/** Stored procedures of a bank. */
final class Main {
    private static final Overtake overtake = new Overtake();
    private static final Overtake.Table ACCOUNT = overtake.table("account", "account", "id", "balance");

    public static void main(String[] arguments) throws Exception {
        overtake.procedure("transfer", Main::transfer);
        overtake.function("fee", Main::fee);
        overtake.run(arguments);
    }

    /** Moves an amount from one account to another, and returns the payer's new balance. */
    private static Overtake.Row transfer(Overtake.Call call, Overtake.Row arguments) {
        if (arguments.isNull(0) || arguments.isNull(1) || arguments.isNull(2)) {
            throw new Overtake.SqlError("22004", "payer, payee and amount must not be null");
        }
        long payer = arguments.getLong(0), payee = arguments.getLong(1), amount = arguments.getLong(2);
        if (amount <= 0 || payer == payee) {
            throw new Overtake.SqlError("22023", "the amount must be positive, and the accounts different");
        }
        Overtake.Batch batch = call.batch();
        batch.getForUpdate(ACCOUNT, payer);
        batch.getForUpdate(ACCOUNT, payee);
        Object[] rows = batch.run();
        long from = balance(rows[0]), to = balance(rows[1]);
        if (from < amount) throw new Overtake.SqlError("P0001", "the balance is too low");
        batch.put(ACCOUNT, payer, from - amount);
        batch.put(ACCOUNT, payee, sum(to, amount));
        batch.run();
        return new Overtake.Row(from - amount);
    }

    private static long sum(long balance, long amount) {
        try {
            return Math.addExact(balance, amount);
        } catch (ArithmeticException overflow) {
            throw new Overtake.SqlError("22003", "bigint out of range");
        }
    }

    private static long balance(Object row) {
        if (row == null) throw new Overtake.SqlError("P0002", "an account does not exist");
        return ((Overtake.Row) row).getLong(1);
    }

    /** Returns the fee of an amount: one percent, at least 1. */
    private static Object fee(Overtake.Call call, Overtake.Row arguments) {
        return arguments.isNull(0) ? null : Math.max(1, arguments.getLong(0) / 100);
    }
}
