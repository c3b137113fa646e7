CREATE OR REPLACE FUNCTION new_order(
    warehouse int, district int, customer int, entered timestamp, items int[], supplies int[], quantities int[]
) RETURNS numeric LANGUAGE wasm AS 'orders', 'new_order';
