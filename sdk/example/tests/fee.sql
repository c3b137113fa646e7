SELECT amount, fee(amount) FROM (VALUES (50::bigint), (1000), (NULL)) AS t(amount);
SELECT sum(fee(n)) FROM generate_series(1::bigint, 3000) AS n;
