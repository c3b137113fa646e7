CALL transfer(1, 2, 30, NULL);
SELECT id, balance FROM account ORDER BY id;

-- Nothing, less than nothing, and to oneself.
CALL transfer(1, 2, 0, NULL);
CALL transfer(1, 2, -30, NULL);
CALL transfer(1, 1, 30, NULL);

-- More than there is.
CALL transfer(1, 2, 1000, NULL);
CALL transfer(1, 9, 1, NULL);
CALL transfer(1, 2, NULL, NULL);
CALL transfer(NULL, 2, 1, NULL);

-- More than an account can hold.
INSERT INTO account VALUES (3, 9223372036854775800);
CALL transfer(1, 3, 50, NULL);
SELECT id, balance FROM account ORDER BY id;
