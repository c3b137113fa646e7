CREATE TABLE account (id bigint PRIMARY KEY, balance bigint NOT NULL CHECK (0 <= balance));
INSERT INTO account VALUES (1, 100), (2, 50);
