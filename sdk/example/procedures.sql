-- Signatures of the entries. `overtake proc deploy` runs this file after it has replaced the module.
CREATE OR REPLACE PROCEDURE transfer(payer bigint, payee bigint, amount bigint, OUT balance bigint)
    LANGUAGE wasm AS 'bank', 'transfer';

CREATE OR REPLACE FUNCTION fee(amount bigint) RETURNS bigint
    LANGUAGE wasm IMMUTABLE AS 'bank', 'fee';
