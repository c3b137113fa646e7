CALL transfer(1, 2, 30, NULL);
SELECT id, balance FROM account ORDER BY id;

-- More than there is.
CALL transfer(1, 2, 1000, NULL);
CALL transfer(1, 9, 1, NULL);
CALL transfer(1, 2, NULL, NULL);
CALL transfer(NULL, 2, 1, NULL);
SELECT id, balance FROM account ORDER BY id;
